//! Protected resources outside the sandbox.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::os::fd::IntoRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::process::Command;
use std::time::{Duration, Instant};

use super::{DISK_BYTES, MEMORY_BYTES, PROCESSES};
use crate::SECRET_VARIABLE;
use crate::attacks::Target;

/// Resources outside for one attack.
pub(super) struct Outside {
    _root: tempfile::TempDir,
    pub(super) target: Target,
    victim: std::process::Child,
    _tcp: (TcpListener, Option<TcpListener>),
    udp: UdpSocket,
    _sockets: (UnixListener, UnixListener, UnixDatagram),
    binary_bytes: u64,
}

impl Outside {
    pub(super) fn new() -> Self {
        let root = tempfile::Builder::new().prefix("escape-").tempdir_in("/var/tmp").unwrap();
        let path = root.path().canonicalize().unwrap();
        let (data, binaries) = (path.join("data"), path.join("binaries"));
        let workspace = data.join("workspace");
        std::fs::create_dir_all(&workspace).unwrap();
        std::fs::create_dir(&binaries).unwrap();
        // Modes must not be what protects the data: everyone may read and write all of it.
        for (path, mode) in [(&path, 0o755), (&data, 0o777), (&binaries, 0o755)] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        let secret_text = std::env::var(SECRET_VARIABLE).unwrap();
        let secret_file = data.join("secret");
        std::fs::write(&secret_file, &secret_text).unwrap();
        std::fs::set_permissions(&secret_file, std::fs::Permissions::from_mode(0o666)).unwrap();
        let init_binary = binaries.join("escape");
        let binary_bytes = std::fs::copy(std::env::current_exe().unwrap(), &init_binary).unwrap();
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let tcp_port = tcp.local_addr().unwrap().port();
        let tcp_v6 = TcpListener::bind((std::net::Ipv6Addr::LOCALHOST, tcp_port)).ok();
        let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        udp.set_nonblocking(true).unwrap();
        let abstract_socket = format!("escape{}", path.display()).replace('/', "-");
        let address = std::os::unix::net::SocketAddr::from_abstract_name(&abstract_socket).unwrap();
        let path_socket = data.join("socket");
        let datagram_socket = data.join("datagrams");
        let sockets = (
            UnixListener::bind_addr(&address).unwrap(),
            UnixListener::bind(&path_socket).unwrap(),
            UnixDatagram::bind(&datagram_socket).unwrap(),
        );
        for socket in [&path_socket, &datagram_socket] {
            std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o777)).unwrap();
        }
        let victim = Command::new("sleep").arg("1000").spawn().unwrap();
        // A descriptor that a careless library leaves open for children.
        let leaked = std::fs::File::open(&data).unwrap().into_raw_fd();
        // SAFETY: plain numbers.
        let shared_memory = unsafe {
            libc::fcntl(leaked, libc::F_SETFD, 0);
            libc::shmget(libc::IPC_PRIVATE, 4096, 0o666 | libc::IPC_CREAT)
        };
        let target = Target {
            secret_text,
            secret_file,
            outside_directory: data,
            workspace,
            init_binary,
            daemon: std::process::id().cast_signed(),
            victim: victim.id().cast_signed(),
            tcp_port,
            udp_port: udp.local_addr().unwrap().port(),
            abstract_socket,
            path_socket,
            datagram_socket,
            shared_memory,
            memory_bytes: MEMORY_BYTES,
            processes: PROCESSES as usize,
            disk_bytes: DISK_BYTES,
        };
        Self { _root: root, target, victim, _tcp: (tcp, tcp_v6), udp, _sockets: sockets, binary_bytes }
    }

    /// Returns the resources that have changed.
    pub(super) fn damage(&mut self) -> Vec<String> {
        let target = &self.target;
        let mut damage = Vec::new();
        let mut note = |what: &str, is_damaged: bool| {
            if is_damaged {
                damage.push(what.to_owned());
            }
        };
        let secret = std::fs::read_to_string(&target.secret_file);
        note("the secret was changed", secret.ok().as_ref() != Some(&target.secret_text));
        let mode = std::fs::metadata(&target.secret_file).map(|entry| entry.permissions().mode() & 0o7777);
        note("the secret's mode was changed", mode.ok() != Some(0o666));
        note("a file was made outside", target.outside_directory.join("escaped").exists());
        note("the victim was ended", !matches!(self.victim.try_wait(), Ok(None)));
        note("a datagram arrived", self.udp.recv(&mut [0; 16]).is_ok());
        let binary = std::fs::metadata(&target.init_binary).map(|entry| entry.len());
        note("the init's binary was changed", binary.ok() != Some(self.binary_bytes));
        let directory = target.init_binary.parent().map(|path| std::fs::read_dir(path).unwrap().count());
        note("something lies beside the init's binary", directory != Some(1));
        for entry in std::fs::read_dir(&target.workspace).unwrap().flatten() {
            let is_set = entry.metadata().is_ok_and(|entry| entry.permissions().mode() & 0o6000 != 0);
            note("a set-id file was left", is_set);
            note(
                "the secret was linked",
                std::fs::symlink_metadata(entry.path()).is_ok_and(|it| it.is_file())
                    && std::fs::read(entry.path()).is_ok_and(|bytes| bytes == target.secret_text.as_bytes()),
            );
        }
        damage
    }

    /// Returns the attacker's processes that are still running after a grace period.
    pub(super) async fn survivors(&self) -> Vec<String> {
        let mark = self.target.init_binary.to_string_lossy().into_owned();
        let until = Instant::now() + Duration::from_secs(5);
        loop {
            let left = processes_with(&mark);
            if left.is_empty() || Instant::now() > until {
                return left;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
        // SAFETY: plain numbers; the segment is this suite's.
        unsafe { libc::shmctl(self.target.shared_memory, libc::IPC_RMID, std::ptr::null_mut()) };
    }
}

fn processes_with(mark: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        (line.contains(mark) && line.contains("attack")).then(|| format!("process {:?} survived", entry.file_name()))
    });
    lines.collect()
}
