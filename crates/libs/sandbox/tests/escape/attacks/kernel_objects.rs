//! Attacks that create kernel objects which belong to processes or files and are charged to none. Bounded like the
//! attacks of `kernel_memory`.
#![allow(unsafe_code, reason = "attacks make raw system calls")]

use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;

use super::kernel_memory::{filled_pair, filled_pairs, run_processes};
use super::{Reached, Target};

/// The rest of the process shows neither memory nor descriptors under its own number.
pub(super) fn first_threads_that_end(target: &Target) -> Reached {
    run_processes(target, 40, |tally| {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                filled_pairs(tally);
                std::thread::sleep(std::time::Duration::from_secs(2));
                // SAFETY: ends the process with all its threads.
                unsafe { libc::_exit(0) };
            });
            // SAFETY: ends only this thread; the other borrows from a stack that remains.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
        });
    })
}

/// Sockets that are filled, sent to one of the attacker's own sockets, and closed.
pub(super) fn sockets_on_the_way(target: &Target) -> Reached {
    run_processes(target, 20, |tally| {
        let mut ways: Vec<(UnixStream, UnixStream)> = Vec::new();
        while !tally.is_full() {
            let Some(pair) = filled_pair(tally) else { break };
            let is_sent = |ways: &[(UnixStream, UnixStream)]| {
                let Some((way, _)) = ways.last() else { return false };
                pair.iter().all(|socket| send(way.as_raw_fd(), socket.as_raw_fd()))
            };
            if !is_sent(&ways) {
                let Ok(way) = UnixStream::pair() else { break };
                ways.push(way);
                if !is_sent(&ways) {
                    break;
                }
            }
        }
        std::mem::forget(ways);
    })
}

/// Sends one byte with a descriptor.
fn send(way: RawFd, descriptor: RawFd) -> bool {
    let mut byte = 0u8;
    let mut piece = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let mut beside = [0u64; 3];
    // SAFETY: the message consists of live values; the header has space for one number.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut piece;
        message.msg_iovlen = 1;
        message.msg_control = beside.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(4) as _;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(4) as _;
        libc::CMSG_DATA(header).cast::<RawFd>().write_unaligned(descriptor);
        libc::sendmsg(way, &raw const message, libc::MSG_DONTWAIT) == 1
    }
}

/// Locks every second byte of many files; many locks on one file would be slow.
pub(super) fn locks(target: &Target) -> Reached {
    const LOCK: usize = 192;
    const OF_ONE_FILE: usize = 1_000;
    run_processes(target, 20, |tally| {
        for number in 0.. {
            let path = target.workspace.join(format!("locked-{}-{number}", std::process::id()));
            let Ok(file) = File::create(path) else { break };
            for at in 0..OF_ONE_FILE as i64 {
                // SAFETY: zeros are a valid value, and it lives through the call.
                let locked = unsafe {
                    let mut lock: libc::flock = std::mem::zeroed();
                    (lock.l_type, lock.l_start, lock.l_len) = (libc::F_WRLCK as _, at * 2, 1);
                    libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &raw const lock) == 0
                };
                if !locked {
                    return;
                }
            }
            std::mem::forget(file);
            tally.add(OF_ONE_FILE * LOCK);
            if tally.is_full() {
                break;
            }
        }
    })
}

/// Creates one rule for each port.
pub(super) fn landlock_rules(target: &Target) -> Reached {
    const RULE: usize = 64;
    const BIND: u64 = 1;
    const NETWORK_PORT: usize = 2;
    run_processes(target, 8, |tally| {
        while !tally.is_full() {
            let handled = [0, BIND];
            // SAFETY: the numbers live through the calls and have the given sizes. The rules remain.
            unsafe {
                let rules = libc::syscall(libc::SYS_landlock_create_ruleset, handled.as_ptr(), 16usize, 0usize);
                if rules < 0 {
                    return;
                }
                for port in 0..=u64::from(u16::MAX) {
                    let rule = [BIND, port];
                    if libc::syscall(libc::SYS_landlock_add_rule, rules, NETWORK_PORT, rule.as_ptr(), 0usize) != 0 {
                        return;
                    }
                    tally.add(RULE);
                }
            }
        }
    })
}

pub(super) fn terminals(target: &Target) -> Reached {
    const BOTH_ENDS: usize = 24 << 10;
    run_processes(target, 8, |tally| {
        while !tally.is_full() {
            // SAFETY: zero-terminated texts, and a number that lives through the call. All stay open.
            unsafe {
                let master = libc::open(c"/dev/ptmx".as_ptr(), libc::O_RDWR | libc::O_NOCTTY | libc::O_NONBLOCK);
                let unlocked: libc::c_int = 0;
                if master < 0 || libc::ioctl(master, libc::TIOCSPTLCK, &raw const unlocked) != 0 {
                    return;
                }
                if libc::ioctl(master, libc::TIOCGPTPEER, libc::O_RDWR | libc::O_NOCTTY) < 0 {
                    return;
                }
                libc::write(master, [b'x'; 4000].as_ptr().cast(), 4000);
                tally.add(BOTH_ENDS);
            }
        }
    })
}

/// Each file retains a page for the text that was read.
pub(super) fn files_of_proc(target: &Target) -> Reached {
    const ONE: usize = 5 << 10;
    run_processes(target, 40, |tally| {
        while !tally.is_full() {
            let mut byte = [0];
            let Ok(mut file) = File::open("/proc/self/maps") else { break };
            if std::io::Read::read(&mut file, &mut byte).is_err() {
                break;
            }
            std::mem::forget(file);
            tally.add(ONE);
        }
    })
}

/// Objects with their own size, or that outlive their creator.
pub(super) fn queues_segments_keys(target: &Target) -> Reached {
    const ONE: usize = 1 << 20;
    run_processes(target, 1, |tally| {
        // SAFETY: plain numbers and static texts.
        unsafe {
            let segment = libc::shmget(libc::IPC_PRIVATE, ONE, 0o600);
            let queue = libc::msgget(libc::IPC_PRIVATE, 0o600);
            let semaphores = libc::semget(libc::IPC_PRIVATE, 1000, 0o600);
            let (wish, mode) = (libc::O_CREAT | libc::O_RDWR, 0o600 as libc::mode_t);
            let messages = libc::mq_open(c"/escape".as_ptr(), wish, mode, std::ptr::null::<libc::mq_attr>());
            let key =
                libc::syscall(libc::SYS_add_key, c"user".as_ptr(), c"escape".as_ptr(), c"x".as_ptr(), 1usize, -2isize);
            let memory = libc::syscall(libc::SYS_memfd_create, c"x".as_ptr(), 0usize);
            let secret = libc::syscall(libc::SYS_memfd_secret, 0usize);
            let numbers = [segment, queue, semaphores, messages].map(libc::c_long::from);
            for got in numbers.into_iter().chain([key, memory, secret]) {
                if got >= 0 {
                    // A process that gets one can get any number of them.
                    tally.add(1 << 30);
                }
            }
        }
    })
}
