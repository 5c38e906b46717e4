//! Reading of security-relevant files: configuration, keys, passphrases.
//!
//! Invariant: a file is read only if root or the effective user owns it, no other user may write it, and no other user
//! can replace it.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

const MAX_SYMLINKS: usize = 40;
const GROUP_OR_OTHERS_WRITE: u32 = 0o022;
const GROUP_OR_OTHERS_ANY: u32 = 0o077;
const STICKY: u32 = 0o1000;

/// Reason why a file is not read.
#[derive(Debug, thiserror::Error)]
pub enum TrustedFileError {
    #[error(
        "{} is not trusted: {} belongs to user {owner}, but must belong to root or to user {user}, who runs this program; if you trust it, run `chown -h {user} {}`",
        .file.display(), .part.display(), .part.display()
    )]
    ForeignOwner { file: PathBuf, part: PathBuf, owner: u32, user: u32 },
    #[error(
        "{} is not trusted: other users can write {} (mode {mode:04o}); check its content and run `chmod go-w {}`",
        .file.display(), .part.display(), .part.display()
    )]
    WritableByOthers { file: PathBuf, part: PathBuf, mode: u32 },
    #[error("{} is larger than {limit} bytes; use a smaller file", .file.display())]
    TooLarge { file: PathBuf, limit: u64 },
    #[error("{} cannot be read; check the path and its permissions", .file.display())]
    Io { file: PathBuf, source: io::Error },
}

impl TrustedFileError {
    /// Whether the file does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// Opens a file if no other user can have written or replaced it.
///
/// Every directory and symbolic link on the path must belong to root or the effective user. Other users may not write
/// those directories, unless the sticky bit protects the entries. A directory of mode 0700 lifts that requirement for
/// the directories above it: another user can move it away, but cannot create an equivalent one.
///
/// # Errors
/// `TrustedFileError` if the file cannot be opened or is not trusted.
pub fn open_trusted(path: &Path) -> Result<File, TrustedFileError> {
    let check = Check { file: path, user: rustix::process::geteuid().as_raw() };
    let target = check.resolve()?;
    let file = File::open(path).map_err(|source| check.failed(source))?;
    let found = file.metadata().map_err(|source| check.failed(source))?;
    check.check_owner(&target, &found)?;
    // The mode of a character device does not matter: a terminal or the null device stores no content.
    if !found.file_type().is_char_device() {
        check.check_mode(&target, found.mode())?;
    }
    Ok(file)
}

/// Reads a text file if no other user can have written or replaced it.
///
/// # Errors
/// `TrustedFileError` if the file cannot be read, is not trusted, or is larger than `limit` bytes.
pub fn read_trusted(path: &Path, limit: u64) -> Result<String, TrustedFileError> {
    let mut text = String::new();
    let read = open_trusted(path)?.take(limit + 1).read_to_string(&mut text);
    let read = read.map_err(|source| TrustedFileError::Io { file: path.to_path_buf(), source })?;
    if read as u64 > limit {
        return Err(TrustedFileError::TooLarge { file: path.to_path_buf(), limit });
    }
    Ok(text)
}

struct Check<'p> {
    file: &'p Path,
    user: u32,
}

impl Check<'_> {
    /// Resolves the path as the kernel does, one component at a time, and returns the target.
    fn resolve(&self) -> Result<PathBuf, TrustedFileError> {
        let path = std::path::absolute(self.file).map_err(|source| self.failed(source))?;
        let mut pending = components(&path);
        let (mut here, mut problem, mut symlinks) = (PathBuf::from("/"), None, 0);
        while let Some(name) = pending.pop_front() {
            if name == ".." {
                here.pop();
                continue;
            }
            let next = here.join(&name);
            let found = match next.symlink_metadata() {
                Ok(found) => found,
                Err(source) => return Err(problem.unwrap_or_else(|| self.failed(source))),
            };
            if found.is_symlink() {
                self.check_owner(&next, &found)?;
                if is_descriptor_directory(&here) {
                    here = next;
                    break;
                }
                symlinks += 1;
                if symlinks > MAX_SYMLINKS {
                    return Err(self.failed(rustix::io::Errno::LOOP.into()));
                }
                let target = next.read_link().map_err(|source| self.failed(source))?;
                if target.is_absolute() {
                    here = PathBuf::from("/");
                }
                let mut components = components(&target);
                components.append(&mut pending);
                pending = components;
                continue;
            }
            if found.is_dir() {
                let outcome = self.check_directory(&next, &found);
                if outcome.is_ok() && found.mode() & GROUP_OR_OTHERS_ANY == 0 {
                    problem = None;
                }
                problem = problem.or(outcome.err());
            }
            here = next;
        }
        problem.map_or(Ok(here), Err)
    }

    fn check_directory(&self, directory: &Path, found: &Metadata) -> Result<(), TrustedFileError> {
        self.check_owner(directory, found)?;
        if found.mode() & STICKY != 0 {
            return Ok(());
        }
        self.check_mode(directory, found.mode())
    }

    fn check_owner(&self, part: &Path, found: &Metadata) -> Result<(), TrustedFileError> {
        let (owner, user) = (found.uid(), self.user);
        if owner == 0 || owner == user {
            return Ok(());
        }
        Err(TrustedFileError::ForeignOwner { file: self.file.to_path_buf(), part: part.to_path_buf(), owner, user })
    }

    fn check_mode(&self, part: &Path, mode: u32) -> Result<(), TrustedFileError> {
        if mode & GROUP_OR_OTHERS_WRITE == 0 {
            return Ok(());
        }
        let mode = mode & 0o7777;
        Err(TrustedFileError::WritableByOthers { file: self.file.to_path_buf(), part: part.to_path_buf(), mode })
    }

    fn failed(&self, source: io::Error) -> TrustedFileError {
        TrustedFileError::Io { file: self.file.to_path_buf(), source }
    }
}

fn components(path: &Path) -> VecDeque<OsString> {
    let named = path.components().filter(|component| matches!(component, Component::Normal(_) | Component::ParentDir));
    named.map(|component| component.as_os_str().to_owned()).collect()
}

/// Whether the entries of this directory are open files of a process: `/proc/self/fd`, behind `<(command)` in a shell.
fn is_descriptor_directory(folder: &Path) -> bool {
    folder.starts_with("/proc") && folder.ends_with("fd")
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    const OTHER_USER: u32 = 65_534;

    struct Fixture(tempfile::TempDir);

    impl Fixture {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        /// Creates a directory below a private one, so that only its own mode matters.
        fn directory(&self, name: &str, mode: u32) -> PathBuf {
            let path = self.path(name);
            std::fs::create_dir(&path).unwrap();
            set_mode(&path, mode);
            path
        }

        fn file(&self, name: &str, mode: u32) -> PathBuf {
            let path = self.path(name);
            std::fs::write(&path, "text").unwrap();
            set_mode(&path, mode);
            path
        }
    }

    fn set_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    fn refusal(path: &Path) -> String {
        let error = read_trusted(path, 100).expect_err("an untrusted file");
        assert!(!error.is_not_found());
        error.to_string()
    }

    #[test]
    fn file_writable_by_others_is_rejected() {
        let fixture = Fixture::new();
        for (mode, is_trusted) in [(0o600, true), (0o644, true), (0o400, true), (0o664, false), (0o602, false)] {
            let path = fixture.file("file", mode);
            assert_eq!(read_trusted(&path, 100).is_ok(), is_trusted, "{mode:o}");
            std::fs::remove_file(&path).unwrap();
        }
        let path = fixture.file("file", 0o664);
        assert!(refusal(&path).contains(&format!("chmod go-w {}", path.display())));
    }

    #[test]
    fn directory_writable_by_others_is_rejected_unless_sticky() {
        let fixture = Fixture::new();
        for (mode, is_trusted) in [(0o755, true), (0o775, false), (0o777, false), (0o1777, true)] {
            let folder = fixture.directory(&format!("{mode:o}"), mode);
            let path = fixture.file(&format!("{mode:o}/file"), 0o600);
            assert_eq!(read_trusted(&path, 100).is_ok(), is_trusted, "{mode:o}");
            if !is_trusted {
                assert!(refusal(&path).contains(&format!("chmod go-w {}", folder.display())));
            }
        }
    }

    #[test]
    fn private_directory_protects_its_descendants() {
        let fixture = Fixture::new();
        fixture.directory("shared", 0o777);
        fixture.directory("shared/private", 0o700);
        assert!(read_trusted(&fixture.file("shared/private/file", 0o644), 100).is_ok());
        fixture.directory("shared/open", 0o755);
        assert!(refusal(&fixture.file("shared/open/file", 0o644)).contains("shared"));
    }

    #[test]
    fn symlinks_are_followed_and_their_path_is_checked() {
        let fixture = Fixture::new();
        let file = fixture.file("file", 0o600);
        symlink("file", fixture.path("link")).unwrap();
        symlink(fixture.path("link"), fixture.path("absolute")).unwrap();
        assert_eq!(read_trusted(&fixture.path("absolute"), 100).unwrap(), "text");
        fixture.directory("shared", 0o777);
        symlink(&file, fixture.path("shared/link")).unwrap();
        assert!(refusal(&fixture.path("shared/link")).contains("shared"));
        symlink("loop", fixture.path("loop")).unwrap();
        assert!(refusal(&fixture.path("loop")).contains("cannot be read"));
        symlink("gone", fixture.path("dangling")).unwrap();
        assert!(read_trusted(&fixture.path("dangling"), 100).unwrap_err().is_not_found());
    }

    #[test]
    fn path_owned_by_another_user_is_rejected() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: only root can give files to another user");
            return;
        }
        let fixture = Fixture::new();
        let file = fixture.file("file", 0o600);
        fixture.directory("folder", 0o755);
        let below = fixture.file("folder/file", 0o600);
        symlink("file", fixture.path("link")).unwrap();
        assert_eq!(read_trusted(&fixture.path("link"), 100).unwrap(), "text");
        std::os::unix::fs::lchown(fixture.path("link"), Some(OTHER_USER), None).unwrap();
        assert!(refusal(&fixture.path("link")).contains("belongs to user 65534"));
        chown(fixture.path("folder"), Some(OTHER_USER), None).unwrap();
        assert!(refusal(&below).contains(&format!("chown -h 0 {}", fixture.path("folder").display())));
        chown(&file, Some(OTHER_USER), None).unwrap();
        assert!(refusal(&file).contains("belongs to user 65534"));
        std::os::unix::fs::lchown(fixture.path("link"), Some(0), None).unwrap();
        assert!(refusal(&fixture.path("link")).contains(&format!("chown -h 0 {}", file.display())));
    }

    #[test]
    fn descriptor_path_is_read() {
        let (reader, mut writer) = io::pipe().unwrap();
        io::Write::write_all(&mut writer, b"passphrase\n").unwrap();
        drop(writer);
        let name = PathBuf::from(format!("/dev/fd/{}", reader.as_raw_fd()));
        assert_eq!(read_trusted(&name, 100).unwrap(), "passphrase\n");
        assert_eq!(read_trusted(Path::new("/dev/null"), 100).unwrap(), "");
    }

    #[test]
    fn file_over_limit_is_rejected() {
        let fixture = Fixture::new();
        let path = fixture.file("file", 0o600);
        assert!(read_trusted(&path, 4).is_ok());
        assert!(matches!(read_trusted(&path, 3), Err(TrustedFileError::TooLarge { limit: 3, .. })));
    }
}
