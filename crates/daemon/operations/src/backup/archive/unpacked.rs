//! Folder that an archive is unpacked into. All operations are relative to an open folder, because a path can exceed
//! the kernel's limit, as it could in the original workspace.

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

const CREATE_FLAGS: OFlags =
    OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Folder being filled.
#[derive(Debug)]
pub(super) struct Unpacking {
    root: OwnedFd,
    /// Parent folder of the previous entry, which is usually also the parent of the next one.
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
        Ok(File::from(openat(parent, name, CREATE_FLAGS, Mode::RUSR | Mode::WUSR)?))
    }

    pub(super) fn make_link(&mut self, path: &Path, target: &OsStr) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        Ok(symlinkat(target, parent, name)?)
    }

    /// Adds another name to a created file.
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

/// Attributes of a file other than its content.
pub(super) struct Attributes {
    mode: u32,
    seconds: u64,
}

impl Attributes {
    pub(super) fn of(entry: &tar::Entry<'_, impl Read>) -> io::Result<Self> {
        let header = entry.header();
        Ok(Self { mode: header.mode()?, seconds: header.mtime()? })
    }

    pub(super) fn apply_to(&self, file: Option<File>) -> io::Result<()> {
        let Some(file) = file else { return Ok(()) };
        file.set_permissions(std::fs::Permissions::from_mode(0o600 | self.mode & 0o777))?;
        match UNIX_EPOCH.checked_add(Duration::from_secs(self.seconds)) {
            Some(time) => file.set_modified(time),
            None => Ok(()),
        }
    }
}

/// Guard against filling the disk, because the daemon keeps running while an archive is unpacked.
#[derive(Debug)]
pub(crate) struct DiskGuard {
    folder: OwnedFd,
    /// Number of bytes written since the last check of the disk.
    unchecked: u64,
}

impl DiskGuard {
    const CHECK_INTERVAL_BYTES: u64 = 8 << 20;
    /// Space that a file takes in addition to its content.
    const FILE_OVERHEAD_BYTES: u64 = 4 << 10;

    pub(crate) fn of(folder: &Path) -> io::Result<Self> {
        Ok(Self { folder: openat(CWD, folder, FOLDER, Mode::empty())?, unchecked: Self::CHECK_INTERVAL_BYTES })
    }

    pub(super) fn take_file(&mut self) -> io::Result<()> {
        self.take(Self::FILE_OVERHEAD_BYTES)
    }

    /// Accounts for `bytes`; fails before the disk is full.
    pub(crate) fn take(&mut self, bytes: u64) -> io::Result<()> {
        self.unchecked += bytes;
        if self.unchecked < Self::CHECK_INTERVAL_BYTES {
            return Ok(());
        }
        self.unchecked = 0;
        let disk = fstatvfs(self.folder.as_fd())?;
        let bytes_left = disk.f_bavail.saturating_mul(disk.f_frsize);
        let is_short = bytes_left < reserve(disk.f_blocks.saturating_mul(disk.f_frsize), 1 << 30)
            // Not every file system limits the number of files.
            || (disk.f_files > 0 && disk.f_favail < reserve(disk.f_files, 10_000));
        if is_short { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

/// Returns the amount to keep free: one percent, at most `most`.
fn reserve(all: u64, most: u64) -> u64 {
    (all / 100).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_may_exceed_the_kernel_limit() {
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
    fn free_space_is_reserved() {
        assert_eq!((reserve(100 << 30, 1 << 30), reserve(1 << 30, 1 << 30)), (1 << 30, (1 << 30) / 100));
        let mut disk_guard = DiskGuard::of(&std::env::temp_dir()).unwrap();
        disk_guard.take(1 << 40).expect("only the actual free space counts");
    }
}
