//! Attacks on other processes, in particular the daemon.
#![allow(unsafe_code, reason = "attacks make raw system calls")]

use std::fs;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

use super::{Reached, Target, last_error, note};

pub(super) fn tracing(target: &Target) -> Reached {
    let mut reached = Vec::new();
    for process in [target.victim, target.daemon, unsafe { libc::getppid() }] {
        let nothing = std::ptr::null_mut::<libc::c_void>();
        let mut buffer = [0u8; 8];
        let local = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        let remote = libc::iovec { iov_base: 0x400000 as *mut libc::c_void, iov_len: buffer.len() };
        // SAFETY: the vectors live through the call; addresses in other processes are only numbers here.
        unsafe {
            note(
                &mut reached,
                format!("attached to {process}"),
                libc::ptrace(libc::PTRACE_ATTACH, process, nothing, nothing) == 0,
            );
            note(
                &mut reached,
                format!("seized {process}"),
                libc::ptrace(libc::PTRACE_SEIZE, process, nothing, nothing) == 0,
            );
            let read = libc::process_vm_readv(process, &raw const local, 1, &raw const remote, 1, 0);
            note(&mut reached, format!("read memory of {process}"), read >= 0 || last_error() == libc::EFAULT);
            let handle = libc::syscall(libc::SYS_pidfd_open, process, 0);
            if handle >= 0 {
                note(
                    &mut reached,
                    format!("took a descriptor of {process}"),
                    libc::syscall(libc::SYS_pidfd_getfd, handle, 1, 0) >= 0,
                );
            }
        }
    }
    reached
}

pub(super) fn signals(target: &Target) -> Reached {
    let mut reached = Vec::new();
    // In a process namespace these numbers may be unused, or refer to the attacker; the suite checks that the victim
    // survives.
    for process in [target.victim, target.daemon] {
        // SAFETY: plain numbers.
        unsafe {
            let own = libc::getpid() == process || libc::getppid() == process;
            note(&mut reached, format!("kill {process}"), !own && libc::kill(process, libc::SIGURG) == 0);
            note(
                &mut reached,
                format!("tgkill {process}"),
                !own && libc::syscall(libc::SYS_tgkill, process, process, libc::SIGURG) == 0,
            );
            let handle = libc::syscall(libc::SYS_pidfd_open, process, 0);
            let sent = handle >= 0 && libc::syscall(libc::SYS_pidfd_send_signal, handle, libc::SIGURG, 0usize, 0) == 0;
            note(&mut reached, format!("pidfd_send_signal {process}"), !own && sent);
        }
    }
    // SAFETY: plain numbers; the array lives through the call.
    unsafe {
        // Signals all processes of this user; the attacker ignores the signal.
        libc::signal(libc::SIGTERM, libc::SIG_IGN);
        libc::kill(-1, libc::SIGTERM);
        // A descriptor that signals its owner when data is available.
        let mut pair = [0; 2];
        if libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, pair.as_mut_ptr()) == 0 {
            libc::fcntl(pair[0], libc::F_SETOWN, target.victim);
            libc::fcntl(pair[0], 10 /* F_SETSIG */, libc::SIGKILL);
            libc::fcntl(pair[0], libc::F_SETFL, libc::O_ASYNC);
            libc::write(pair[1], b"x".as_ptr().cast(), 1);
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    reached
}

pub(super) fn signals_to_init(_: &Target) -> Reached {
    // SAFETY: plain numbers.
    let parent = unsafe { libc::getppid() };
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGSTOP, libc::SIGSEGV, libc::SIGKILL] {
        // SAFETY: plain numbers. Process 1 of a namespace ignores them without an error.
        unsafe { libc::kill(parent, signal) };
    }
    std::thread::sleep(Duration::from_millis(100));
    let mut reached = Vec::new();
    // SAFETY: plain numbers.
    note(&mut reached, "ended the init", unsafe { libc::getppid() } != parent);
    reached
}

pub(super) fn limits_of_others(target: &Target) -> Reached {
    let mut reached = Vec::new();
    for process in [target.victim, target.daemon] {
        let limit = libc::rlimit { rlim_cur: 1 << 40, rlim_max: 1 << 40 };
        // SAFETY: structures that live through the calls.
        unsafe {
            let get = libc::prlimit(process, libc::RLIMIT_CORE, std::ptr::null(), &mut { limit });
            note(&mut reached, format!("read limits of {process}"), get == 0);
            let priority = libc::setpriority(libc::PRIO_PROCESS, process as u32, 19);
            note(&mut reached, format!("priority of {process}"), priority == 0);
            let parameter = libc::sched_param { sched_priority: 0 };
            note(
                &mut reached,
                format!("scheduling of {process}"),
                libc::sched_setscheduler(process, libc::SCHED_BATCH, &raw const parameter) == 0,
            );
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(0, &mut set);
            note(
                &mut reached,
                format!("processors of {process}"),
                libc::sched_setaffinity(process, size_of_val(&set), &raw const set) == 0,
            );
        }
    }
    reached
}

pub(super) fn secrets_in_proc(target: &Target) -> Reached {
    let mut reached = Vec::new();
    for process in ["1".to_owned(), target.daemon.to_string(), target.victim.to_string()] {
        for file in ["environ", "cmdline", "maps", "mem", "stack", "auxv"] {
            let path = format!("/proc/{process}/{file}");
            let Ok(mut file) = fs::File::open(&path) else { continue };
            let mut bytes = vec![0; 1 << 16];
            let length = file.read(&mut bytes).unwrap_or(0);
            let foreign =
                bytes[..length].windows(target.secret_text.len()).any(|part| part == target.secret_text.as_bytes());
            // The command line of the sandbox's first process is not a secret.
            note(&mut reached, path.clone(), foreign || (!path.ends_with("cmdline") && length > 0));
        }
        for link in ["root", "cwd", "exe", "fd/0", "fd/3"] {
            let path = format!("/proc/{process}/{link}");
            note(&mut reached, path.clone(), fs::metadata(&path).is_ok());
        }
    }
    for path in [
        "/proc/sys/kernel/core_pattern",
        "/proc/sysrq-trigger",
        "/proc/sys/kernel/hostname",
        "/proc/sys/vm/overcommit_memory",
    ] {
        note(&mut reached, format!("write {path}"), fs::OpenOptions::new().write(true).open(path).is_ok());
    }
    for path in ["/proc/kmsg", "/proc/keys", "/dev/kmsg"] {
        let read = fs::File::open(path)
            .is_ok_and(|mut file| path != "/proc/kmsg" && file.read(&mut [0; 64]).is_ok_and(|length| length > 0));
        note(&mut reached, path, read && path != "/proc/keys");
    }
    reached
}

pub(super) fn shared_memory(target: &Target) -> Reached {
    let mut reached = Vec::new();
    // SAFETY: an address is returned or not; nothing is read.
    unsafe {
        let attached = libc::shmat(target.shared_memory, std::ptr::null(), libc::SHM_RDONLY);
        note(&mut reached, "attached the daemon's segment", attached as isize != -1);
    }
    reached
}

pub(super) fn descriptors(_: &Target) -> Reached {
    // SAFETY: a query about numbers.
    (3..4096)
        .filter(|number| unsafe { libc::fcntl(*number, libc::F_GETFD) } >= 0)
        .map(|number| format!("descriptor {number}"))
        .collect()
}

pub(super) fn environment(target: &Target) -> Reached {
    std::env::vars().filter(|(_, value)| value.contains(&target.secret_text)).map(|(name, _)| name).collect()
}

/// Detaches in every possible way, and periodically writes to the workspace.
pub(super) fn outlive(target: &Target) -> Reached {
    // SAFETY: children detach and write to a file.
    unsafe {
        for signal in [libc::SIGTERM, libc::SIGHUP, libc::SIGINT, libc::SIGPIPE] {
            libc::signal(signal, libc::SIG_IGN);
        }
        for number in 0..3 {
            if libc::fork() == 0 {
                libc::setsid();
                if libc::fork() == 0 {
                    if number == 1 {
                        libc::setpgid(0, 0);
                    }
                    let path = target.workspace.join(format!("alive-{number}"));
                    loop {
                        let _ = fs::write(&path, format!("{:?}", Instant::now()));
                        std::thread::sleep(Duration::from_millis(5));
                    }
                }
                libc::_exit(0);
            }
        }
    }
    println!("running");
    let _ = std::io::stdout().flush();
    loop {
        std::thread::sleep(Duration::from_secs(1000));
    }
}
