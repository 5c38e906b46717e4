//! Process tree inside the sandbox: enumeration and termination.

use std::collections::BTreeSet;
use std::fs;

use rustix::process::{Pid, Signal, WaitOptions, kill_process};

use crate::Tier;

/// Kernel statistics of one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) pid: i32,
    /// Thread under whose number `/proc` shows memory and descriptors: the first one, unless it has ended before the
    /// others.
    pub(crate) thread: i32,
    pub(crate) parent: i32,
    pub(crate) threads: u64,
    /// Page faults of the process and its ended children.
    pub(crate) faults: u64,
    /// Kernel time of the process and its ended children.
    pub(crate) system_ticks: u64,
    pub(crate) virtual_bytes: u64,
    pub(crate) resident_pages: u64,
}

/// Reads `/proc/<pid>/stat`; field numbers as in proc(5).
pub(crate) fn stat(pid: i32) -> Option<Stat> {
    let stat = parse_stat(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?;
    if stat.virtual_bytes > 0 || stat.threads < 2 {
        return Some(stat);
    }
    // The first thread of a process may end before the others, and then shows no data.
    let Some(living) = living_thread(pid) else { return Some(stat) };
    let Stat { virtual_bytes, resident_pages, .. } = living;
    Some(Stat { thread: living.pid, virtual_bytes, resident_pages, ..stat })
}

fn living_thread(pid: i32) -> Option<Stat> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
    let numbers = threads.filter_map(|thread| thread.file_name().to_str()?.parse::<i32>().ok());
    let stat = |thread| parse_stat(thread, &fs::read_to_string(format!("/proc/{pid}/task/{thread}/stat")).ok()?);
    numbers.filter_map(stat).find(|thread| thread.virtual_bytes > 0)
}

fn parse_stat(pid: i32, text: &str) -> Option<Stat> {
    // The program name may contain any characters, including closing brackets.
    let (_, rest) = text.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<i64>().ok();
    let count = |number: usize| field(number).and_then(|value| u64::try_from(value).ok());
    Some(Stat {
        pid,
        thread: pid,
        parent: i32::try_from(field(4)?).ok()?,
        threads: count(20)?,
        faults: count(10)?.saturating_add(count(11)?),
        system_ticks: count(15)?.saturating_add(count(17)?),
        virtual_bytes: fields.get(20)?.parse().ok()?,
        resident_pages: count(24)?,
    })
}

/// Returns every process inside, except this one.
pub(crate) fn processes(tier: Tier) -> Vec<Stat> {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    if tier == Tier::Bubblewrap {
        return all().filter(|process| process.pid != own).collect();
    }
    let mut found = BTreeSet::new();
    let mut to_visit = vec![own];
    while let Some(pid) = to_visit.pop() {
        let Some(children) = children(pid) else { return descendants(own) };
        to_visit.extend(children.into_iter().filter(|child| found.insert(*child)));
    }
    found.into_iter().filter_map(stat).collect()
}

/// Returns every process visible to this one.
pub(crate) fn all() -> impl Iterator<Item = Stat> {
    let entries = fs::read_dir("/proc").ok();
    entries
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str().and_then(|name| name.parse().ok()))
        .filter_map(stat)
}

/// Returns the children of a process; `None` if this kernel has no lists of children.
fn children(pid: i32) -> Option<Vec<i32>> {
    // A process that has ended has no children left: this process has adopted them, and sees them next time.
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Some(Vec::new()) };
    let mut children = Vec::new();
    for thread in threads.flatten() {
        match fs::read_to_string(thread.path().join("children")) {
            Ok(text) => children.extend(text.split_ascii_whitespace().filter_map(|pid| pid.parse::<i32>().ok())),
            Err(_) if thread.path().join("stat").exists() => return None,
            Err(_) => {}
        }
    }
    Some(children)
}

/// Finds descendants by searching all processes of the machine.
fn descendants(own: i32) -> Vec<Stat> {
    let all: Vec<Stat> = all().collect();
    let mut known = BTreeSet::from([own]);
    // Parents may be listed after their children, so the search is repeated until nothing is added.
    loop {
        let before = known.len();
        known.extend(
            all.iter().filter(|process| known.contains(&process.parent)).map(|process| process.pid).collect::<Vec<_>>(),
        );
        if known.len() == before {
            break;
        }
    }
    known.remove(&own);
    all.into_iter().filter(|process| known.contains(&process.pid)).collect()
}

/// Returns the number of processes and threads of this process's user on the whole machine.
pub(crate) fn count_of_user() -> u64 {
    use std::os::unix::fs::MetadataExt;
    let user = rustix::process::getuid().as_raw();
    let is_own = |process: &Stat| fs::metadata(format!("/proc/{}", process.pid)).is_ok_and(|entry| entry.uid() == user);
    all().filter(is_own).map(|process| process.threads).sum()
}

/// Signals everything in the namespace except this process, which is process 1.
#[allow(unsafe_code, reason = "there is no safe name for `every process`")]
fn signal_namespace(signal: Signal) {
    // SAFETY: a system call with plain numbers.
    unsafe { libc::kill(-1, signal.as_raw()) };
}

fn signal_process(process: &Stat, signal: Signal) {
    if let Some(pid) = Pid::from_raw(process.pid) {
        let _ = kill_process(pid, signal);
    }
}

/// Kills and reaps every process inside. A killed process cannot fork, and its children are adopted by this process, so
/// each pass leaves fewer.
pub(crate) fn end_all(tier: Tier) {
    loop {
        if tier == Tier::Bubblewrap {
            signal_namespace(Signal::KILL);
        } else {
            processes(tier).iter().for_each(|process| signal_process(process, Signal::KILL));
        }
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
                Ok(None) => break,
                Err(_) => return,
            }
        }
        std::thread::sleep(std::time::Duration::from_micros(500));
    }
}

/// Pauses every process inside until it is dropped.
pub(crate) struct Pause {
    tier: Tier,
    /// Empty if a single call reaches all of them.
    paused: Vec<Stat>,
}

impl Pause {
    pub(crate) fn start(tier: Tier) -> Self {
        if tier == Tier::Bubblewrap {
            signal_namespace(Signal::STOP);
            return Self { tier, paused: Vec::new() };
        }
        let mut known = BTreeSet::new();
        let mut paused = Vec::new();
        // A process that forked before it was paused has left a running child, which the next pass finds.
        loop {
            let new: Vec<Stat> = processes(tier).into_iter().filter(|process| known.insert(process.pid)).collect();
            if new.is_empty() {
                return Self { tier, paused };
            }
            new.iter().for_each(|process| signal_process(process, Signal::STOP));
            paused.extend(new);
        }
    }

    /// Leaves the processes paused, for a caller that ends them next.
    pub(crate) fn leave_paused(self) {
        std::mem::forget(self);
    }
}

impl Drop for Pause {
    fn drop(&mut self) {
        if self.tier == Tier::Bubblewrap {
            signal_namespace(Signal::CONT);
        } else {
            self.paused.iter().for_each(|process| signal_process(process, Signal::CONT));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn program_name_with_brackets_and_spaces_is_parsed() {
        let text = "7 (a) S 1 (b) R 3 7 7 0 -1 0 8 9 0 0 0 2 0 4 20 0 5 0 100 4096 33 18446744073709551615 0\n";
        let stat = parse_stat(7, text).unwrap();
        let expected = Stat {
            pid: 7,
            thread: 7,
            parent: 3,
            threads: 5,
            faults: 17,
            system_ticks: 6,
            virtual_bytes: 4096,
            resident_pages: 33,
        };
        assert_eq!(stat, expected);
    }

    #[test]
    fn own_process_is_parsed() {
        let own = std::process::id() as i32;
        let stat = stat(own).unwrap();
        assert_eq!(stat.parent, std::os::unix::process::parent_id() as i32);
        assert!(stat.resident_pages > 0 && stat.virtual_bytes > stat.resident_pages && stat.threads >= 1);
    }

    proptest! {
        #[test]
        fn parsing_never_panics(text in "\\PC{0,80}\\) [0-9 a-zA-Z-]{0,200}") {
            let _ = parse_stat(1, &text);
        }
    }
}
