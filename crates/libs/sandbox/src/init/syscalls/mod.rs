//! Seccomp filters: system calls that sandboxed code must not use.
//!
//! The list is a denylist, since programs of every kind run here, and the namespaces or Landlock are the actual
//! barrier. It blocks the means of known escapes (mounting, tracing, keyrings, BPF, io_uring, new namespaces). Without
//! namespaces it also blocks everything that reaches another process, or another user's file without opening it.
//!
//! Calls that fail with `ENOSYS` are those for which programs have a fallback.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Width, SeccompCmpOp as Is, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

/// Other protection of the run.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Strictness {
    /// Namespaces hide other processes, networks and files.
    Namespaced,
    /// Landlock alone. `own_user`: nothing outside belongs to the program's user.
    Shared { landlock_version: u32, own_user: bool },
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Bits of a socket type that are not flags (`SOCK_TYPE_MASK`).
const SOCKET_KIND: u64 = 0xf;

/// Returns the filter programs, in the order of installation. With `fixes_buffers`, sockets keep their initial buffer
/// sizes, because nothing accounts for their contents.
pub(crate) fn filters(strictness: Strictness, fixes_buffers: bool) -> io::Result<Vec<BpfProgram>> {
    let mut refused = Rules::new();
    refuse_always(&mut refused)?;
    let mut missing = Rules::new();
    for call in [
        // Their flags are in memory, which filters cannot inspect; programs fall back to the older calls.
        libc::SYS_clone3,
        libc::SYS_openat2,
        // Memory that no process has mapped would not be counted.
        libc::SYS_memfd_create,
        libc::SYS_memfd_secret,
        libc::SYS_shmget,
        libc::SYS_shmat,
        libc::SYS_msgget,
        libc::SYS_semget,
        libc::SYS_io_uring_setup,
        libc::SYS_io_uring_enter,
        libc::SYS_io_uring_register,
        // One run could use up all contexts of the machine.
        libc::SYS_io_setup,
        // One such descriptor retains megabytes, and programs work without it.
        libc::SYS_landlock_create_ruleset,
        libc::SYS_landlock_add_rule,
        libc::SYS_landlock_restrict_self,
    ] {
        missing.insert(call, Vec::new());
    }
    let mut unsupported = Rules::new();
    // It allocates space without writing, so it would not be counted; writing zeros is the fallback.
    unsupported.insert(libc::SYS_fallocate, Vec::new());
    let mut no_family = Rules::new();
    match strictness {
        Strictness::Namespaced => {
            // Only the families that a network namespace isolates.
            let other = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6]
                .into_iter()
                .map(|family| when(0, Width::Dword, Is::Ne, family))
                .collect::<io::Result<Vec<_>>>()?;
            add(&mut no_family, libc::SYS_socket, other)?;
        }
        Strictness::Shared { landlock_version, own_user } => {
            // It reveals names and accesses of files that cannot be opened.
            for call in [libc::SYS_inotify_init1, libc::SYS_inotify_add_watch] {
                missing.insert(call, Vec::new());
            }
            #[cfg(target_arch = "x86_64")]
            missing.insert(libc::SYS_inotify_init, Vec::new());
            refuse_access_to_others(&mut refused, landlock_version, own_user)?;
        }
    }
    let mut ignored = Rules::new();
    if fixes_buffers {
        // The kernel silently grants less than requested, too.
        for option in [libc::SO_SNDBUF, libc::SO_RCVBUF] {
            let conditions = vec![equals(1, libc::SOL_SOCKET)?, equals(2, option)?];
            add(&mut ignored, libc::SYS_setsockopt, conditions)?;
        }
    }
    let mut programs = vec![refuse_foreign_numbers()];
    for (rules, error) in [
        (refused, libc::EPERM),
        (missing, libc::ENOSYS),
        (unsupported, libc::EOPNOTSUPP),
        (no_family, libc::EAFNOSUPPORT),
        (ignored, 0),
    ] {
        if !rules.is_empty() {
            programs.push(compile(rules, error)?);
        }
    }
    Ok(programs)
}

fn refuse_always(rules: &mut Rules) -> io::Result<()> {
    for call in [
        // Mounts and root directories.
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_pivot_root,
        libc::SYS_chroot,
        libc::SYS_move_mount,
        libc::SYS_open_tree,
        libc::SYS_fsopen,
        libc::SYS_fsconfig,
        libc::SYS_fsmount,
        libc::SYS_fspick,
        libc::SYS_mount_setattr,
        // Namespaces.
        libc::SYS_unshare,
        libc::SYS_setns,
        // Access to other processes.
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_process_madvise,
        libc::SYS_process_mrelease,
        libc::SYS_pidfd_getfd,
        libc::SYS_kcmp,
        libc::SYS_migrate_pages,
        libc::SYS_move_pages,
        // Keyrings belong to users, not to namespaces.
        libc::SYS_keyctl,
        libc::SYS_add_key,
        libc::SYS_request_key,
        // Large parts of the kernel that sandboxed code does not need.
        libc::SYS_bpf,
        libc::SYS_userfaultfd,
        libc::SYS_perf_event_open,
        libc::SYS_fanotify_init,
        libc::SYS_name_to_handle_at,
        libc::SYS_open_by_handle_at,
        libc::SYS_lookup_dcookie,
        libc::SYS_vmsplice,
        libc::SYS_mbind,
        libc::SYS_set_mempolicy,
        // Machine control.
        libc::SYS_kexec_load,
        libc::SYS_kexec_file_load,
        libc::SYS_init_module,
        libc::SYS_finit_module,
        libc::SYS_delete_module,
        libc::SYS_reboot,
        libc::SYS_swapon,
        libc::SYS_swapoff,
        libc::SYS_acct,
        libc::SYS_quotactl,
        libc::SYS_quotactl_fd,
        libc::SYS_syslog,
        libc::SYS_settimeofday,
        libc::SYS_clock_settime,
        libc::SYS_clock_adjtime,
        libc::SYS_adjtimex,
        libc::SYS_sethostname,
        libc::SYS_setdomainname,
        libc::SYS_vhangup,
        libc::SYS_nfsservctl,
    ] {
        rules.insert(call, Vec::new());
    }
    #[cfg(target_arch = "x86_64")]
    for call in [
        libc::SYS_iopl,
        libc::SYS_ioperm,
        libc::SYS_modify_ldt,
        libc::SYS_uselib,
        libc::SYS_ustat,
        libc::SYS_sysfs,
        libc::SYS__sysctl,
    ] {
        rules.insert(call, Vec::new());
    }
    for flag in [
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWNS,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWCGROUP,
    ] {
        add(rules, libc::SYS_clone, vec![has(0, flag)?])?;
    }
    // A thread with separate descriptors, which `/proc` does not list with those of its process.
    let (thread, with_files) = (libc::CLONE_THREAD as u64, (libc::CLONE_THREAD | libc::CLONE_FILES) as u64);
    add(rules, libc::SYS_clone, vec![condition(0, Width::Dword, Is::MaskedEq(with_files), thread)?])?;
    add(rules, libc::SYS_close_range, vec![has(2, 2 /* CLOSE_RANGE_UNSHARE */)?])?;
    // Injection of terminal input. The kernel checks 32 bits, so the filter does too.
    for request in [libc::TIOCSTI as i64, libc::TIOCLINUX as i64] {
        add(rules, libc::SYS_ioctl, vec![equals(1, request)?])?;
    }
    // Only the default personality, or the query for the current one.
    add(rules, libc::SYS_personality, vec![when(0, Width::Dword, Is::Ne, 0)?, when(0, Width::Dword, Is::Ne, -1)?])?;
    // A set-user-ID file would run with the daemon's rights outside.
    let set_id = [libc::S_ISUID, libc::S_ISGID];
    for bit in set_id {
        let bit = i32::try_from(bit).map_err(io::Error::other)?;
        for (call, mode_at) in [(libc::SYS_fchmod, 1), (libc::SYS_fchmodat, 2), (libc::SYS_fchmodat2, 2)] {
            add(rules, call, vec![has(mode_at, bit)?])?;
        }
        add(rules, libc::SYS_openat, vec![has(2, libc::O_CREAT)?, has(3, bit)?])?;
        add(rules, libc::SYS_openat, vec![all_of(2, libc::O_TMPFILE)?, has(3, bit)?])?;
        add(rules, libc::SYS_mknodat, vec![has(2, bit)?])?;
        #[cfg(target_arch = "x86_64")]
        {
            for (call, mode_at) in [(libc::SYS_chmod, 1), (libc::SYS_creat, 1), (libc::SYS_mknod, 1)] {
                add(rules, call, vec![has(mode_at, bit)?])?;
            }
            add(rules, libc::SYS_open, vec![has(1, libc::O_CREAT)?, has(2, bit)?])?;
            add(rules, libc::SYS_open, vec![all_of(1, libc::O_TMPFILE)?, has(2, bit)?])?;
        }
    }
    Ok(())
}

/// Blocks what Landlock does not cover, for tiers without namespaces.
fn refuse_access_to_others(rules: &mut Rules, landlock_version: u32, own_user: bool) -> io::Result<()> {
    // No sockets at all: neither the network nor local services. Connected socket pairs remain possible, since they
    // lead nowhere else. Datagram pairs (also created by raw sockets) are blocked, since they can send to any path.
    rules.insert(libc::SYS_socket, Vec::new());
    add(rules, libc::SYS_socketpair, vec![when(0, Width::Dword, Is::Ne, libc::AF_UNIX)?])?;
    for kind in [libc::SOCK_DGRAM, libc::SOCK_RAW] {
        add(rules, libc::SYS_socketpair, vec![condition(1, Width::Dword, Is::MaskedEq(SOCKET_KIND), kind as u64)?])?;
    }
    // Version 3 covers truncation; before, opening for reading with this flag truncated as well.
    if landlock_version < 3 {
        rules.insert(libc::SYS_truncate, Vec::new());
        add(rules, libc::SYS_openat, vec![truncation_while_reading(2)?])?;
        #[cfg(target_arch = "x86_64")]
        add(rules, libc::SYS_open, vec![truncation_while_reading(1)?])?;
    }
    // Version 6 restricts signals. Before, not even the program's own children can be signalled.
    if landlock_version < 6 {
        add(rules, libc::SYS_kill, vec![when(0, Width::Dword, Is::Ne, 0)?])?;
        for call in [
            libc::SYS_tkill,
            libc::SYS_tgkill,
            libc::SYS_rt_sigqueueinfo,
            libc::SYS_rt_tgsigqueueinfo,
            libc::SYS_pidfd_send_signal,
        ] {
            rules.insert(call, Vec::new());
        }
        // A file can be configured to signal any process.
        for command in [libc::F_SETOWN, 15 /* F_SETOWN_EX */] {
            add(rules, libc::SYS_fcntl, vec![equals(1, command)?])?;
        }
        for request in [0x8901 /* FIOSETOWN */, 0x8902 /* SIOCSPGRP */] {
            add(rules, libc::SYS_ioctl, vec![equals(1, request)?])?;
        }
    }
    if own_user {
        return Ok(());
    }
    // The user has other processes and files. Calls with a process id are only allowed for 0, the caller.
    for (call, process_at) in [
        (libc::SYS_prlimit64, 0),
        (libc::SYS_setpriority, 1),
        (libc::SYS_ioprio_set, 1),
        (libc::SYS_sched_setaffinity, 0),
        (libc::SYS_sched_setscheduler, 0),
        (libc::SYS_sched_setparam, 0),
        (libc::SYS_sched_setattr, 0),
    ] {
        add(rules, call, vec![when(process_at, Width::Dword, Is::Ne, 0)?])?;
    }
    // Applies to all processes of a user.
    add(rules, libc::SYS_setpriority, vec![equals(0, i64::from(libc::PRIO_USER))?])?;
    add(rules, libc::SYS_ioprio_set, vec![equals(0, 3 /* IOPRIO_WHO_USER */)?])?;
    // Calls that change a file by name. Changing it by descriptor is allowed, since it was opened.
    for call in [
        libc::SYS_fchmodat,
        libc::SYS_fchmodat2,
        libc::SYS_fchownat,
        libc::SYS_setxattr,
        libc::SYS_lsetxattr,
        libc::SYS_removexattr,
        libc::SYS_lremovexattr,
        463, // setxattrat
        466, // removexattrat
        469, // file_setattr
    ] {
        rules.insert(call, Vec::new());
    }
    add(rules, libc::SYS_utimensat, vec![when(1, Width::Qword, Is::Ne, 0)?])?;
    #[cfg(target_arch = "x86_64")]
    for call in
        [libc::SYS_chmod, libc::SYS_chown, libc::SYS_lchown, libc::SYS_utime, libc::SYS_utimes, libc::SYS_futimesat]
    {
        rules.insert(call, Vec::new());
    }
    Ok(())
}

/// Matches `O_TRUNC` together with `O_RDONLY`.
fn truncation_while_reading(flags_at: u8) -> io::Result<SeccompCondition> {
    let mask = (libc::O_TRUNC | libc::O_ACCMODE) as u64;
    condition(flags_at, Width::Dword, Is::MaskedEq(mask), libc::O_TRUNC as u64)
}

fn has(argument: u8, bit: i32) -> io::Result<SeccompCondition> {
    all_of(argument, bit)
}

fn all_of(argument: u8, bits: i32) -> io::Result<SeccompCondition> {
    let bits = u64::from(bits.cast_unsigned());
    condition(argument, Width::Dword, Is::MaskedEq(bits), bits)
}

fn equals(argument: u8, value: impl Into<i64>) -> io::Result<SeccompCondition> {
    condition(argument, Width::Dword, Is::Eq, value.into().cast_unsigned())
}

fn when(argument: u8, width: Width, is: Is, value: i32) -> io::Result<SeccompCondition> {
    condition(argument, width, is, u64::from(value.cast_unsigned()))
}

fn condition(argument: u8, width: Width, is: Is, value: u64) -> io::Result<SeccompCondition> {
    SeccompCondition::new(argument, width, is, value).map_err(io::Error::other)
}

/// Refuses the call if all conditions hold; further rules for the call are alternatives. A call that is always refused
/// stays so.
fn add(rules: &mut Rules, call: i64, conditions: Vec<SeccompCondition>) -> io::Result<()> {
    let rule = SeccompRule::new(conditions).map_err(io::Error::other)?;
    match rules.get_mut(&call) {
        Some(others) if others.is_empty() => {}
        Some(others) => others.push(rule),
        None => {
            rules.insert(call, vec![rule]);
        }
    }
    Ok(())
}

fn compile(rules: Rules, error: i32) -> io::Result<BpfProgram> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH).map_err(io::Error::other)?;
    let refuse = SeccompAction::Errno(error.cast_unsigned());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, architecture).map_err(io::Error::other)?;
    BpfProgram::try_from(filter).map_err(io::Error::other)
}

/// Refuses the second numbering of the same calls on x86-64 (`x32`), which would bypass a list of numbers.
fn refuse_foreign_numbers() -> BpfProgram {
    // Classic BPF, see linux/filter.h: load the number, compare, return.
    const LOAD_WORD: u16 = 0x20;
    const JUMP_IF_AT_LEAST: u16 = 0x35;
    const RETURN: u16 = 0x06;
    const FIRST_FOREIGN: u32 = 0x4000_0000;
    vec![
        sock_filter { code: LOAD_WORD, jt: 0, jf: 0, k: 0 },
        sock_filter { code: JUMP_IF_AT_LEAST, jt: 0, jf: 1, k: FIRST_FOREIGN },
        sock_filter { code: RETURN, jt: 0, jf: 0, k: libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned() },
        sock_filter { code: RETURN, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW },
    ]
}

#[cfg(test)]
mod tests;
