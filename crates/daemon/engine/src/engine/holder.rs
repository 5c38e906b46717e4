//! Who holds a session: this process, so that a successor on the same machine sees that it is gone
//! without waiting for the lease to end.
//!
//! Written as `<instance>@<boot>/<pid namespace>/<pid>/<start time>`. The boot's id and the
//! namespace say whether a process number means anything here; the start time says whether it is
//! still the same process. Where `/proc` does not tell, only the instance is written, and the
//! lease decides alone.

use std::fs;

/// This process, and how to tell whether others live.
#[derive(Debug, Clone)]
pub(super) struct Holder {
    text: String,
    /// Boot and namespace, in which process numbers mean the same as here.
    place: Option<String>,
}

impl Holder {
    pub(super) fn of_this_process(instance: &str) -> Self {
        let place = place();
        let own = place.as_ref().and_then(|place| {
            let pid = std::process::id();
            Some(format!("{instance}@{place}/{pid}/{}", start_time(pid)?))
        });
        match own {
            Some(text) => Self { text, place },
            None => Self { text: instance.to_owned(), place: None },
        }
    }

    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether that holder was a process here that is gone. `false` where it cannot be known.
    pub(super) fn knows_dead(&self, other: &str) -> bool {
        let Some(place) = &self.place else { return false };
        let process = other
            .split_once('@')
            .and_then(|(_, process)| process.strip_prefix(place.as_str())?.strip_prefix('/')?.split_once('/'));
        let Some((pid, started)) = process else { return false };
        match pid.parse() {
            Ok(pid) => start_time(pid).is_none_or(|now| now != started),
            Err(_) => false,
        }
    }
}

fn place() -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
    let number: String = namespace.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
    Some(format!("{}/{number}", boot.trim()))
}

/// Field 22 of `/proc/<pid>/stat`: clock ticks between boot and the start of the process
/// (proc_pid_stat(5)). A process that has ended and is not reaped yet counts as gone.
fn start_time(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in field 2 may hold anything, parentheses and blanks included.
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
    fn a_process_is_known_by_more_than_its_number() {
        let own = Holder::of_this_process("i1");
        assert!(own.as_str().starts_with("i1@"), "{}", own.as_str());
        assert!(!own.knows_dead(own.as_str()));
        let (before, _) = own.as_str().rsplit_once('/').unwrap();
        assert!(own.knows_dead(&format!("{before}/1")), "another start is another process");
        let (place, _) = before.rsplit_once('/').unwrap();
        assert!(own.knows_dead(&format!("{place}/4194305/1")), "no process has this number");
    }

    #[test]
    fn elsewhere_the_lease_decides() {
        let own = Holder::of_this_process("i1");
        for other in ["i2", "i2@", "i2@other-boot/1/4194305/1", "", "i2@/x"] {
            assert!(!own.knows_dead(other), "{other}");
        }
        let (before, _) = own.as_str().rsplit_once('/').unwrap();
        assert!(!own.knows_dead(before));
    }
}
