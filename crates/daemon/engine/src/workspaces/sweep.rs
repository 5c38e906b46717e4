//! Removal of partial files of killed writers.
//!
//! A writer holds a lock on its file until it is complete; the kernel releases the lock when the writer exits or is
//! killed. Temporary files without a lock are therefore removed, even while other daemons run.

use std::os::fd::AsFd;
use std::path::Path;

use agentd_sandbox::folder;
use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, flock, fstat, statat, unlinkat};

use super::temporary::is_temporary_name;
use super::workspace::file_type;
use super::{RelativePath, Workspace};

/// Removes partial files in the workspaces below `agents`; returns their number.
pub(crate) fn sweep(agents: &Path) -> usize {
    let entries = std::fs::read_dir(agents).into_iter().flatten().flatten();
    // Agent names have no leading dot.
    let named = entries.filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."));
    let folders = named.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.filter_map(|entry| Workspace::open(&entry.path()).ok()).map(|workspace| workspace.sweep()).sum()
}

impl Workspace {
    fn sweep(&self) -> usize {
        let (mut removed, mut waiting) = (0, vec![RelativePath::default()]);
        while let Some(path) = waiting.pop() {
            // Unreadable folders are skipped.
            let Ok(folder) = self.folder(&path) else { continue };
            for entry in Dir::read_from(&folder).into_iter().flatten().flatten() {
                let Ok(name) = entry.file_name().to_str() else { continue };
                if matches!(name, "." | "..") {
                    continue;
                }
                // Not every file system reports the type of an entry.
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

    use super::super::WorkspaceQuota;
    use super::*;

    #[test]
    fn sweep_removes_only_abandoned_files() {
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
        let quota = WorkspaceQuota::new(|| agentd_sandbox::Policy::default().workspace_bounds());
        let workspace = Workspace::open(&agents.path().join("scout")).unwrap();
        let mut written = workspace.create(&RelativePath::parse_file("a/new").unwrap(), "7", &quota).unwrap();
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
