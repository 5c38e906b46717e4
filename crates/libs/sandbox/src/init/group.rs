//! The control group of the program, as far as the init has to do with it.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

use super::descriptors::adopt;
use crate::plan::GroupDescriptors;

/// The ways in; the program's process takes them before it becomes the program.
#[derive(Default)]
pub(crate) struct Entrances(Vec<File>);

/// What the kernel says about the group.
pub(crate) struct Events {
    kills: File,
    tcp: Option<File>,
}

pub(crate) fn open(descriptors: GroupDescriptors) -> io::Result<(Entrances, Events)> {
    let entrances = descriptors.entrances.into_iter().map(|entrance| adopt(entrance).map(File::from));
    let entrances = Entrances(entrances.collect::<io::Result<_>>()?);
    let tcp = descriptors.tcp.map(adopt).transpose()?.map(File::from);
    Ok((entrances, Events { kills: adopt(descriptors.events)?.into(), tcp }))
}

impl Entrances {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Moves this process, and with it all that it will start.
    pub(crate) fn enter(&mut self) -> io::Result<()> {
        self.0.iter_mut().try_for_each(|entrance| entrance.write_all(b"0"))
    }
}

impl Events {
    /// Whether the kernel ended a process of the group for want of memory.
    pub(crate) fn tell_of_a_kill(&self) -> bool {
        read(&self.kills, kills).is_some_and(|kills| kills > 0)
    }

    /// What buffers of TCP have, where the kernel counts them by themselves; it does not hold them
    /// to their limit when the connections are many.
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
    fn both_versions_are_understood() {
        assert_eq!(kills("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"), Some(3));
        assert_eq!(kills("low 0\nhigh 0\nmax 7\noom 1\noom_kill 0\noom_group_kill 0\n"), Some(0));
        assert_eq!(kills("oom_kill_disable 0\n"), None);
    }
}
