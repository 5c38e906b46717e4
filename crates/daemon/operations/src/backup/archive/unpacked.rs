//! The folder that an archive is unpacked into. Every step is relative to an open folder, so that a
//! path may be longer than the kernel takes in one piece, as it may be where the archive was made.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use agentd_sandbox::folder::FOLDER;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, fstatvfs, linkat, mkdirat, openat, symlinkat};
use rustix::io::Errno;

const NEW: OFlags =
    OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// What was made so far.
#[derive(Debug)]
pub(super) struct Unpacking {
    root: OwnedFd,
    /// Where the last thing was made; the next one is there most of the time.
    last: Option<(PathBuf, OwnedFd)>,
}

impl Unpacking {
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        Ok(Self { root: openat(CWD, folder, FOLDER, Mode::empty())?, last: None })
    }

    pub(super) fn make_folder(&mut self, path: &Path) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        Ok(mkdirat(parent, name, Mode::RWXU)?)
    }

    pub(super) fn make_file(&mut self, path: &Path) -> io::Result<File> {
        let (parent, name) = self.parent(path)?;
        Ok(File::from(openat(parent, name, NEW, Mode::RUSR | Mode::WUSR)?))
    }

    pub(super) fn make_link(&mut self, path: &Path, target: &OsStr) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        Ok(symlinkat(target, parent, name)?)
    }

    /// Gives a file that was made one more name.
    pub(super) fn make_hard_link(&mut self, path: &Path, target: &Path) -> io::Result<()> {
        let (held, old_name) = self.parent(target)?;
        let held = held.try_clone()?;
        let old_name = old_name.to_owned();
        let (parent, name) = self.parent(path)?;
        Ok(linkat(held, old_name.as_os_str(), parent, name, AtFlags::empty())?)
    }

    fn parent<'p>(&mut self, path: &'p Path) -> io::Result<(&OwnedFd, &'p OsStr)> {
        let name = path.file_name().ok_or(Errno::INVAL)?;
        let wanted = path.parent().unwrap_or(Path::new(""));
        let known = self.last.take().filter(|(known, _)| known == wanted);
        let (_, folder) = self.last.insert(match known {
            Some(known) => known,
            None => {
                let mut folder = self.root.try_clone()?;
                for name in wanted {
                    folder = openat(&folder, name, FOLDER, Mode::empty())?;
                }
                (wanted.to_path_buf(), folder)
            }
        });
        Ok((folder, name))
    }
}

/// What a file is given besides its content.
pub(super) struct Attributes {
    mode: u32,
    seconds: u64,
}

impl Attributes {
    pub(super) fn of(entry: &tar::Entry<'_, impl Read>) -> io::Result<Self> {
        let header = entry.header();
        Ok(Self { mode: header.mode()?, seconds: header.mtime()? })
    }

    pub(super) fn give(&self, file: Option<File>) -> io::Result<()> {
        let Some(file) = file else { return Ok(()) };
        file.set_permissions(std::fs::Permissions::from_mode(0o600 | self.mode & 0o777))?;
        match UNIX_EPOCH.checked_add(Duration::from_secs(self.seconds)) {
            Some(time) => file.set_modified(time),
            None => Ok(()),
        }
    }
}

/// The daemon goes on working while an archive is unpacked, so that must leave it something.
#[derive(Debug)]
pub(crate) struct Room {
    folder: OwnedFd,
    /// Until it is looked at again.
    unlooked: u64,
}

impl Room {
    const LOOK_EVERY_BYTES: u64 = 8 << 20;
    /// What a file takes beside its content.
    const OF_A_FILE: u64 = 4 << 10;

    pub(crate) fn of(folder: &Path) -> io::Result<Self> {
        Ok(Self { folder: openat(CWD, folder, FOLDER, Mode::empty())?, unlooked: Self::LOOK_EVERY_BYTES })
    }

    pub(super) fn take_file(&mut self) -> io::Result<()> {
        self.take(Self::OF_A_FILE)
    }

    /// Fails before the disk is full.
    pub(crate) fn take(&mut self, bytes: u64) -> io::Result<()> {
        self.unlooked += bytes;
        if self.unlooked < Self::LOOK_EVERY_BYTES {
            return Ok(());
        }
        self.unlooked = 0;
        let disk = fstatvfs(self.folder.as_fd())?;
        let bytes_left = disk.f_bavail.saturating_mul(disk.f_frsize);
        let is_short = bytes_left < reserve(disk.f_blocks.saturating_mul(disk.f_frsize), 1 << 30)
            // Not every file system counts files.
            || (disk.f_files > 0 && disk.f_favail < reserve(disk.f_files, 10_000));
        if is_short { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

/// What stays free: a hundredth, and no more than `most`.
fn reserve(all: u64, most: u64) -> u64 {
    (all / 100).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_may_be_longer_than_the_kernel_takes_at_once() {
        let root = tempfile::tempdir().unwrap();
        let mut unpacking = Unpacking::open(root.path()).unwrap();
        let mut path = PathBuf::new();
        for _ in 0..60 {
            path.push("n".repeat(200));
            unpacking.make_folder(&path).unwrap();
        }
        io::Write::write_all(&mut unpacking.make_file(&path.join("file")).unwrap(), b"content").unwrap();
        unpacking.make_hard_link(Path::new("again"), &path.join("file")).unwrap();
        unpacking.make_link(&path.join("link"), OsStr::new("file")).unwrap();
        assert_eq!(std::fs::read_to_string(root.path().join("again")).unwrap(), "content");
        assert!(unpacking.make_file(Path::new("again")).is_err());
        assert!(unpacking.make_file(Path::new("missing/file")).is_err());
        agentd_sandbox::folder::remove_path(&root.path().join("n".repeat(200))).unwrap();
    }

    #[test]
    fn a_disk_is_not_filled_to_its_end() {
        assert_eq!((reserve(100 << 30, 1 << 30), reserve(1 << 30, 1 << 30)), (1 << 30, (1 << 30) / 100));
        let mut room = Room::of(&std::env::temp_dir()).unwrap();
        room.take(1 << 40).expect("only what is left counts, and that is looked at");
    }
}
