//! User of the Chromium process and its resource limits.

use std::io;

use agentd_process::BeforeExec;

use crate::{BrowserError, BrowserLimits};

/// First user ID, above the range of sandboxed programs, which is above that of the system.
const FIRST_USER_ID: u32 = 0x7180_0000;
/// First user ID in a container with only the usual 65,536 IDs.
const FIRST_CONTAINER_USER_ID: u32 = 61_000;
const CONTAINER_USER_IDS: u32 = 900;

/// Returns the dedicated user ID for Chromium if the daemon is root, so that it reads no files and signals no processes
/// of other users. Returns `None` for an unprivileged daemon, whose user Chromium shares.
pub(super) fn dedicated_user() -> Result<Option<u32>, BrowserError> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let process = std::process::id();
    let candidates = [FIRST_USER_ID + (process & 0xffff), FIRST_CONTAINER_USER_ID + process % CONTAINER_USER_IDS];
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    match candidates.into_iter().find(|id| is_mapped(&map, *id)) {
        Some(id) => Ok(Some(id)),
        None => Err(BrowserError::Unavailable(
            "agentd runs as root and has no user id to run Chromium as; run agentd as a regular user".to_owned(),
        )),
    }
}

/// Whether this user ID exists in a user namespace with this map.
fn is_mapped(map: &str, id: u32) -> bool {
    map.lines().any(|line| {
        let numbers: Vec<u64> = line.split_ascii_whitespace().filter_map(|number| number.parse().ok()).collect();
        matches!(numbers.as_slice(), [first, _, count] if (*first..first + count).contains(&u64::from(id)))
    })
}

/// Returns the hook that sets resource limits and the user in the new process.
#[allow(unsafe_code, reason = "between fork and exec there is nothing but system calls")]
pub(super) fn before_exec(user: Option<u32>, limits: &BrowserLimits) -> BeforeExec {
    let (threads, bytes) = (limits.threads, limits.process_bytes);
    // SAFETY: `apply_restrictions` only makes system calls with plain numbers.
    unsafe { BeforeExec::new(move || apply_restrictions(user, threads, bytes)) }
}

#[allow(unsafe_code, reason = "between fork and exec there is nothing but system calls")]
fn apply_restrictions(user: Option<u32>, threads: u64, bytes: u64) -> io::Result<()> {
    // SAFETY: system calls with plain numbers, and pointers to values on this stack.
    unsafe {
        limit(libc::RLIMIT_DATA, bytes)?;
        limit(libc::RLIMIT_CORE, 0)?;
        libc::umask(0o077);
        let Some(id) = user else { return Ok(()) };
        limit(libc::RLIMIT_NPROC, threads)?;
        // Raw system calls: the C library functions would signal all threads of the daemon.
        check(libc::syscall(libc::SYS_setgroups, 0_usize, std::ptr::null::<u32>()))?;
        check(libc::syscall(libc::SYS_setresgid, id, id, id))?;
        check(libc::syscall(libc::SYS_setresuid, id, id, id))
    }
}

/// Lowers a resource limit; a lower existing limit stays.
#[allow(unsafe_code, reason = "between fork and exec there is nothing but system calls")]
fn limit(resource: libc::__rlimit_resource_t, value: u64) -> io::Result<()> {
    let mut now = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: pointers to a value on this stack.
    unsafe {
        check(libc::getrlimit(resource, &raw mut now).into())?;
        let value = value.min(now.rlim_max);
        check(libc::setrlimit(resource, &libc::rlimit { rlim_cur: value, rlim_max: value }).into())
    }
}

fn check(result: libc::c_long) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
