//! The control group of the program, as far as the init has to do with it.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

use super::adopt;
use crate::plan::GroupDescriptors;

/// The ways in; the program's process takes them before it becomes the program.
#[derive(Default)]
pub(crate) struct Entrances(Vec<File>);

/// What the kernel says about the group.
pub(crate) struct Events(File);

pub(crate) fn open(descriptors: GroupDescriptors) -> io::Result<(Entrances, Events)> {
    let entrances = descriptors.entrances.into_iter().map(|entrance| adopt(entrance).map(File::from));
    Ok((Entrances(entrances.collect::<io::Result<_>>()?), Events(adopt(descriptors.events)?.into())))
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
        let mut text = [0; 1024];
        let text = self.0.read_at(&mut text, 0).ok().and_then(|length| str::from_utf8(text.get(..length)?).ok());
        text.and_then(kills).is_some_and(|kills| kills > 0)
    }
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
