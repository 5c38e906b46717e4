//! Identity of the process that owns a session. A successor on the same machine can tell that the owner is dead without
//! waiting for the lease to expire.
//!
//! Written as `<instance>@<boot>/<pid namespace>/<pid>/<start time>`. The boot id and the namespace define where a
//! process id is valid; the start time distinguishes processes that reuse an id. Without `/proc`, only the instance is
//! written and the lease alone decides.

use std::fs;

/// Identity of this process, with a check for dead processes.
#[derive(Debug, Clone)]
pub(super) struct Holder {
    text: String,
    /// Boot id and PID namespace in which process ids are comparable.
    pid_scope: Option<String>,
}

impl Holder {
    pub(super) fn of_this_process(instance: &str) -> Self {
        let pid_scope = pid_scope();
        let own = pid_scope.as_ref().and_then(|pid_scope| {
            let pid = std::process::id();
            Some(format!("{instance}@{pid_scope}/{pid}/{}", start_time(pid)?))
        });
        match own {
            Some(text) => Self { text, pid_scope },
            None => Self { text: instance.to_owned(), pid_scope: None },
        }
    }

    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether `other` was a process in this namespace that has ended. `false` if it cannot be determined.
    pub(super) fn is_dead(&self, other: &str) -> bool {
        let Some(pid_scope) = &self.pid_scope else { return false };
        let process = other
            .split_once('@')
            .and_then(|(_, process)| process.strip_prefix(pid_scope.as_str())?.strip_prefix('/')?.split_once('/'));
        let Some((pid, started)) = process else { return false };
        match pid.parse() {
            Ok(pid) => start_time(pid).is_none_or(|now| now != started),
            Err(_) => false,
        }
    }
}

fn pid_scope() -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
    let number: String = namespace.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
    Some(format!("{}/{number}", boot.trim()))
}

/// Field 22 of `/proc/<pid>/stat`: clock ticks between boot and the start of the process
/// (proc_pid_stat(5)). A process that has ended and is not reaped yet counts as gone.
fn start_time(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in field 2 may contain any characters, including parentheses and spaces.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    fields.nth(18).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reused_pid_is_recognized_by_start_time() {
        let own = Holder::of_this_process("i1");
        assert!(own.as_str().starts_with("i1@"), "{}", own.as_str());
        assert!(!own.is_dead(own.as_str()));
        let (before, _) = own.as_str().rsplit_once('/').unwrap();
        assert!(own.is_dead(&format!("{before}/1")), "another start is another process");
        let (pid_scope, _) = before.rsplit_once('/').unwrap();
        assert!(own.is_dead(&format!("{pid_scope}/4194305/1")), "no process has this number");
    }

    #[test]
    fn foreign_owner_is_never_reported_dead() {
        let own = Holder::of_this_process("i1");
        for other in ["i2", "i2@", "i2@other-boot/1/4194305/1", "", "i2@/x"] {
            assert!(!own.is_dead(other), "{other}");
        }
        let (before, _) = own.as_str().rsplit_once('/').unwrap();
        assert!(!own.is_dead(before));
    }
}
