//! As whom Chromium runs, and what the kernel grants it.

use std::io;

use agentd_process::BeforeExec;

use crate::{BrowserError, BrowserLimits};

/// Above the ids of the users that sandboxed programs run as, which are above those of the system.
const FIRST_ID: u32 = 0x7180_0000;
/// Where a container has only the usual 65,536 ids.
const FIRST_SMALL_ID: u32 = 61_000;
const SMALL_IDS: u32 = 900;

/// The user for a root daemon's Chromium: nobody else's, so that it reads no file and signals no
/// process of others. `None` where the daemon is an ordinary user, as whom it runs then.
pub(super) fn own_user() -> Result<Option<u32>, BrowserError> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let process = std::process::id();
    let candidates = [FIRST_ID + (process & 0xffff), FIRST_SMALL_ID + process % SMALL_IDS];
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    match candidates.into_iter().find(|id| is_mapped(&map, *id)) {
        Some(id) => Ok(Some(id)),
        None => Err(BrowserError::Unavailable(
            "agentd is root and has no other user ids to run Chromium as; run agentd as an ordinary user".to_owned(),
        )),
    }
}

/// Whether a user of that id exists in a user namespace with this map.
fn is_mapped(map: &str, id: u32) -> bool {
    map.lines().any(|line| {
        let numbers: Vec<u64> = line.split_ascii_whitespace().filter_map(|number| number.parse().ok()).collect();
        matches!(numbers.as_slice(), [first, _, count] if (*first..first + count).contains(&u64::from(id)))
    })
}

/// Bounds and the change of the user, in the new process.
#[allow(unsafe_code, reason = "between fork and exec there is nothing but system calls")]
pub(super) fn before_exec(user: Option<u32>, limits: &BrowserLimits) -> BeforeExec {
    let (threads, bytes) = (limits.threads, limits.process_bytes);
    // SAFETY: `enter` makes system calls with plain numbers and nothing else.
    unsafe { BeforeExec::new(move || enter(user, threads, bytes)) }
}

#[allow(unsafe_code, reason = "between fork and exec there is nothing but system calls")]
fn enter(user: Option<u32>, threads: u64, bytes: u64) -> io::Result<()> {
    // SAFETY: system calls with plain numbers, and pointers to values on this stack.
    unsafe {
        limit(libc::RLIMIT_DATA, bytes)?;
        limit(libc::RLIMIT_CORE, 0)?;
        libc::umask(0o077);
        let Some(id) = user else { return Ok(()) };
        limit(libc::RLIMIT_NPROC, threads)?;
        // The system calls, not the functions of the C library: those signal all threads of the daemon.
        check(libc::syscall(libc::SYS_setgroups, 0_usize, std::ptr::null::<u32>()))?;
        check(libc::syscall(libc::SYS_setresgid, id, id, id))?;
        check(libc::syscall(libc::SYS_setresuid, id, id, id))
    }
}

/// Lowers a limit; what is lower already stays.
#[allow(unsafe_code, reason = "between fork and exec there is nothing but system calls")]
fn limit(resource: libc::__rlimit_resource_t, most: u64) -> io::Result<()> {
    let mut now = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: pointers to a value on this stack.
    unsafe {
        check(libc::getrlimit(resource, &raw mut now).into())?;
        let most = most.min(now.rlim_max);
        check(libc::setrlimit(resource, &libc::rlimit { rlim_cur: most, rlim_max: most }).into())
    }
}

fn check(result: libc::c_long) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
