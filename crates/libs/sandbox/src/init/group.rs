//! Control group of the program, from the init's side.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

use super::descriptors::adopt;
use crate::plan::GroupDescriptors;

/// Files for joining the group; the program's process joins before exec.
#[derive(Default)]
pub(crate) struct GroupEntry(Vec<File>);

/// Kernel statistics of the group.
pub(crate) struct Events {
    kills: File,
    tcp: Option<File>,
}

pub(crate) fn open(descriptors: GroupDescriptors) -> io::Result<(GroupEntry, Events)> {
    let entrances = descriptors.entrances.into_iter().map(|entrance| adopt(entrance).map(File::from));
    let entrances = GroupEntry(entrances.collect::<io::Result<_>>()?);
    let tcp = descriptors.tcp.map(adopt).transpose()?.map(File::from);
    Ok((entrances, Events { kills: adopt(descriptors.events)?.into(), tcp }))
}

impl GroupEntry {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Moves this process, and thereby all its future children, into the group.
    pub(crate) fn enter(&mut self) -> io::Result<()> {
        self.0.iter_mut().try_for_each(|entrance| entrance.write_all(b"0"))
    }
}

impl Events {
    /// Whether the kernel killed a process of the group for lack of memory.
    pub(crate) fn has_oom_kill(&self) -> bool {
        read(&self.kills, kills).is_some_and(|kills| kills > 0)
    }

    /// Returns the size of TCP buffers, if the kernel counts them separately; it does not enforce their limit for many
    /// connections.
    pub(crate) fn tcp_bytes(&self) -> u64 {
        self.tcp.as_ref().and_then(|file| read(file, |text| text.trim().parse().ok())).unwrap_or(0)
    }
}

fn read(file: &File, parse: impl Fn(&str) -> Option<u64>) -> Option<u64> {
    let mut text = [0; 1024];
    let length = file.read_at(&mut text, 0).ok()?;
    parse(str::from_utf8(text.get(..length)?).ok()?)
}

fn kills(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::kills;

    #[test]
    fn events_of_both_versions_are_parsed() {
        assert_eq!(kills("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"), Some(3));
        assert_eq!(kills("low 0\nhigh 0\nmax 7\noom 1\noom_kill 0\noom_group_kill 0\n"), Some(0));
        assert_eq!(kills("oom_kill_disable 0\n"), None);
    }
}
