//! Gives back memory that is not in use: what was freed and the allocator still keeps, and code,
//! that of the start above all.
//!
//! The kernel maps the pages around each piece of code that runs, so a start that touches a little
//! of everything leaves most of the binary resident for months. Unmapped, the pages stay in the
//! page cache, and what the daemon really uses is mapped again when it is used.

use std::path::Path;

/// Gives back what is not in use. Takes milliseconds, so it is for quiet moments.
pub(super) fn give_back() {
    return_freed();
    release_idle_code();
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

/// Unmaps the resident pages of the binary's code. They come back one by one when they run.
fn release_idle_code() {
    let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else { return };
    let Ok(program) = std::env::current_exe() else { return };
    for range in maps.lines().filter_map(|line| code_of(line, &program)) {
        release(range);
    }
}

/// The address range of a line of `/proc/self/maps`, if it is code of `program`.
fn code_of(line: &str, program: &Path) -> Option<(usize, usize)> {
    let mut fields = line.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let permissions = fields.next()?;
    let path = fields.nth(3)?;
    let is_code = permissions == "r-xp" && Path::new(path) == program;
    let address = |text: &str| usize::from_str_radix(text, 16).ok();
    is_code.then_some((address(start)?, address(end)?))
}

#[allow(unsafe_code, reason = "advising the kernel about memory is unsafe by signature")]
fn release((start, end): (usize, usize)) {
    let address = std::ptr::without_provenance_mut(start);
    // SAFETY: the range is a private mapping of the program file that is readable and executable,
    // never writable, so no page of it differs from the file; a page that is dropped is read from
    // the file again when it is next touched.
    let advised = unsafe { rustix::mm::madvise(address, end - start, rustix::mm::Advice::LinuxDontNeed) };
    if let Err(error) = advised {
        tracing::debug!(%error, "the code of the start stays resident");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_of_the_program_is_chosen() {
        let program = Path::new("/usr/bin/agentd");
        let line = |permissions: &str, path: &str| format!("55aa00-55bb00 {permissions} 00001000 08:01 1234  {path}");
        assert_eq!(code_of(&line("r-xp", "/usr/bin/agentd"), program), Some((0x55aa00, 0x55bb00)));
        assert_eq!(code_of(&line("rw-p", "/usr/bin/agentd"), program), None);
        assert_eq!(code_of(&line("r-xp", "/usr/lib/libc.so.6"), program), None);
        assert_eq!(code_of("", program), None);
    }

    #[test]
    fn code_runs_on_after_its_pages_were_released() {
        give_back();
        assert!(std::fs::read_to_string("/proc/self/maps").is_ok());
    }
}
