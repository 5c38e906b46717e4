//! The attacks, as they run inside. Each says what it got through, or nothing.
#![allow(unsafe_code, reason = "attackers make system calls as they please")]

use std::ffi::CString;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// What the attacker knows about the outside. A real one would have to guess.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Target {
    pub(crate) secret_text: String,
    pub(crate) secret_file: PathBuf,
    pub(crate) outside_directory: PathBuf,
    pub(crate) workspace: PathBuf,
    pub(crate) init_binary: PathBuf,
    pub(crate) daemon: i32,
    pub(crate) victim: i32,
    pub(crate) tcp_port: u16,
    pub(crate) udp_port: u16,
    pub(crate) abstract_socket: String,
    pub(crate) path_socket: PathBuf,
    pub(crate) shared_memory: i32,
    pub(crate) memory_bytes: usize,
    pub(crate) processes: usize,
    pub(crate) disk_bytes: usize,
}

/// What was reached, in words.
pub(crate) type Reached = Vec<String>;
pub(crate) type Attack = fn(&Target) -> Reached;

pub(crate) const ATTACKS: &[(&str, Attack)] = &[
    ("reading outside", reading_outside),
    ("writing outside", writing_outside),
    ("changing modes, owners, times outside", changing_attributes),
    ("links and races of links", links),
    ("remounting", remounting),
    ("tracing other processes", tracing),
    ("signals to the daemon", signals),
    ("signals to the init", signals_to_init),
    ("limits and priorities of the daemon", limits_of_others),
    ("secrets in /proc", secrets_in_proc),
    ("memory shared with the daemon", shared_memory),
    ("network: TCP and the metadata address", tcp),
    ("network: UDP and DNS", udp),
    ("network: sockets of the machine", unix_sockets),
    ("network: unusual families", unusual_families),
    ("set-user-id programs and rights", rights),
    ("typing into the terminal", terminal),
    ("inherited descriptors", descriptors),
    ("the environment of the daemon", environment),
    ("new namespaces", namespaces),
    ("the other numbers of system calls", foreign_numbers),
    ("dangerous system calls", dangerous_calls),
    ("changing the init's binary", init_binary),
    ("fork bomb", fork_bomb),
    ("fork bomb of detached processes", detached_fork_bomb),
    ("memory bomb: one process", memory_bomb),
    ("memory bomb: many processes", memory_bomb_of_many),
    ("memory bomb: dropped shared pages", memory_bomb_hidden),
    ("memory bomb: files in memory", memory_bomb_in_files),
    ("disk filler", disk_filler),
    ("disk filler: deleted files", disk_filler_deleted),
    ("disk filler: reserved space", disk_filler_reserved),
    ("outliving the time limit", outlive),
    ("outliving the daemon", outlive),
];

fn note(reached: &mut Reached, what: impl Into<String>, open: bool) {
    if open {
        reached.push(what.into());
    }
}

fn text(path: impl AsRef<Path>) -> CString {
    CString::new(path.as_ref().as_os_str().as_bytes()).unwrap()
}

fn last_error() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

fn reading_outside(target: &Target) -> Reached {
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

fn writing_outside(target: &Target) -> Reached {
    let mut reached = Vec::new();
    let append =
        |path: &Path| fs::OpenOptions::new().append(true).open(path).is_ok_and(|mut file| file.write_all(b"x").is_ok());
    note(&mut reached, "appended to the secret", append(&target.secret_file));
    // Where a directory of that name is the box's own, nothing outside changes; the suite looks.
    let _ = fs::write(target.outside_directory.join("escaped"), "x");
    let _ = fs::remove_file(&target.secret_file);
    let _ = fs::rename(&target.secret_file, target.workspace.join("stolen"));
    let secret = text(&target.secret_file);
    // SAFETY: a text that ends with a zero byte.
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

fn changing_attributes(target: &Target) -> Reached {
    let mut reached = Vec::new();
    let secret = text(&target.secret_file);
    let path = secret.as_ptr();
    // SAFETY: texts that end with a zero byte, and structures that live through the calls.
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

fn links(target: &Target) -> Reached {
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
    // A directory that becomes a link and back, while another thread opens through it.
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

fn remounting(target: &Target) -> Reached {
    let mut reached = Vec::new();
    let none = std::ptr::null::<libc::c_char>();
    let workspace = text(&target.workspace);
    // SAFETY: texts that end with a zero byte.
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

fn tracing(target: &Target) -> Reached {
    let mut reached = Vec::new();
    for process in [target.victim, target.daemon, unsafe { libc::getppid() }] {
        let nothing = std::ptr::null_mut::<libc::c_void>();
        let mut buffer = [0u8; 8];
        let local = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        let remote = libc::iovec { iov_base: 0x400000 as *mut libc::c_void, iov_len: buffer.len() };
        // SAFETY: the vectors live through the call; addresses of others are only numbers here.
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

fn signals(target: &Target) -> Reached {
    let mut reached = Vec::new();
    // Inside a process namespace these numbers may be nobody, or the attacker: what counts is that
    // the victim lives, which the suite checks.
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
        // Everyone whom this user can reach; the attacker itself survives what it blocks.
        libc::signal(libc::SIGTERM, libc::SIG_IGN);
        libc::kill(-1, libc::SIGTERM);
        // A descriptor that signals its owner when something can be read.
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

fn signals_to_init(_: &Target) -> Reached {
    // SAFETY: plain numbers.
    let parent = unsafe { libc::getppid() };
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGSTOP, libc::SIGSEGV, libc::SIGKILL] {
        // SAFETY: plain numbers. Process 1 of a namespace takes none of them, without an error.
        unsafe { libc::kill(parent, signal) };
    }
    std::thread::sleep(Duration::from_millis(100));
    let mut reached = Vec::new();
    // SAFETY: plain numbers.
    note(&mut reached, "ended the init", unsafe { libc::getppid() } != parent);
    reached
}

fn limits_of_others(target: &Target) -> Reached {
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

fn secrets_in_proc(target: &Target) -> Reached {
    let mut reached = Vec::new();
    for process in ["1".to_owned(), target.daemon.to_string(), target.victim.to_string()] {
        for file in ["environ", "cmdline", "maps", "mem", "stack", "auxv"] {
            let path = format!("/proc/{process}/{file}");
            let Ok(mut file) = fs::File::open(&path) else { continue };
            let mut bytes = vec![0; 1 << 16];
            let length = file.read(&mut bytes).unwrap_or(0);
            let foreign =
                bytes[..length].windows(target.secret_text.len()).any(|part| part == target.secret_text.as_bytes());
            // The command line of the box's own first process is no secret.
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

fn shared_memory(target: &Target) -> Reached {
    let mut reached = Vec::new();
    // SAFETY: an address is returned or not; nothing is read.
    unsafe {
        let attached = libc::shmat(target.shared_memory, std::ptr::null(), libc::SHM_RDONLY);
        note(&mut reached, "attached the daemon's segment", attached as isize != -1);
    }
    reached
}

fn tcp(target: &Target) -> Reached {
    let mut reached = Vec::new();
    let wait = Duration::from_secs(1);
    for address in [
        SocketAddr::from((Ipv4Addr::LOCALHOST, target.tcp_port)),
        SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, target.tcp_port)),
        SocketAddr::from(([169, 254, 169, 254], 80)),
        SocketAddr::from(([1, 1, 1, 1], 443)),
    ] {
        note(&mut reached, address.to_string(), TcpStream::connect_timeout(&address, wait).is_ok());
    }
    reached
}

fn udp(target: &Target) -> Reached {
    let mut reached = Vec::new();
    if let Ok(socket) = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)) {
        // The suite looks whether this one arrives; the private loopback takes it as well.
        let _ = socket.send_to(b"escaped", (Ipv4Addr::LOCALHOST, target.udp_port));
        for address in [SocketAddr::from(([8, 8, 8, 8], 53)), SocketAddr::from(([169, 254, 169, 254], 53))] {
            note(&mut reached, address.to_string(), socket.send_to(b"query", address).is_ok());
        }
    }
    use std::net::ToSocketAddrs;
    note(&mut reached, "resolved a name", ("example.com", 80).to_socket_addrs().is_ok());
    reached
}

fn unix_sockets(target: &Target) -> Reached {
    let mut reached = Vec::new();
    let address = std::os::unix::net::SocketAddr::from_abstract_name(&target.abstract_socket).unwrap();
    note(&mut reached, "an abstract socket", UnixStream::connect_addr(&address).is_ok());
    note(&mut reached, "the daemon's socket", UnixStream::connect(&target.path_socket).is_ok());
    for path in ["/run/dbus/system_bus_socket", "/var/run/docker.sock", "/run/systemd/private"] {
        note(&mut reached, path, UnixStream::connect(path).is_ok());
    }
    reached
}

fn unusual_families(_: &Target) -> Reached {
    let mut reached = Vec::new();
    for (name, family, kind) in [
        ("netlink", libc::AF_NETLINK, libc::SOCK_RAW),
        ("packet", libc::AF_PACKET, libc::SOCK_RAW),
        ("vsock", libc::AF_VSOCK, libc::SOCK_STREAM),
        ("alg", libc::AF_ALG, libc::SOCK_SEQPACKET),
        ("bluetooth", libc::AF_BLUETOOTH, libc::SOCK_RAW),
        ("raw internet", libc::AF_INET, libc::SOCK_RAW),
        ("xdp", libc::AF_XDP, libc::SOCK_RAW),
    ] {
        // SAFETY: plain numbers.
        note(
            &mut reached,
            name,
            unsafe { libc::socket(family, kind, libc::IPPROTO_ICMP * i32::from(family == libc::AF_INET)) } >= 0,
        );
    }
    reached
}

fn rights(target: &Target) -> Reached {
    let mut reached = Vec::new();
    // SAFETY: plain numbers, and structures of the sizes that the calls expect.
    unsafe {
        note(&mut reached, "may gain rights", libc::prctl(libc::PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1);
        let header: [u32; 2] = [0x2008_0522, 0];
        let mut sets = [[0u32; 3]; 2];
        let asked = libc::syscall(libc::SYS_capget, header.as_ptr(), sets.as_mut_ptr());
        note(&mut reached, "has capabilities", asked != 0 || sets != [[0; 3]; 2]);
        note(&mut reached, "became root", libc::setuid(0) == 0 && libc::getuid() == 0 && target.secret_file.exists());
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

fn terminal(_: &Target) -> Reached {
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

fn descriptors(_: &Target) -> Reached {
    // SAFETY: a question about numbers.
    (3..4096)
        .filter(|number| unsafe { libc::fcntl(*number, libc::F_GETFD) } >= 0)
        .map(|number| format!("descriptor {number}"))
        .collect()
}

fn environment(target: &Target) -> Reached {
    std::env::vars().filter(|(_, value)| value.contains(&target.secret_text)).map(|(name, _)| name).collect()
}

fn namespaces(_: &Target) -> Reached {
    let mut reached = Vec::new();
    for (name, flag) in [
        ("user", libc::CLONE_NEWUSER),
        ("mount", libc::CLONE_NEWNS),
        ("network", libc::CLONE_NEWNET),
        ("process", libc::CLONE_NEWPID),
    ] {
        // SAFETY: with these flags clone is a fork; the child ends at once.
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

fn foreign_numbers(_: &Target) -> Reached {
    let mut reached = Vec::new();
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a question without memory.
    unsafe {
        note(&mut reached, "x32", libc::syscall(0x4000_0000 | libc::SYS_getpid) > 0);
        // The 32-bit way in; the filter ends who takes it.
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

fn dangerous_calls(_: &Target) -> Reached {
    let calls: [(&str, i64); 16] = [
        ("bpf", libc::SYS_bpf),
        ("keyctl", libc::SYS_keyctl),
        ("add_key", libc::SYS_add_key),
        ("request_key", libc::SYS_request_key),
        ("userfaultfd", libc::SYS_userfaultfd),
        ("perf_event_open", libc::SYS_perf_event_open),
        ("io_uring_setup", libc::SYS_io_uring_setup),
        ("kexec_load", libc::SYS_kexec_load),
        ("init_module", libc::SYS_init_module),
        ("delete_module", libc::SYS_delete_module),
        ("open_by_handle_at", libc::SYS_open_by_handle_at),
        ("fanotify_init", libc::SYS_fanotify_init),
        ("syslog", libc::SYS_syslog),
        ("reboot", libc::SYS_reboot),
        ("swapon", libc::SYS_swapon),
        ("memfd_secret", libc::SYS_memfd_secret),
    ];
    // SAFETY: every pointer is null, so that a call that gets through does nothing.
    let open = |call: i64| unsafe { libc::syscall(call, 0usize, 0usize, 0usize, 0usize, 0usize) } >= 0
        || !matches!(last_error(), libc::EPERM | libc::ENOSYS);
    calls.into_iter().filter(|(_, call)| open(*call)).map(|(name, _)| name.to_owned()).collect()
}

fn init_binary(target: &Target) -> Reached {
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

/// Forks children that wait, until it may not; says so when there are too many.
fn fork_bomb(target: &Target) -> Reached {
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
fn detached_fork_bomb(target: &Target) -> Reached {
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

/// Takes and touches memory, a piece at a time; the sum that it got.
fn take(bytes: usize, flags: i32, drop_pages: bool) -> usize {
    const PIECE: usize = 4 << 20;
    let mut taken = 0;
    while taken < bytes {
        // SAFETY: fresh memory of this size, which is written within its bounds.
        unsafe {
            let piece = libc::mmap(std::ptr::null_mut(), PIECE, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            if piece == libc::MAP_FAILED {
                break;
            }
            libc::memset(piece, 1, PIECE);
            if drop_pages {
                libc::madvise(piece, PIECE, libc::MADV_DONTNEED);
            }
        }
        taken += PIECE;
        std::thread::sleep(Duration::from_millis(2));
    }
    taken
}

fn memory_bomb(target: &Target) -> Reached {
    let taken = take(target.memory_bytes * 6, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, false);
    let mut reached = Vec::new();
    note(&mut reached, format!("{taken} bytes"), taken > target.memory_bytes * 5);
    reached
}

fn memory_bomb_of_many(target: &Target) -> Reached {
    let mut children = Vec::new();
    for _ in 0..8 {
        // SAFETY: the child takes memory and ends.
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

fn memory_bomb_hidden(target: &Target) -> Reached {
    let taken = take(target.memory_bytes * 6, libc::MAP_SHARED | libc::MAP_ANONYMOUS, true);
    let mut reached = Vec::new();
    note(&mut reached, format!("{taken} bytes"), taken > target.memory_bytes * 5);
    reached
}

fn memory_bomb_in_files(target: &Target) -> Reached {
    let mut reached = Vec::new();
    // SAFETY: a text that ends with a zero byte.
    let hidden = unsafe { libc::syscall(libc::SYS_memfd_create, c"x".as_ptr(), 0) };
    note(&mut reached, "memory without a mapping", hidden >= 0);
    for directory in ["/dev/shm", "/tmp", "/dev", "/run", "/"] {
        let written = fill(Path::new(directory), target.memory_bytes * 3, 1, false);
        note(&mut reached, format!("{written} bytes in {directory}"), written > target.memory_bytes * 2);
    }
    reached
}

/// Fills a directory with `files` files; how much it could write.
fn fill(directory: &Path, bytes: usize, files: usize, delete: bool) -> usize {
    let piece = vec![7u8; 1 << 20];
    let mut written = 0;
    let mut open = Vec::new();
    for number in 0..files {
        let path = directory.join(format!("filler-{number}"));
        let Ok(mut file) = fs::File::create(&path) else { break };
        if delete {
            let _ = fs::remove_file(&path);
        }
        while written < bytes / files * (number + 1) && file.write_all(&piece).is_ok() {
            written += piece.len();
            std::thread::sleep(Duration::from_millis(1));
        }
        open.push(file);
    }
    written
}

fn disk_filler(target: &Target) -> Reached {
    // SAFETY: a file that grows over its limit is an error here and not a signal.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let written = fill(&target.workspace, target.disk_bytes * 16, 64, false);
    let mut reached = Vec::new();
    note(&mut reached, format!("{written} bytes"), written >= target.disk_bytes * 12);
    reached
}

fn disk_filler_deleted(target: &Target) -> Reached {
    let written = fill(&target.workspace, target.disk_bytes * 16, 64, true);
    let mut reached = Vec::new();
    note(&mut reached, format!("{written} bytes"), written >= target.disk_bytes * 12);
    reached
}

fn disk_filler_reserved(target: &Target) -> Reached {
    let mut reached = Vec::new();
    if let Ok(file) = fs::File::create(target.workspace.join("reserved")) {
        let bytes = target.disk_bytes as i64;
        // SAFETY: plain numbers.
        note(&mut reached, "reserved space", unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, bytes) } == 0);
    }
    reached
}

/// Detaches in every way there is, and leaves signs of life in the workspace.
fn outlive(target: &Target) -> Reached {
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
