//! `/etc` of a sandbox: copies of the configuration that programs need, and accounts of a machine with a single user.
//! One directory is one mount; two dozen mounts would cost more than the rest of the sandbox.
//!
//! It is created when the tiers are evaluated, so changes to the machine take effect after the next evaluation.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::{directories, paths};

const ACCOUNTS: [(&str, &str); 4] = [
    (
        "passwd",
        "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n\
         sandbox:x:1000:1000:sandbox:/tmp:/bin/sh\n\
         nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    ),
    ("group", "root:x:0:\nsandbox:x:1000:\nnogroup:x:65534:\n"),
    ("hosts", "127.0.0.1 localhost\n::1 localhost\n"),
    ("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\nservices: files\nprotocols: files\n"),
];
/// Maximum size of a file; larger ones are not configuration.
const MAX_FILE_BYTES: u64 = 8 << 20;
const MAX_DEPTH: usize = 6;

/// Creates the directory; it is removed on drop.
pub(crate) fn create(state_directory: &Path) -> io::Result<tempfile::TempDir> {
    let directory = directories::create("etc", state_directory)?;
    set_mode(directory.path(), 0o755)?;
    for path in paths::configuration() {
        let Ok(name) = path.strip_prefix("/etc") else { continue };
        let target = directory.path().join(name);
        let parents: Vec<&Path> = target.ancestors().skip(1).take_while(|way| *way != directory.path()).collect();
        for parent in parents.into_iter().rev() {
            make_directory(parent)?;
        }
        copy(&path, &target, MAX_DEPTH)?;
    }
    for (name, text) in ACCOUNTS {
        write(&directory.path().join(name), text.as_bytes())?;
    }
    Ok(directory)
}

/// Copies a file or directory. Links remain links, regardless of their target. Files that are not world-readable are
/// skipped.
fn copy(from: &Path, to: &Path, depth: usize) -> io::Result<()> {
    let entry = from.symlink_metadata()?;
    if entry.is_symlink() {
        return std::os::unix::fs::symlink(from.read_link()?, to);
    }
    let is_public = entry.permissions().mode() & 0o004 != 0;
    if entry.is_dir() && is_public && depth > 0 {
        make_directory(to)?;
        for inner in std::fs::read_dir(from)? {
            let name = inner?.file_name();
            copy(&from.join(&name), &to.join(&name), depth - 1)?;
        }
    } else if entry.is_file() && is_public && entry.len() <= MAX_FILE_BYTES {
        write(to, &std::fs::read(from)?)?;
    }
    Ok(())
}

fn make_directory(path: &Path) -> io::Result<()> {
    match std::fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => set_mode(path, 0o755),
    }
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    std::fs::write(path, bytes)?;
    set_mode(path, 0o644)
}

/// The daemon's umask makes its files private; these must be readable by others.
fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etc_contains_one_user_and_no_secret() {
        let state = tempfile::tempdir().unwrap();
        let etc = create(state.path()).unwrap();
        let accounts = std::fs::read_to_string(etc.path().join("passwd")).unwrap();
        assert!(accounts.contains("sandbox:x:1000") && accounts.lines().count() == 3);
        assert!(!etc.path().join("shadow").exists());
        assert!(etc.path().join("ld.so.cache").is_file());
    }

    #[test]
    fn links_are_preserved_and_private_files_skipped() {
        let root = tempfile::tempdir().unwrap();
        let from = root.path().join("from");
        std::fs::create_dir(&from).unwrap();
        std::fs::write(from.join("public"), "1").unwrap();
        std::fs::write(from.join("private"), "2").unwrap();
        std::fs::set_permissions(&from, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::set_permissions(from.join("public"), std::fs::Permissions::from_mode(0o644)).unwrap();
        std::fs::set_permissions(from.join("private"), std::fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink("/etc/shadow", from.join("link")).unwrap();
        let to = root.path().join("to");
        copy(&from, &to, 3).unwrap();
        assert_eq!(std::fs::read_to_string(to.join("public")).unwrap(), "1");
        assert!(!to.join("private").exists());
        assert_eq!(to.join("link").read_link().unwrap(), Path::new("/etc/shadow"));
    }
}
