//! Resource exhaustion.
#![allow(unsafe_code, reason = "attacks make raw system calls")]

use std::fs;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::{Duration, Instant};

use super::{Reached, Target, note};

/// Forks waiting children until that fails; reports if there are too many.
pub(super) fn fork_bomb(target: &Target) -> Reached {
    let mut reached = Vec::new();
    let mut count = 0;
    for _ in 0..target.processes * 20 {
        // SAFETY: the child only waits for its end.
        match unsafe { libc::fork() } {
            0 => loop {
                unsafe { libc::pause() };
            },
            -1 => break,
            _ => count += 1,
        }
    }
    note(&mut reached, format!("{count} processes"), count > target.processes + 32);
    reached
}

/// Every process detaches from its parent, forks and ends.
pub(super) fn detached_fork_bomb(target: &Target) -> Reached {
    let until = Instant::now() + Duration::from_millis(700);
    let counter = target.workspace.join("bomb");
    // SAFETY: children only fork, detach and write a byte.
    unsafe {
        for _ in 0..4 {
            if libc::fork() == 0 {
                let file = fs::OpenOptions::new().create(true).append(true).open(&counter).unwrap();
                while Instant::now() < until + Duration::from_secs(20) {
                    libc::setsid();
                    if libc::fork() == 0 {
                        libc::write(file.as_raw_fd(), b"x".as_ptr().cast(), 1);
                    }
                }
                libc::_exit(0);
            }
        }
    }
    std::thread::sleep(until.saturating_duration_since(Instant::now()));
    Vec::new()
}

/// Allocates and touches memory in chunks; returns the total number of bytes.
fn take(bytes: usize, flags: i32, drop_pages: bool) -> usize {
    const CHUNK_BYTES: usize = 4 << 20;
    let mut taken = 0;
    while taken < bytes {
        // SAFETY: new memory of this size, which is written within its bounds.
        unsafe {
            let chunk = libc::mmap(std::ptr::null_mut(), CHUNK_BYTES, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            if chunk == libc::MAP_FAILED {
                break;
            }
            libc::memset(chunk, 1, CHUNK_BYTES);
            if drop_pages {
                libc::madvise(chunk, CHUNK_BYTES, libc::MADV_DONTNEED);
            }
        }
        taken += CHUNK_BYTES;
        std::thread::sleep(Duration::from_millis(2));
    }
    taken
}

pub(super) fn memory_bomb(target: &Target) -> Reached {
    let taken = take(target.memory_bytes * 6, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, false);
    let mut reached = Vec::new();
    note(&mut reached, format!("{taken} bytes"), taken > target.memory_bytes * 5);
    reached
}

pub(super) fn memory_bomb_of_many(target: &Target) -> Reached {
    let mut children = Vec::new();
    for _ in 0..8 {
        // SAFETY: the child allocates memory and ends.
        match unsafe { libc::fork() } {
            0 => {
                let taken = take(target.memory_bytes * 9 / 10, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, false);
                std::thread::sleep(Duration::from_secs(2));
                unsafe { libc::_exit(i32::from(taken >= target.memory_bytes / 2)) };
            }
            child => children.push(child),
        }
    }
    let mut held = 0;
    for child in children {
        let mut status = 0;
        // SAFETY: the number lives through the call.
        unsafe { libc::waitpid(child, &mut status, 0) };
        held += i32::from(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 1);
    }
    let mut reached = Vec::new();
    note(&mut reached, format!("{held} processes held their share"), held > 2);
    reached
}

pub(super) fn memory_bomb_hidden(target: &Target) -> Reached {
    let taken = take(target.memory_bytes * 6, libc::MAP_SHARED | libc::MAP_ANONYMOUS, true);
    let mut reached = Vec::new();
    note(&mut reached, format!("{taken} bytes"), taken > target.memory_bytes * 5);
    reached
}

pub(super) fn memory_bomb_in_files(target: &Target) -> Reached {
    let mut reached = Vec::new();
    // SAFETY: a zero-terminated text.
    let hidden = unsafe { libc::syscall(libc::SYS_memfd_create, c"x".as_ptr(), 0) };
    note(&mut reached, "memory without a mapping", hidden >= 0);
    for directory in ["/dev/shm", "/tmp", "/dev", "/run", "/"] {
        let written = fill(Path::new(directory), target.memory_bytes * 3, 1, false);
        note(&mut reached, format!("{written} bytes in {directory}"), written > target.memory_bytes * 2);
    }
    reached
}

/// Fills a directory with `files` files; returns the number of bytes written.
fn fill(directory: &Path, bytes: usize, files: usize, delete: bool) -> usize {
    let chunk = vec![7u8; 1 << 20];
    let mut written = 0;
    let mut open = Vec::new();
    for number in 0..files {
        let path = directory.join(format!("filler-{number}"));
        let Ok(mut file) = fs::File::create(&path) else { break };
        if delete {
            let _ = fs::remove_file(&path);
        }
        while written < bytes / files * (number + 1) && file.write_all(&chunk).is_ok() {
            written += chunk.len();
            std::thread::sleep(Duration::from_millis(1));
        }
        open.push(file);
    }
    written
}

pub(super) fn disk_filler(target: &Target) -> Reached {
    // SAFETY: a file that exceeds its limit causes an error here instead of a signal.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let written = fill(&target.workspace, target.disk_bytes * 16, 64, false);
    let mut reached = Vec::new();
    note(&mut reached, format!("{written} bytes"), written >= target.disk_bytes * 12);
    reached
}

pub(super) fn disk_filler_deleted(target: &Target) -> Reached {
    let written = fill(&target.workspace, target.disk_bytes * 16, 64, true);
    let mut reached = Vec::new();
    note(&mut reached, format!("{written} bytes"), written >= target.disk_bytes * 12);
    reached
}

pub(super) fn disk_filler_reserved(target: &Target) -> Reached {
    let mut reached = Vec::new();
    if let Ok(file) = fs::File::create(target.workspace.join("reserved")) {
        let bytes = target.disk_bytes as i64;
        // SAFETY: plain numbers.
        note(&mut reached, "reserved space", unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, bytes) } == 0);
    }
    reached
}
