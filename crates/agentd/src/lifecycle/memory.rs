//! Gives back memory that is not in use: caches of the database, what was freed and the allocator
//! still keeps, and code and constants, those of the start above all.
//!
//! The kernel maps the pages around each piece of code that runs, so a start that touches a little
//! of everything leaves most of the binary resident for months. Unmapped, the pages stay in the
//! page cache, and what the daemon really uses is mapped again when it is used.

use std::path::Path;
use std::time::{Duration, Instant};

use agentd_store::Db;
use rustix::time::{ClockId, clock_gettime};

/// When the workers have had their turn and nothing of the start is needed any more.
const START_SETTLES_IN: Duration = Duration::from_millis(800);
const BETWEEN_LOOKS: Duration = Duration::from_secs(5);
/// While nothing happens: every look maps a little itself.
const BETWEEN_LOOKS_AT_REST: Duration = Duration::from_secs(20);
/// A daemon that is never quiet gives back all the same, but not more often.
const BETWEEN_RELEASES: Duration = Duration::from_secs(60);
/// Less is not worth the pages that are then mapped again.
const WORTHWHILE: u64 = 1 << 20;
/// A daemon that worked less than this between two looks is quiet.
const QUIET: Duration = Duration::from_millis(50);
/// One that worked less than this did nothing.
const AT_REST: Duration = Duration::from_millis(5);

/// Has threads share the pools of the allocator, one for each processor. It makes eight of them otherwise, and each
/// keeps what its threads once needed and the others cannot use. To be called before there are threads.
#[cfg(target_env = "gnu")]
#[allow(unsafe_code, reason = "the allocator is reached through C")]
pub fn share_allocator_arenas() {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    // SAFETY: sets a number of the allocator (mallopt(3)); a value that it does not take changes nothing.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, i32::try_from(processors.max(2)).unwrap_or(i32::MAX));
    }
}

#[cfg(not(target_env = "gnu"))]
pub fn share_allocator_arenas() {}

/// Gives back what is not in use whenever the daemon has come to rest. Never ends.
pub(super) async fn stay_small(db: Db, is_busy: impl Fn() -> bool) {
    tokio::time::sleep(START_SETTLES_IN).await;
    give_back(&db).await;
    let (mut needed, mut released) = (resident_bytes(), Instant::now());
    let mut pause = BETWEEN_LOOKS;
    loop {
        let worked_before = processor_time();
        tokio::time::sleep(pause).await;
        let worked = processor_time().saturating_sub(worked_before);
        pause = if worked > AT_REST { BETWEEN_LOOKS } else { (pause * 2).min(BETWEEN_LOOKS_AT_REST) };
        let is_quiet = worked <= QUIET;
        let is_time = !is_busy() && (is_quiet || released.elapsed() >= BETWEEN_RELEASES);
        if is_time && resident_bytes() > needed + WORTHWHILE {
            give_back(&db).await;
            (needed, released) = (resident_bytes(), Instant::now());
        }
    }
}

/// Of all threads together.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}

fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").ok().and_then(|text| {
        let resident = text.split_ascii_whitespace().nth(1)?;
        resident.parse::<u64>().ok()
    });
    pages.unwrap_or_default() * u64::try_from(rustix::param::page_size()).unwrap_or(4096)
}

/// Gives back what is not in use. Takes milliseconds, so it is for quiet moments.
async fn give_back(db: &Db) {
    db.release_caches().await;
    give_back_own();
}

fn give_back_own() {
    release_idle_code();
    // Last, since the look at the mappings takes memory itself.
    return_freed();
}

/// The allocator keeps freed memory for the next busy hour, and that is often far away.
#[cfg(target_env = "gnu")]
#[allow(unsafe_code, reason = "the allocator is reached through C")]
fn return_freed() {
    // SAFETY: takes the allocator's own locks and touches freed memory alone (malloc_trim(3)).
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(not(target_env = "gnu"))]
fn return_freed() {}

/// Unmaps the resident pages of the binary's code and constants. They come back one by one when they are used.
fn release_idle_code() {
    let Ok(maps) = std::fs::read_to_string("/proc/self/smaps") else { return };
    let Ok(program) = std::env::current_exe() else { return };
    for range in unchanged_parts(&maps, &program) {
        release(range);
    }
}

/// The address ranges of `/proc/self/smaps` that hold what stands in the file `program`, and nothing else: what
/// is not writable, and what was never written to either (the addresses that the linker filled in were).
fn unchanged_parts(maps: &str, program: &Path) -> Vec<(usize, usize)> {
    let mut parts = Vec::new();
    let mut part = None;
    for line in maps.lines() {
        let mut fields = line.split_ascii_whitespace();
        let Some(first) = fields.next() else { continue };
        if let Some((start, end)) = first.split_once('-') {
            let address = |text: &str| usize::from_str_radix(text, 16).ok();
            let is_read_alone = fields.next().is_some_and(|permissions| matches!(permissions, "r-xp" | "r--p"));
            let is_program = fields.nth(3).is_some_and(|path| Path::new(path) == program);
            part = address(start).zip(address(end)).filter(|_| is_read_alone && is_program);
        } else if first == "Anonymous:" {
            // Pages that differ from the file.
            let is_unchanged = fields.next() == Some("0");
            parts.extend(part.take().filter(|_| is_unchanged));
        }
    }
    parts
}

#[allow(unsafe_code, reason = "advising the kernel about memory is unsafe by signature")]
fn release((start, end): (usize, usize)) {
    let address = std::ptr::without_provenance_mut(start);
    // SAFETY: the range is a private mapping of the program file that cannot be written to, and the
    // kernel says that no page of it differs from the file; a page that is dropped is read from the
    // file again when it is next touched.
    let advised = unsafe { rustix::mm::madvise(address, end - start, rustix::mm::Advice::LinuxDontNeed) };
    if let Err(error) = advised {
        tracing::debug!(%error, "the code of the start stays resident");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
55aa00-55bb00 r--p 00000000 08:01 1234 /usr/bin/agentd
Rss: 8 kB
Anonymous: 0 kB
VmFlags: rd mr mw me
55bb00-55cc00 r-xp 00001000 08:01 1234 /usr/bin/agentd
Anonymous: 0 kB
55cc00-55dd00 r--p 00002000 08:01 1234 /usr/bin/agentd
Anonymous: 4 kB
55dd00-55ee00 rw-p 00003000 08:01 1234 /usr/bin/agentd
Anonymous: 0 kB
7faa00-7fbb00 r-xp 00001000 08:01 1235 /usr/lib/libc.so.6
Anonymous: 0 kB
7fbb00-7fcc00 r--p 00000000 00:00 0
Anonymous: 0 kB
";

    #[test]
    fn only_what_stands_in_the_program_is_chosen() {
        let parts = unchanged_parts(MAPS, Path::new("/usr/bin/agentd"));
        assert_eq!(parts, [(0x55aa00, 0x55bb00), (0x55bb00, 0x55cc00)]);
        assert_eq!(unchanged_parts("", Path::new("/usr/bin/agentd")), []);
    }

    #[test]
    fn code_runs_on_after_its_pages_were_released() {
        give_back_own();
        assert!(std::fs::read_to_string("/proc/self/smaps").is_ok());
    }
}
