//! Attacks on privileges and kernel interfaces.
#![allow(unsafe_code, reason = "attacks make raw system calls")]

use std::fs;
use std::os::fd::AsRawFd;

use super::{Reached, Target, last_error, note, text};

pub(super) fn rights(target: &Target) -> Reached {
    let mut reached = Vec::new();
    // SAFETY: plain numbers, and structures of the sizes that the calls expect.
    unsafe {
        note(&mut reached, "may gain rights", libc::prctl(libc::PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1);
        let header: [u32; 2] = [0x2008_0522, 0];
        let mut sets = [[0u32; 3]; 2];
        let asked = libc::syscall(libc::SYS_capget, header.as_ptr(), sets.as_mut_ptr());
        note(&mut reached, "has capabilities", asked != 0 || sets != [[0; 3]; 2]);
        note(&mut reached, "became root", libc::getuid() != 0 && libc::setuid(0) == 0);
        for mode in [0o4755, 0o2755] {
            let path = target.workspace.join("set-id");
            let _ = fs::write(&path, "x");
            note(&mut reached, format!("mode {mode:o}"), libc::chmod(text(&path).as_ptr(), mode) == 0);
            let made = text(target.workspace.join(format!("made-{mode:o}")));
            note(
                &mut reached,
                format!("made a file of mode {mode:o}"),
                libc::open(made.as_ptr(), libc::O_CREAT | libc::O_WRONLY, mode) >= 0,
            );
        }
        note(
            &mut reached,
            "made a device",
            libc::mknod(text(target.workspace.join("device")).as_ptr(), libc::S_IFBLK | 0o666, libc::makedev(254, 0))
                == 0,
        );
    }
    reached
}

pub(super) fn terminal(_: &Target) -> Reached {
    let mut reached = Vec::new();
    let letter = b'x';
    // SAFETY: the letter lives through the calls.
    unsafe {
        for descriptor in 0..3 {
            note(&mut reached, "typed", libc::ioctl(descriptor, libc::TIOCSTI, &raw const letter) == 0);
        }
        // The upper half of the number must not matter.
        note(
            &mut reached,
            "typed with a long number",
            libc::syscall(libc::SYS_ioctl, 0, libc::TIOCSTI | 1 << 40, &raw const letter) == 0,
        );
        note(&mut reached, "opened the terminal", libc::open(c"/dev/tty".as_ptr(), libc::O_RDWR) >= 0);
        let terminal = libc::open(c"/dev/ptmx".as_ptr(), libc::O_RDWR | libc::O_NOCTTY);
        if terminal >= 0 {
            note(
                &mut reached,
                "typed into a new terminal",
                libc::ioctl(terminal, libc::TIOCSTI, &raw const letter) == 0 || last_error() != libc::EPERM,
            );
        }
    }
    reached
}

pub(super) fn namespaces(_: &Target) -> Reached {
    let mut reached = Vec::new();
    for (name, flag) in [
        ("user", libc::CLONE_NEWUSER),
        ("mount", libc::CLONE_NEWNS),
        ("network", libc::CLONE_NEWNET),
        ("process", libc::CLONE_NEWPID),
    ] {
        // SAFETY: with these flags, clone is a fork; the child ends immediately.
        unsafe {
            note(&mut reached, format!("unshare {name}"), libc::unshare(flag) == 0);
            let child = libc::syscall(libc::SYS_clone, flag | libc::SIGCHLD, 0usize, 0usize, 0usize, 0usize);
            if child == 0 {
                libc::_exit(0);
            }
            note(&mut reached, format!("clone {name}"), child > 0);
            let mut arguments = [0u64; 11];
            arguments[0] = u64::from(flag.cast_unsigned());
            arguments[4] = libc::SIGCHLD as u64;
            let child = libc::syscall(libc::SYS_clone3, arguments.as_mut_ptr(), size_of_val(&arguments));
            if child == 0 {
                libc::_exit(0);
            }
            note(&mut reached, format!("clone3 {name}"), child > 0);
        }
    }
    for kind in ["user", "mnt", "net", "pid"] {
        if let Ok(file) = fs::File::open(format!("/proc/1/ns/{kind}")) {
            // SAFETY: an open descriptor.
            note(&mut reached, format!("setns {kind}"), unsafe { libc::setns(file.as_raw_fd(), 0) } == 0);
        }
    }
    reached
}

pub(super) fn foreign_numbers(_: &Target) -> Reached {
    let mut reached = Vec::new();
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a query without memory.
    unsafe {
        note(&mut reached, "x32", libc::syscall(0x4000_0000 | libc::SYS_getpid) > 0);
        // The 32-bit entry point; the filter kills the process that uses it.
        let child = libc::fork();
        if child == 0 {
            let answer: i64;
            std::arch::asm!("int 0x80", inlateout("rax") 20i64 => answer, out("r8") _, out("r9") _, out("r10") _, out("r11") _);
            libc::_exit(if answer > 0 { 77 } else { 0 });
        }
        let mut status = 0;
        libc::waitpid(child, &mut status, 0);
        note(&mut reached, "int 0x80", libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 77);
    }
    reached
}

pub(super) fn dangerous_calls(_: &Target) -> Reached {
    let calls: [(&str, i64); 20] = [
        ("bpf", libc::SYS_bpf),
        ("keyctl", libc::SYS_keyctl),
        ("add_key", libc::SYS_add_key),
        ("request_key", libc::SYS_request_key),
        ("userfaultfd", libc::SYS_userfaultfd),
        ("perf_event_open", libc::SYS_perf_event_open),
        ("io_uring_setup", libc::SYS_io_uring_setup),
        ("io_setup", libc::SYS_io_setup),
        ("kexec_load", libc::SYS_kexec_load),
        ("init_module", libc::SYS_init_module),
        ("delete_module", libc::SYS_delete_module),
        ("open_by_handle_at", libc::SYS_open_by_handle_at),
        ("fanotify_init", libc::SYS_fanotify_init),
        ("syslog", libc::SYS_syslog),
        ("reboot", libc::SYS_reboot),
        ("swapon", libc::SYS_swapon),
        ("memfd_secret", libc::SYS_memfd_secret),
        ("landlock_create_ruleset", libc::SYS_landlock_create_ruleset),
        ("landlock_add_rule", libc::SYS_landlock_add_rule),
        ("landlock_restrict_self", libc::SYS_landlock_restrict_self),
    ];
    // SAFETY: every pointer is null, so that a permitted call does nothing.
    let open = |call: i64| unsafe { libc::syscall(call, 0usize, 0usize, 0usize, 0usize, 0usize) } >= 0
        || !matches!(last_error(), libc::EPERM | libc::ENOSYS);
    calls.into_iter().filter(|(_, call)| open(*call)).map(|(name, _)| name.to_owned()).collect()
}

/// A thread's private descriptors are not shown with its process.
pub(super) fn own_descriptors(_: &Target) -> Reached {
    extern "C" fn end(_: *mut libc::c_void) -> libc::c_int {
        0
    }
    let mut reached = Vec::new();
    let mut stack = vec![0u128; 4 << 10];
    let flags = libc::CLONE_VM | libc::CLONE_SIGHAND | libc::CLONE_THREAD;
    // SAFETY: the thread ends immediately, on a stack that outlives it: this process ends with its last thread.
    unsafe {
        let thread = libc::clone(end, stack.as_mut_ptr_range().end.cast(), flags, std::ptr::null_mut());
        note(&mut reached, "a thread with descriptors of its own", thread >= 0);
        let unshare: libc::c_uint = 2;
        let parted = libc::syscall(libc::SYS_close_range, 1000 as libc::c_uint, 1000 as libc::c_uint, unshare);
        note(&mut reached, "parted from the descriptors of its threads", parted == 0);
    }
    std::mem::forget(stack);
    reached
}
