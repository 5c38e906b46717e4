//! Runs as a user restricted by modes, unlike root: a separate thread drops that privilege.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, IFlags, RenameFlags, ioctl_setflags, renameat_with};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

use super::*;

const SECRET_MODE: u32 = 0o100;

/// Runs the work without the privilege to bypass modes.
fn with_enforced_modes(work: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let mut sets = capabilities(None).unwrap();
            sets.effective -= CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
            set_capabilities(None, sets).unwrap();
            let probe = tempfile::NamedTempFile::new().unwrap();
            set_mode(probe.path(), 0);
            assert!(std::fs::File::open(probe.path()).is_err(), "modes keep this thread out");
            work();
        });
        worker.join().unwrap();
    });
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().permissions().mode() & 0o7777
}

/// Creates a tree without read permission, next to an unrelated folder.
fn closed() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let root = tempfile::tempdir().unwrap();
    let (tree, outside) = (root.path().join("tree"), root.path().join("outside"));
    std::fs::create_dir_all(tree.join("a/b/c")).unwrap();
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("keep"), "x").unwrap();
    symlink(&outside, tree.join("a/link")).unwrap();
    for number in 0..10 {
        std::fs::write(tree.join(format!("a/b/c/f{number}")), "content").unwrap();
    }
    for name in ["a/b/c/f0", "a/b/c", "a/b", "a", ""] {
        set_mode(&tree.join(name), 0);
    }
    set_mode(&outside, SECRET_MODE);
    (root, tree, outside)
}

#[test]
fn owner_can_open_regardless_of_modes_without_other_changes() {
    let (_root, tree, outside) = closed();
    with_enforced_modes(|| {
        assert!(std::fs::read_dir(&tree).is_err());
        let top = open_folder(CWD, tree.as_path(), FolderAccess::Read).unwrap();
        let a = open_folder(&top, "a", FolderAccess::Read).unwrap();
        assert!(open_folder(&a, "link", FolderAccess::Modify).is_err() && open_file(&a, "link").is_err());
        let b = open_folder(&a, "b", FolderAccess::Read).unwrap();
        let c = open_folder(&b, "c", FolderAccess::Read).unwrap();
        let file = std::fs::File::from(open_file(&c, "f0").unwrap());
        assert_eq!(std::io::read_to_string(file).unwrap(), "content");
        // A read-only tree remains so until something is to be changed in it.
        set_mode(&tree.join("a/b"), 0o555);
        open_folder(&a, "b", FolderAccess::Read).unwrap();
        assert_eq!(mode(&tree.join("a/b")), 0o555);
        open_folder(&a, "b", FolderAccess::Modify).unwrap();
        assert_eq!(mode(&tree.join("a/b")), 0o755);
    });
    assert_eq!(mode(&outside), SECRET_MODE);
}

/// The link leads to a folder that is closed too; if opened by name, that folder would be opened.
#[test]
fn swapped_entries_are_not_opened() {
    let (_root, tree, outside) = closed();
    set_mode(&tree, 0o700);
    std::fs::create_dir(tree.join("d")).unwrap();
    symlink(&outside, tree.join("l")).unwrap();
    set_mode(&outside, 0);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                renameat_with(CWD, tree.join("d"), CWD, tree.join("l"), RenameFlags::EXCHANGE).unwrap();
            }
        });
        with_enforced_modes(|| {
            let top = open_folder(CWD, tree.as_path(), FolderAccess::Read).unwrap();
            let (mut opened, mut refused) = (0, 0);
            while opened < 200 || refused < 200 {
                for name in ["d", "l"] {
                    match open_folder(&top, name, FolderAccess::Modify) {
                        Ok(folder) => {
                            opened += 1;
                            rustix::fs::fchmod(folder, rustix::fs::Mode::empty()).unwrap();
                        }
                        Err(_) => refused += 1,
                    }
                }
            }
        });
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(mode(&outside), 0);
}

#[test]
fn everything_inside_is_counted_once() {
    let (_root, tree, _outside) = closed();
    let sparse = std::fs::File::create(tree.join("a/sparse")).unwrap();
    sparse.set_len(1 << 30).unwrap();
    with_enforced_modes(|| {
        let top = open_folder(CWD, tree.as_path(), FolderAccess::Read).unwrap();
        let mut seen = 0;
        let left = survey(&top, Closed::Leave, &mut |_| {
            seen += 1;
            std::ops::ControlFlow::Continue(())
        });
        assert_eq!((left, seen), (Ok(false), 1), "who leaves it closed is told that there is more");
        let size = measure(&top, Closed::Open, |_| false).unwrap();
        assert_eq!(size.files, 15, "three folders, ten files, a link, and the sparse file");
        assert!((1 << 30..(1 << 30) + (1 << 20)).contains(&size.bytes), "{size:?}");
        assert_eq!(measure(&top, Closed::Open, |size| size.files == 7).unwrap().files, 7);
    });
}

#[test]
fn removal_works_in_batches_and_follows_no_links() {
    let (root, tree, outside) = closed();
    set_mode(&tree, 0o700);
    // No path could name the whole depth.
    let mut deepest = rustix::fs::open(&tree, FOLDER, rustix::fs::Mode::empty()).unwrap();
    for depth in 0..3_000 {
        rustix::fs::mkdirat(&deepest, "d", rustix::fs::Mode::RWXU).unwrap();
        let next = rustix::fs::openat(&deepest, "d", FOLDER, rustix::fs::Mode::empty()).unwrap();
        if depth % 100 == 0 {
            rustix::fs::symlinkat(&outside, &next, "link").unwrap();
        }
        deepest = next;
    }
    drop(deepest);
    set_mode(&tree, 0);
    with_enforced_modes(|| {
        let top = open_folder(CWD, tree.as_path(), FolderAccess::Read).unwrap();
        assert_eq!(measure(&top, Closed::Open, |_| false).unwrap().files, 14 + 3_000 + 30);
        let parent = open_folder(CWD, root.path(), FolderAccess::Read).unwrap();
        let mut rounds = 0;
        while !remove(&parent, c"tree", &mut 500).unwrap() {
            rounds += 1;
            assert!(rounds < 20);
        }
        assert!(rounds > 5);
        assert!(remove(&parent, c"tree", &mut 1).unwrap(), "what is not there is gone");
    });
    assert!(!tree.exists() && outside.join("keep").exists());
    symlink(&outside, &tree).unwrap();
    remove_path(&tree).unwrap();
    assert!(!tree.exists() && outside.join("keep").exists());
}

#[test]
fn immutable_files_are_removed() {
    let root = tempfile::tempdir_in("/var/tmp").unwrap();
    let tree = root.path().join("tree");
    std::fs::create_dir_all(tree.join("folder")).unwrap();
    std::fs::write(tree.join("folder/file"), "x").unwrap();
    for name in ["folder/file", "folder", ""] {
        let held = std::fs::File::open(tree.join(name)).unwrap();
        if ioctl_setflags(held, IFlags::IMMUTABLE).is_err() {
            println!("NOT TESTED: files cannot be made immutable here");
            return;
        }
    }
    remove_path(&tree).unwrap();
    assert!(!tree.exists());
}
