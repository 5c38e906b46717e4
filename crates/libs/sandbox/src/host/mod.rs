//! What the daemon does around a run, outside the box: who the program is, what it can see, and
//! what is given back afterwards.

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

/// The version of Landlock that this kernel enforces; 0 where there is none.
#[allow(unsafe_code, reason = "a question to the kernel without a safe name")]
pub(crate) fn landlock_version() -> u32 {
    const VERSION_QUESTION: libc::c_uint = 1;
    // SAFETY: with this flag the call takes no memory and only answers a number.
    let version = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<libc::c_void>(), 0usize, VERSION_QUESTION)
    };
    u32::try_from(version).unwrap_or(0)
}

/// Whether the daemon has this right, by its number in linux/capability.h.
pub(crate) fn has_capability(number: u32) -> bool {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return false };
    status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|text| u64::from_str_radix(text.trim(), 16).ok())
        .is_some_and(|rights| rights >> number & 1 == 1)
}

/// Whether the daemon's users are the machine's own, or those of a container's user namespace.
pub(crate) fn is_initial_user_namespace() -> bool {
    std::fs::read_to_string("/proc/self/uid_map")
        .is_ok_and(|map| map.split_ascii_whitespace().eq(["0", "0", "4294967295"]))
}
