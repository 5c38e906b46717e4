//! Attacks that obtain kernel memory which no process reports as its own.
//!
//! The processes of an attack stop when they have obtained [`LIMIT_MULTIPLE`] times the limit, so that it causes no
//! harm if nothing stops it. Each process writes its amount to a file, because most are killed.
#![allow(unsafe_code, reason = "attacks make raw system calls")]

use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Reached, Target, text};

/// Maximum multiple of the memory limit that all processes of an attack obtain together.
pub(crate) const LIMIT_MULTIPLE: usize = 8;
/// Prefix of the names of the files that contain the amounts.
pub(crate) const AMOUNT_FILE_PREFIX: &str = "taken-";

/// Number of bytes obtained by one process, written to a file for the suite.
pub(super) struct Tally {
    file: File,
    bytes: u64,
    limit: u64,
}

impl Tally {
    pub(super) fn add(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        self.file.write_at(&self.bytes.to_ne_bytes(), 0).unwrap();
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes >= self.limit
    }
}

/// Runs `count` processes that each obtain an equal share of the memory and hold it for two seconds.
pub(super) fn run_processes(target: &Target, count: usize, take: impl Fn(&mut Tally)) -> Reached {
    let mut children = Vec::new();
    for number in 0..count {
        // SAFETY: the child allocates memory, sleeps and exits.
        match unsafe { libc::fork() } {
            0 => {
                let file = File::create(target.workspace.join(format!("{AMOUNT_FILE_PREFIX}{number}"))).unwrap();
                let limit = (target.memory_bytes * LIMIT_MULTIPLE / count) as u64;
                take(&mut Tally { file, bytes: 0, limit });
                std::thread::sleep(Duration::from_secs(2));
                unsafe { libc::_exit(0) };
            }
            -1 => break,
            child => children.push(child),
        }
    }
    for child in children {
        // SAFETY: the status is not used.
        unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
    }
    Vec::new()
}

/// Maps and fills shared memory.
fn map_shared_chunk(bytes: usize) -> Option<*mut libc::c_void> {
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: new memory of this size, which is written within its bounds.
    unsafe {
        let chunk = libc::mmap(std::ptr::null_mut(), bytes, access, flags, -1, 0);
        if chunk == libc::MAP_FAILED {
            return None;
        }
        libc::memset(chunk, 1, bytes);
        Some(chunk)
    }
}

/// Each process stays below the limit, also in its mappings.
pub(super) fn dropped_pages_of_many(target: &Target) -> Reached {
    const CHUNK_BYTES: usize = 4 << 20;
    run_processes(target, 20, |tally| {
        while !tally.is_full() {
            let Some(chunk) = map_shared_chunk(CHUNK_BYTES) else { break };
            // SAFETY: memory that was mapped.
            unsafe { libc::madvise(chunk, CHUNK_BYTES, libc::MADV_DONTNEED) };
            tally.add(CHUNK_BYTES);
        }
    })
}

/// The object retains its pages while one of them is mapped.
pub(super) fn unmapped_pages(target: &Target) -> Reached {
    const CHUNK_BYTES: usize = 8 << 20;
    run_processes(target, 4, |tally| {
        while !tally.is_full() {
            let Some(chunk) = map_shared_chunk(CHUNK_BYTES) else { break };
            // SAFETY: all of the mapping but its first page.
            unsafe { libc::munmap(chunk.byte_add(4096), CHUNK_BYTES - 4096) };
            tally.add(CHUNK_BYTES);
        }
    })
}

/// Writes until the descriptor is full.
pub(super) fn fill(descriptor: RawFd, chunk: &[u8], tally: &mut Tally) {
    // SAFETY: the piece lives through the call.
    unsafe {
        libc::fcntl(descriptor, libc::F_SETFL, libc::O_NONBLOCK);
        loop {
            let written = libc::write(descriptor, chunk.as_ptr().cast(), chunk.len());
            let Ok(written @ 1..) = usize::try_from(written) else { break };
            tally.add(written);
        }
    }
}

fn with_large_buffers(socket: RawFd) {
    let bytes: libc::c_int = 4 << 20;
    for option in [libc::SO_SNDBUF, libc::SO_RCVBUF] {
        // SAFETY: the number lives through the call.
        unsafe { libc::setsockopt(socket, libc::SOL_SOCKET, option, (&raw const bytes).cast(), 4) };
    }
}

/// Processes that hide their descriptors.
pub(super) fn hidden_socket_pairs(target: &Target) -> Reached {
    // SAFETY: plain numbers. Children inherit the setting.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0) };
    socket_pairs(target)
}

pub(super) fn socket_pairs(target: &Target) -> Reached {
    run_processes(target, 40, filled_pairs)
}

pub(super) fn filled_pairs(tally: &mut Tally) {
    while !tally.is_full() {
        let Some(pair) = filled_pair(tally) else { break };
        std::mem::forget(pair);
    }
}

pub(super) fn filled_pair(tally: &mut Tally) -> Option<[OwnedFd; 2]> {
    let mut pair = [-1; 2];
    // SAFETY: space for two numbers, which are adopted once.
    let owned = unsafe {
        if libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, pair.as_mut_ptr()) != 0 {
            return None;
        }
        pair.map(|descriptor| OwnedFd::from_raw_fd(descriptor))
    };
    for descriptor in pair {
        with_large_buffers(descriptor);
        fill(descriptor, &[7; 32 << 10], tally);
    }
    Some(owned)
}

pub(super) fn tcp_buffers(target: &Target) -> Reached {
    run_processes(target, 8, |tally| {
        let Ok(listener) = TcpListener::bind(("127.0.0.1", 0)) else { return };
        let mut streams = Vec::new();
        let mut failed_attempts = 0;
        while !tally.is_full() && failed_attempts < 20 {
            let before = tally.bytes;
            let Ok(stream) = TcpStream::connect(listener.local_addr().unwrap()) else { break };
            with_large_buffers(stream.as_raw_fd());
            // Acknowledged data frees space for more.
            for _ in 0..20 {
                fill(stream.as_raw_fd(), &[7; 64 << 10], tally);
                std::thread::sleep(Duration::from_millis(1));
            }
            streams.push(stream);
            failed_attempts = if tally.bytes == before { failed_attempts + 1 } else { 0 };
        }
        std::mem::forget((listener, streams));
    })
}

/// Each connection gets little, even if all together reach their limit.
pub(super) fn tcp_connections(target: &Target) -> Reached {
    run_processes(target, 20, |tally| {
        let Ok(listener) = TcpListener::bind(("127.0.0.1", 0)) else { return };
        let mut streams = Vec::new();
        while !tally.is_full() {
            let Ok(stream) = TcpStream::connect(listener.local_addr().unwrap()) else { break };
            let Ok((other, _)) = listener.accept() else { break };
            for end in [&stream, &other] {
                fill(end.as_raw_fd(), &[7; 64 << 10], tally);
            }
            streams.extend([stream, other]);
        }
        std::mem::forget((listener, streams));
    })
}

pub(super) fn pipes(target: &Target) -> Reached {
    run_processes(target, 40, |tally| {
        while !tally.is_full() {
            let mut ends = [-1; 2];
            // SAFETY: space for two numbers. They stay open.
            unsafe {
                if libc::pipe(ends.as_mut_ptr()) != 0 {
                    break;
                }
                libc::fcntl(ends[1], libc::F_SETPIPE_SZ, 1 << 20);
            }
            fill(ends[1], &[7; 4096], tally);
        }
    })
}

/// Returns directories of in-memory file systems.
fn memory_directories() -> Vec<PathBuf> {
    const TMPFS: i64 = 0x0102_1994;
    let own = std::env::var_os("TMPDIR").map(PathBuf::from);
    let mut directories: Vec<PathBuf> = ["/tmp", "/dev/shm", "/dev", "/run", "/"].map(PathBuf::from).into();
    directories.extend(own);
    let is_memory = |path: &Path| {
        // SAFETY: zeros are a valid value, and the text lives through the call.
        unsafe {
            let mut system: libc::statfs = std::mem::zeroed();
            libc::statfs(text(path).as_ptr(), &mut system) == 0 && system.f_type == TMPFS
        }
    };
    directories.retain(|path| is_memory(path));
    directories
}

/// Approximate memory cost of an empty file.
const ENTRY_BYTES: usize = 900;

pub(super) fn empty_files(target: &Target) -> Reached {
    let directories = memory_directories();
    run_processes(target, 4, |tally| {
        for directory in &directories {
            let own = directory.join(format!("empty-{}", std::process::id()));
            if fs::create_dir(&own).is_err() {
                continue;
            }
            for number in 0.. {
                if tally.is_full() || File::create(own.join(format!("{number}"))).is_err() {
                    break;
                }
                tally.add(ENTRY_BYTES);
            }
        }
    })
}

/// Every instance receives a copy of every event.
pub(super) fn inotify_queues(target: &Target) -> Reached {
    run_processes(target, 4, |tally| {
        let directory = target.workspace.join(format!("events-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        // SAFETY: a text that lives through the calls. The instances stay open.
        let instances = (0..64).take_while(|_| unsafe {
            let instance = libc::inotify_init();
            instance >= 0 && libc::inotify_add_watch(instance, text(&directory).as_ptr(), libc::IN_ALL_EVENTS) >= 0
        });
        let instances = instances.count();
        // Two alternating names, since identical events are merged.
        let names = ["a", "b"].map(|letter| directory.join(letter.repeat(250)));
        for name in names.iter().cycle().take(8_000) {
            if tally.is_full() || instances == 0 || File::create(name).is_err() {
                break;
            }
            // Opened, changed or created, and closed.
            tally.add(instances * 2 * 300);
        }
    })
}

pub(super) fn epoll_entries(target: &Target) -> Reached {
    const ENTRY_BYTES: usize = 192;
    run_processes(target, 20, |tally| {
        let mut ends = [-1; 2];
        // SAFETY: space for two numbers, and events that live through the calls. All stay open.
        unsafe {
            let mut targets = Vec::new();
            while targets.len() < 500 && libc::pipe(ends.as_mut_ptr()) == 0 {
                targets.extend(ends);
            }
            while !tally.is_full() {
                let poll = libc::epoll_create1(0);
                if poll < 0 {
                    break;
                }
                for descriptor in &targets {
                    let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
                    if libc::epoll_ctl(poll, libc::EPOLL_CTL_ADD, *descriptor, &mut event) != 0 {
                        return;
                    }
                }
                tally.add(targets.len() * ENTRY_BYTES);
            }
        }
    })
}

/// Zero pages need no memory, but their page tables do.
pub(super) fn page_tables(target: &Target) -> Reached {
    const CHUNK_BYTES: usize = 1 << 30;
    const BYTES_PER_TABLE: usize = 2 << 20;
    run_processes(target, 4, |tally| {
        while !tally.is_full() {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            // SAFETY: new memory of this size, which is read within its bounds.
            unsafe {
                let chunk = libc::mmap(std::ptr::null_mut(), CHUNK_BYTES, libc::PROT_READ, flags, -1, 0);
                if chunk == libc::MAP_FAILED {
                    break;
                }
                libc::madvise(chunk, CHUNK_BYTES, libc::MADV_NOHUGEPAGE);
                for at in (0..CHUNK_BYTES).step_by(BYTES_PER_TABLE) {
                    chunk.cast::<u8>().add(at).read_volatile();
                    tally.add(4096);
                }
            }
        }
    })
}
