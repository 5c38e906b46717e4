//! Mount namespace in which a root daemon makes its files available to an unprivileged program: the files are at their
//! usual paths and belong to the program's user, to which the process then switches.
//!
//! Everything is computed before the fork; afterwards, only system calls are made.
//!
//! Directories that the user may not traverse (such as a home of mode 0700) are covered by an empty file system that
//! contains only the path to the opened files. This also hides their other contents.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use agentd_process::BeforeExec;
use rustix::fs::{Mode, OFlags};

use super::paths::Exposure;
use super::users::UserLease;
use crate::plan::ENTRY_BYTES;

/// Maximum number of paths of one run, in addition to the system's.
pub(crate) const MAX_EXPOSURES: usize = 256;
/// Options of an empty file system with a few directories.
const COVER_OPTIONS: &str = "mode=0755,size=1m,nr_inodes=4k";

#[derive(Debug)]
struct MappedMount {
    /// Opened by the daemon, so that the file cannot be replaced under its name.
    source: OwnedFd,
    target: CString,
    is_directory: bool,
    writable: bool,
    /// Whether its mount point must be created.
    is_covered: bool,
}

#[derive(Debug)]
struct Cover {
    target: CString,
    options: CString,
}

/// Mount namespace for one run.
#[derive(Debug)]
pub(crate) struct Stage {
    user: u32,
    namespace: std::sync::Arc<OwnedFd>,
    /// Whether everything else is read-only. World-writable files are not protected by their modes, and Landlock does
    /// not cover them.
    is_rest_read_only: bool,
    covers: Vec<Cover>,
    directories: Vec<CString>,
    lent: Vec<MappedMount>,
}

impl Stage {
    /// Creates the stage. With `own_tmp_bytes`, the program remains in this namespace and gets a private `/tmp` of this
    /// size.
    pub(crate) fn new(user: &UserLease, exposures: &[Exposure], own_tmp_bytes: Option<u64>) -> io::Result<Self> {
        let mut roots: BTreeSet<PathBuf> =
            exposures.iter().filter_map(|exposure| find_inaccessible_ancestor(&exposure.path)).collect();
        let id = user.id();
        let mut covers = Vec::new();
        if let Some(bytes) = own_tmp_bytes {
            let tmp = PathBuf::from("/tmp");
            roots.retain(|root| !root.starts_with(&tmp));
            // Entries use memory too, in addition to the contents of files.
            let entries = bytes / ENTRY_BYTES;
            covers.push(Cover {
                target: text(&tmp)?,
                options: CString::new(format!("mode=0700,uid={id},gid={id},size={bytes},nr_inodes={entries}"))?,
            });
            roots.insert(tmp);
        }
        // A root within another is covered with it.
        let roots: Vec<PathBuf> = roots
            .iter()
            .filter(|root| !roots.iter().any(|other| *root != other && root.starts_with(other)))
            .cloned()
            .collect();
        for root in roots.iter().filter(|root| own_tmp_bytes.is_none() || **root != Path::new("/tmp")) {
            covers.push(Cover { target: text(root)?, options: CString::new(COVER_OPTIONS)? });
        }
        let mut directories = BTreeSet::new();
        let mut lent = Vec::new();
        for exposure in exposures {
            let root = roots.iter().find(|root| exposure.path.starts_with(root));
            if let Some(root) = root {
                let ways = exposure.path.ancestors().skip(1).take_while(|way| way != root && way.starts_with(root));
                directories.extend(ways.map(Path::to_path_buf));
            }
            lent.push(MappedMount {
                source: rustix::fs::open(
                    &exposure.path,
                    OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
                    Mode::empty(),
                )?,
                target: text(&exposure.path)?,
                is_directory: exposure.is_directory,
                writable: exposure.writable,
                is_covered: root.is_some(),
            });
        }
        Ok(Self {
            user: id,
            namespace: std::sync::Arc::clone(&user.namespace),
            is_rest_read_only: own_tmp_bytes.is_some(),
            covers,
            // Sorted, so each directory follows its parent.
            directories: directories.iter().map(|path| text(path)).collect::<io::Result<_>>()?,
            lent,
        })
    }

    #[allow(unsafe_code, reason = "what runs after the fork is vouched for here")]
    pub(crate) fn before_exec(self) -> BeforeExec {
        // SAFETY: `enter` only makes system calls, with prepared memory and its stack.
        unsafe { BeforeExec::new(move || self.enter()) }
    }

    fn enter(&self) -> io::Result<()> {
        let mut mounts: [RawFd; MAX_EXPOSURES] = [-1; MAX_EXPOSURES];
        // Must happen in the daemon's own namespace, the only one in which its mounts can be copied.
        for (lent, mount) in self.lent.iter().zip(mounts.iter_mut()) {
            *mount = self.copy_mount(lent)?;
        }
        calls::unshare_mounts()?;
        if self.is_rest_read_only {
            calls::make_all_read_only()?;
        }
        for cover in &self.covers {
            calls::mount_tmpfs(&cover.target, &cover.options)?;
        }
        for directory in &self.directories {
            calls::make_directory(directory)?;
        }
        for (lent, mount) in self.lent.iter().zip(mounts) {
            if lent.is_covered && lent.is_directory {
                calls::make_directory(&lent.target)?;
            } else if lent.is_covered {
                calls::make_file(&lent.target)?;
            }
            calls::attach(mount, &lent.target)?;
        }
        calls::become_user(self.user)
    }

    fn copy_mount(&self, lent: &MappedMount) -> io::Result<RawFd> {
        let mount = calls::copy_mount(lent.source.as_raw_fd())?;
        calls::map_mount(mount, lent.writable, self.namespace.as_raw_fd())?;
        Ok(mount)
    }
}

/// Returns the outermost directory on the way to `path` that other users may not traverse.
fn find_inaccessible_ancestor(path: &Path) -> Option<PathBuf> {
    let mut ways: Vec<&Path> = path.ancestors().skip(1).collect();
    ways.reverse();
    ways.into_iter()
        .find(|way| way.metadata().is_ok_and(|entry| entry.permissions().mode() & 0o001 == 0))
        .map(Path::to_path_buf)
}

fn text(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

/// System calls between fork and exec.
#[allow(unsafe_code, reason = "none of these calls has a safe name that promises not to allocate")]
mod calls {
    use std::ffi::CStr;
    use std::io;
    use std::os::fd::RawFd;

    /// `struct mount_attr` of linux/mount.h.
    #[repr(C)]
    struct MountAttributes {
        set: u64,
        clear: u64,
        propagation: u64,
        user_namespace: u64,
    }

    const OPEN_TREE_CLONE: libc::c_uint = 1;
    const MOVE_MOUNT_F_EMPTY_PATH: libc::c_uint = 4;
    const MOUNT_ATTR_RDONLY: u64 = 1;
    const MOUNT_ATTR_NOSUID: u64 = 2;
    const MOUNT_ATTR_NODEV: u64 = 4;
    const MOUNT_ATTR_IDMAP: u64 = 0x0010_0000;

    fn check(result: libc::c_long) -> io::Result<libc::c_long> {
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
    }

    /// Copies the mount of the object of a descriptor, without attaching it.
    pub(super) fn copy_mount(source: RawFd) -> io::Result<RawFd> {
        let flags = OPEN_TREE_CLONE | libc::O_CLOEXEC as libc::c_uint | libc::AT_EMPTY_PATH as libc::c_uint;
        // SAFETY: the text is static.
        let mount = check(unsafe { libc::syscall(libc::SYS_open_tree, source, c"".as_ptr(), flags) })?;
        Ok(mount as RawFd)
    }

    /// Maps user 0 on the disk to the user to which `namespace` maps 0.
    pub(super) fn map_mount(mount: RawFd, writable: bool, namespace: RawFd) -> io::Result<()> {
        let attributes = MountAttributes {
            set: MOUNT_ATTR_IDMAP | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | if writable { 0 } else { MOUNT_ATTR_RDONLY },
            clear: 0,
            propagation: 0,
            user_namespace: namespace as u64,
        };
        set_attributes(mount, c"", libc::AT_EMPTY_PATH, &attributes)
    }

    /// Creates a private mount namespace; subsequent mounts are only visible there.
    pub(super) fn unshare_mounts() -> io::Result<()> {
        // SAFETY: after a fork, no thread shares the namespace.
        check(unsafe { libc::unshare(libc::CLONE_NEWNS) }.into())?;
        let (none, flags) = (std::ptr::null(), libc::MS_REC | libc::MS_PRIVATE);
        // SAFETY: the text is static; the kernel ignores the other pointers here.
        check(unsafe { libc::mount(none, c"/".as_ptr(), none, flags, std::ptr::null()) }.into())?;
        // SAFETY: a plain number. Directories created from here on must be accessible to other users.
        unsafe { libc::umask(0o022) };
        Ok(())
    }

    /// Applies to every mount in this namespace.
    pub(super) fn make_all_read_only() -> io::Result<()> {
        const AT_RECURSIVE: libc::c_int = 0x8000;
        let attributes = MountAttributes { set: MOUNT_ATTR_RDONLY, clear: 0, propagation: 0, user_namespace: 0 };
        set_attributes(libc::AT_FDCWD, c"/", AT_RECURSIVE, &attributes)
    }

    fn set_attributes(
        directory: RawFd,
        path: &CStr,
        flags: libc::c_int,
        attributes: &MountAttributes,
    ) -> io::Result<()> {
        // SAFETY: the structure has the size that is passed and lives through the call.
        check(unsafe {
            libc::syscall(
                libc::SYS_mount_setattr,
                directory,
                path.as_ptr(),
                flags,
                std::ptr::from_ref(attributes),
                size_of::<MountAttributes>(),
            )
        })?;
        Ok(())
    }

    pub(super) fn mount_tmpfs(target: &CStr, options: &CStr) -> io::Result<()> {
        let kind = c"tmpfs".as_ptr();
        let flags = libc::MS_NOSUID | libc::MS_NODEV;
        // SAFETY: all texts are zero-terminated and live through the call.
        check(unsafe { libc::mount(kind, target.as_ptr(), kind, flags, options.as_ptr().cast()) }.into())?;
        Ok(())
    }

    pub(super) fn make_directory(path: &CStr) -> io::Result<()> {
        // SAFETY: the text is zero-terminated and lives through the call.
        match check(unsafe { libc::mkdir(path.as_ptr(), 0o755) }.into()) {
            Err(error) if error.raw_os_error() != Some(libc::EEXIST) => Err(error),
            _ => Ok(()),
        }
    }

    pub(super) fn make_file(path: &CStr) -> io::Result<()> {
        let flags = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY | libc::O_CLOEXEC;
        // SAFETY: the text is zero-terminated and lives through the call.
        match check(unsafe { libc::open(path.as_ptr(), flags, 0o644) }.into()) {
            Err(error) if error.raw_os_error() != Some(libc::EEXIST) => Err(error),
            _ => Ok(()),
        }
    }

    pub(super) fn attach(mount: RawFd, target: &CStr) -> io::Result<()> {
        // SAFETY: all texts are zero-terminated and live through the call.
        check(unsafe {
            libc::syscall(
                libc::SYS_move_mount,
                mount,
                c"".as_ptr(),
                libc::AT_FDCWD,
                target.as_ptr(),
                MOVE_MOUNT_F_EMPTY_PATH,
            )
        })?;
        Ok(())
    }

    /// Permanently sets the real, effective and saved ids. A root that becomes another user loses its privileges.
    pub(super) fn become_user(user: u32) -> io::Result<()> {
        // The C library's own functions would signal other threads, which do not exist after a fork.
        // SAFETY: plain numbers; the empty list of groups is never read.
        check(unsafe { libc::syscall(libc::SYS_setgroups, 0usize, std::ptr::null::<u32>()) })?;
        check(unsafe { libc::syscall(libc::SYS_setresgid, user, user, user) })?;
        check(unsafe { libc::syscall(libc::SYS_setresuid, user, user, user) })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outermost_inaccessible_directory_is_found() {
        let root = tempfile::tempdir_in("/var/tmp").unwrap();
        let root = root.path().canonicalize().unwrap();
        let inner = root.join("open/closed/deep");
        std::fs::create_dir_all(&inner).unwrap();
        let set = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        set(&root, 0o755);
        set(&root.join("open"), 0o711);
        set(&root.join("open/closed"), 0o700);
        assert_eq!(find_inaccessible_ancestor(&inner), Some(root.join("open/closed")));
        assert_eq!(find_inaccessible_ancestor(&root.join("open/closed")), None);
        set(&root, 0o750);
        assert_eq!(find_inaccessible_ancestor(&inner), Some(root.clone()));
    }
}
