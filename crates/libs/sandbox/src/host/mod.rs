//! Daemon side of a run, outside the sandbox: identity of the program, visible files, and cleanup.

pub(crate) mod bubblewrap;
pub(crate) mod canary;
pub(crate) mod directories;
mod environment;
pub(crate) mod etc;
pub(crate) mod evaluation;
pub(crate) mod groups;
pub(crate) mod launch;
pub(crate) mod orphans;
pub(crate) mod paths;
pub(crate) mod stage;
pub(crate) mod users;

/// Returns the Landlock version of this kernel; 0 if it is not supported.
#[allow(unsafe_code, reason = "a question to the kernel without a safe name")]
pub(crate) fn landlock_version() -> u32 {
    const CREATE_RULESET_VERSION: libc::c_uint = 1;
    // SAFETY: with this flag the call uses no memory and only returns a number.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<libc::c_void>(),
            0usize,
            CREATE_RULESET_VERSION,
        )
    };
    u32::try_from(version).unwrap_or(0)
}

/// Whether the daemon has this capability, by its number in linux/capability.h.
pub(crate) fn has_capability(number: u32) -> bool {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return false };
    status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|text| u64::from_str_radix(text.trim(), 16).ok())
        .is_some_and(|rights| rights >> number & 1 == 1)
}

/// Whether the daemon is in the initial user namespace rather than in that of a container.
pub(crate) fn is_initial_user_namespace() -> bool {
    std::fs::read_to_string("/proc/self/uid_map")
        .is_ok_and(|map| map.split_ascii_whitespace().eq(["0", "0", "4294967295"]))
}
