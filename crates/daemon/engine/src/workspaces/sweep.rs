//! What writers that were killed left half written.
//!
//! Who writes a file holds a lock on it until it is whole; the kernel takes the lock back when the writer is gone,
//! killed or not. So what is called half written and is locked by nobody is removed, also while other daemons work here.

use std::os::fd::AsFd;
use std::path::Path;

use agentd_sandbox::folder;
use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, flock, fstat, statat, unlinkat};

use super::temporary::is_temporary_name;
use super::workspace::file_type;
use super::{RelativePath, Workspace};

/// Removes what is left in the workspaces that lie in `agents`; answers how many files that were.
pub(crate) fn sweep(agents: &Path) -> usize {
    let entries = std::fs::read_dir(agents).into_iter().flatten().flatten();
    // No name of an agent begins with a dot.
    let named = entries.filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."));
    let folders = named.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.filter_map(|entry| Workspace::open(&entry.path()).ok()).map(|workspace| workspace.sweep()).sum()
}

impl Workspace {
    fn sweep(&self) -> usize {
        let (mut removed, mut waiting) = (0, vec![RelativePath::default()]);
        while let Some(path) = waiting.pop() {
            // What cannot be looked at is left as it is.
            let Ok(folder) = self.folder(&path) else { continue };
            for entry in Dir::read_from(&folder).into_iter().flatten().flatten() {
                let Ok(name) = entry.file_name().to_str() else { continue };
                if matches!(name, "." | "..") {
                    continue;
                }
                // Not every file system says at once what something is.
                let kind = match entry.file_type() {
                    FileType::Unknown => statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW).map(|stat| file_type(&stat)),
                    kind => Ok(kind),
                };
                match kind {
                    Ok(FileType::Directory) => waiting.extend(path.join(name)),
                    Ok(FileType::RegularFile) if is_temporary_name(name) => {
                        removed += usize::from(is_removed(&folder, name));
                    }
                    _ => {}
                }
            }
        }
        removed
    }
}

fn is_removed(folder: impl AsFd, name: &str) -> bool {
    let Ok(file) = folder::open_file(&folder, name) else { return false };
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        return false;
    }
    let same = match (fstat(&file), statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)) {
        (Ok(held), Ok(named)) => (held.st_dev, held.st_ino) == (named.st_dev, named.st_ino),
        _ => false,
    };
    same && unlinkat(&folder, name, AtFlags::empty()).is_ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::super::Room;
    use super::*;

    #[test]
    fn only_what_nobody_writes_any_more_goes() {
        let agents = tempfile::tempdir().unwrap();
        let inside = agents.path().join("scout/a/b");
        std::fs::create_dir_all(&inside).unwrap();
        std::fs::create_dir_all(agents.path().join(".trash")).unwrap();
        for left in ["scout/.agentd-1.tmp", "scout/a/b/.agentd-2.tmp", "scout/a/.agentd-3.txt", ".trash/.agentd-4.tmp"]
        {
            std::fs::write(agents.path().join(left), "half").unwrap();
        }
        std::fs::create_dir(agents.path().join("scout/.agentd-5.tmp")).unwrap();
        symlink(&inside, agents.path().join("scout/.agentd-6.tmp")).unwrap();
        symlink(&inside, agents.path().join("other")).unwrap();
        let room = Room::new(|| agentd_sandbox::Policy::default().workspace_bounds());
        let workspace = Workspace::open(&agents.path().join("scout")).unwrap();
        let mut written = workspace.create(&RelativePath::parse_file("a/new").unwrap(), "7", &room).unwrap();
        written.append(b"more").unwrap();

        assert_eq!(sweep(agents.path()), 2);
        assert!(!agents.path().join("scout/.agentd-1.tmp").exists() && !inside.join(".agentd-2.tmp").exists());
        for stays in ["scout/a/.agentd-3.txt", ".trash/.agentd-4.tmp", "scout/.agentd-5.tmp", "scout/.agentd-6.tmp"] {
            assert!(agents.path().join(stays).exists(), "{stays}");
        }
        written.finish(&Default::default()).unwrap();
        assert_eq!(std::fs::read(agents.path().join("scout/a/new")).unwrap(), b"more");
        assert_eq!(sweep(&agents.path().join("none")), 0);
    }
}
