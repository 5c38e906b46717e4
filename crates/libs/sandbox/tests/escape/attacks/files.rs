//! Attacks on files outside.
#![allow(unsafe_code, reason = "attacks make raw system calls")]

use std::ffi::CString;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use super::{Reached, Target, note, text};

/// Monitors names and accesses of files that cannot be opened.
pub(super) fn watching(target: &Target) -> Reached {
    let mut reached = Vec::new();
    for directory in [target.outside_directory.as_path(), Path::new("/var/tmp"), Path::new("/etc")] {
        let Ok(path) = CString::new(directory.as_os_str().as_encoded_bytes()) else { continue };
        // SAFETY: the path lives through the call. Inside a sandbox `/etc` is private, and so are files created there.
        let is_watched = unsafe {
            let watcher = libc::inotify_init1(libc::IN_CLOEXEC);
            watcher >= 0 && libc::inotify_add_watch(watcher, path.as_ptr(), libc::IN_ALL_EVENTS) >= 0
        };
        let is_own = fs::read_dir(directory).is_ok();
        note(&mut reached, format!("watched {}", directory.display()), is_watched && !is_own);
    }
    reached
}

pub(super) fn reading_outside(target: &Target) -> Reached {
    let mut reached = Vec::new();
    let holds =
        |bytes: &[u8]| bytes.windows(target.secret_text.len()).any(|part| part == target.secret_text.as_bytes());
    let up = target.workspace.join("../secret");
    for path in [
        target.secret_file.clone(),
        up,
        Path::new("/proc/self/root").join(target.secret_file.strip_prefix("/").unwrap()),
    ] {
        note(&mut reached, format!("read {}", path.display()), fs::read(&path).is_ok_and(|bytes| holds(&bytes)));
    }
    for path in [
        "/etc/shadow",
        "/etc/gshadow",
        "/etc/ssh/ssh_host_rsa_key",
        "/root/.bashrc",
        "/proc/kcore",
        "/dev/vda",
        "/dev/sda",
        "/dev/mem",
    ] {
        note(&mut reached, format!("opened {path}"), fs::File::open(path).is_ok());
    }
    for path in ["/root", "/home", "/var/lib", "/sys/kernel", "/boot"] {
        let seen = fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some());
        note(&mut reached, format!("listed {path}"), seen);
    }
    let names: Vec<_> = fs::read_dir(&target.outside_directory)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    note(&mut reached, "listed the daemon's data", names.iter().any(|name| name == "secret"));
    reached
}

pub(super) fn writing_outside(target: &Target) -> Reached {
    let mut reached = Vec::new();
    let append =
        |path: &Path| fs::OpenOptions::new().append(true).open(path).is_ok_and(|mut file| file.write_all(b"x").is_ok());
    note(&mut reached, "appended to the secret", append(&target.secret_file));
    // If a directory of that name is private to the sandbox, nothing outside changes; the suite checks that.
    let _ = fs::write(target.outside_directory.join("escaped"), "x");
    let _ = fs::remove_file(&target.secret_file);
    let _ = fs::rename(&target.secret_file, target.workspace.join("stolen"));
    let secret = text(&target.secret_file);
    // SAFETY: a zero-terminated text.
    note(&mut reached, "truncated the secret", unsafe { libc::truncate(secret.as_ptr(), 0) } == 0);
    for path in [
        "/usr/escaped",
        "/usr/bin/escaped",
        "/etc/escaped",
        "/etc/passwd",
        "/escaped",
        "/dev/escaped",
        "/bin/sh",
        "/var/tmp/escaped",
    ] {
        let opened = fs::OpenOptions::new().append(true).create(true).open(path);
        note(&mut reached, format!("opened {path} for writing"), opened.is_ok());
    }
    reached
}

pub(super) fn changing_attributes(target: &Target) -> Reached {
    let mut reached = Vec::new();
    let secret = text(&target.secret_file);
    let path = secret.as_ptr();
    // SAFETY: zero-terminated texts, and structures that live through the calls.
    unsafe {
        note(&mut reached, "chmod", libc::chmod(path, 0o600) == 0);
        note(&mut reached, "fchmodat", libc::fchmodat(libc::AT_FDCWD, path, 0o600, 0) == 0);
        note(&mut reached, "chown", libc::chown(path, libc::getuid(), libc::getgid()) == 0);
        note(&mut reached, "utimes", libc::utimes(path, std::ptr::null()) == 0);
        note(&mut reached, "utimensat", libc::utimensat(libc::AT_FDCWD, path, std::ptr::null(), 0) == 0);
        let name = c"user.escaped";
        note(&mut reached, "setxattr", libc::setxattr(path, name.as_ptr(), name.as_ptr().cast(), 4, 0) == 0);
        let by_descriptor = libc::open(path, libc::O_PATH);
        if by_descriptor >= 0 {
            let again = CString::new(format!("/proc/self/fd/{by_descriptor}")).unwrap();
            note(&mut reached, "chmod through /proc", libc::chmod(again.as_ptr(), 0o600) == 0);
            note(
                &mut reached,
                "fchmodat2",
                libc::syscall(libc::SYS_fchmodat2, by_descriptor, c"".as_ptr(), 0o600, libc::AT_EMPTY_PATH) == 0,
            );
            note(
                &mut reached,
                "fchownat",
                libc::fchownat(by_descriptor, c"".as_ptr(), libc::getuid(), libc::getgid(), libc::AT_EMPTY_PATH) == 0,
            );
        }
    }
    reached
}

pub(super) fn links(target: &Target) -> Reached {
    let mut reached = Vec::new();
    let holds = |path: &Path| fs::read_to_string(path).is_ok_and(|text| text.contains(&target.secret_text));
    let soft = target.workspace.join("soft");
    let _ = std::os::unix::fs::symlink(&target.secret_file, &soft);
    note(&mut reached, "read through a symbolic link", holds(&soft));
    let hard = target.workspace.join("hard");
    note(&mut reached, "made a hard link", fs::hard_link(&target.secret_file, &hard).is_ok());
    let directory = target.workspace.join("way");
    let _ = std::os::unix::fs::symlink(&target.outside_directory, &directory);
    note(&mut reached, "read through a linked directory", holds(&directory.join("secret")));
    let _ = fs::write(directory.join("escaped"), "x");
    // A directory that alternates with a link, while another thread opens files through it.
    let race = target.workspace.join("race");
    let (real, link) = (target.workspace.join("real"), target.workspace.join("link"));
    let _ = fs::create_dir(&real);
    let _ = fs::write(real.join("secret"), "nothing");
    let _ = std::os::unix::fs::symlink(&target.outside_directory, &link);
    let until = Instant::now() + Duration::from_millis(300);
    let swapper = {
        let (race, real, link) = (race.clone(), real, link);
        std::thread::spawn(move || {
            while Instant::now() < until {
                let _ = fs::rename(&real, &race);
                let _ = fs::rename(&race, &real);
                let _ = fs::rename(&link, &race);
                let _ = fs::rename(&race, &link);
            }
        })
    };
    while Instant::now() < until {
        if holds(&race.join("secret")) {
            reached.push("won a race of links".to_owned());
            break;
        }
    }
    let _ = swapper.join();
    reached
}

pub(super) fn remounting(target: &Target) -> Reached {
    let mut reached = Vec::new();
    let none = std::ptr::null::<libc::c_char>();
    let workspace = text(&target.workspace);
    // SAFETY: zero-terminated texts.
    unsafe {
        for path in [c"/", c"/usr", c"/proc", c"/dev"] {
            let flags = libc::MS_REMOUNT | libc::MS_BIND;
            note(
                &mut reached,
                format!("remounted {path:?}"),
                libc::mount(none, path.as_ptr(), none, flags, none.cast()) == 0,
            );
        }
        note(
            &mut reached,
            "mounted tmpfs",
            libc::mount(c"tmpfs".as_ptr(), workspace.as_ptr(), c"tmpfs".as_ptr(), 0, none.cast()) == 0,
        );
        note(
            &mut reached,
            "mounted proc",
            libc::mount(c"proc".as_ptr(), workspace.as_ptr(), c"proc".as_ptr(), 0, none.cast()) == 0,
        );
        note(&mut reached, "unmounted", libc::umount2(c"/usr".as_ptr(), libc::MNT_DETACH) == 0);
        note(&mut reached, "chroot", libc::chroot(workspace.as_ptr()) == 0);
        note(
            &mut reached,
            "pivot_root",
            libc::syscall(libc::SYS_pivot_root, workspace.as_ptr(), workspace.as_ptr()) == 0,
        );
        note(&mut reached, "fsopen", libc::syscall(libc::SYS_fsopen, c"tmpfs".as_ptr(), 0) >= 0);
        note(&mut reached, "open_tree", libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, c"/".as_ptr(), 1) >= 0);
    }
    reached
}

pub(super) fn init_binary(target: &Target) -> Reached {
    let mut reached = Vec::new();
    // SAFETY: plain numbers.
    let parent = unsafe { libc::getppid() };
    for path in [
        target.init_binary.clone(),
        "/proc/1/exe".into(),
        format!("/proc/{parent}/exe").into(),
        "/proc/self/exe".into(),
    ] {
        let opened = fs::OpenOptions::new().write(true).open(&path);
        note(&mut reached, format!("opened {}", path.display()), opened.is_ok());
    }
    let directory = target.init_binary.parent().unwrap();
    note(&mut reached, "made a file beside it", fs::write(directory.join("escaped"), "x").is_ok());
    note(&mut reached, "moved it away", fs::rename(&target.init_binary, directory.join("moved")).is_ok());
    reached
}
