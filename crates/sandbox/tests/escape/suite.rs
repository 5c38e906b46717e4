//! The outside: lays out what is to be protected, runs the attacks, and looks at what happened.
#![allow(clippy::disallowed_methods, reason = "the suite starts itself and a victim")]
#![allow(unsafe_code, reason = "a leaked descriptor and a shared segment have no safe names")]

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::os::fd::IntoRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use agentd_process::Spawner;
use agentd_sandbox::{Backend, Ended, Policy, RunLimits, RunOutcome, RunRequest, Sandbox, SandboxSetup};

use crate::SECRET_VARIABLE;
use crate::attacks::{ATTACKS, Target};

pub(crate) const REACHED: &str = "REACHED ";
pub(crate) const TRIED: &str = "every attempt was made";
/// An ordinary user without a name, for the second half of the suite.
const ORDINARY_USER: &str = "48123";
const MEMORY_BYTES: usize = 128 << 20;
const PROCESSES: u32 = 48;
const DISK_BYTES: usize = 96 << 20;

/// Copies this binary to where an ordinary user reaches it and runs the suite there, twice.
pub(crate) fn as_root_and_as_user(only: &str) -> ExitCode {
    let directory = tempfile::Builder::new().prefix("escape-").tempdir_in("/var/tmp").unwrap();
    open_to_all(directory.path());
    let binary = directory.path().join("escape");
    std::fs::copy(std::env::current_exe().unwrap(), &binary).unwrap();
    let is_root = rustix_is_root();
    let ordinary = if is_root { Some(ORDINARY_USER) } else { None };
    let mut passed = suite_as(&["control"], ordinary, &binary);
    passed &= suite_as(&["suite", only], None, &binary);
    if is_root {
        passed &= suite_as(&["suite", only], ordinary, &binary);
    } else {
        println!("NOT TESTED AS ROOT: run this as root to try root's tiers too");
    }
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn rustix_is_root() -> bool {
    // SAFETY: a question without memory.
    unsafe { libc::geteuid() == 0 }
}

fn suite_as(part: &[&str], user: Option<&str>, binary: &Path) -> bool {
    let mut command = match user {
        None => Command::new(binary),
        Some(user) => {
            let mut command = Command::new("setpriv");
            command.args(["--reuid", user, "--regid", user, "--clear-groups"]).arg(binary);
            command
        }
    };
    let secret = format!("secret-{}", std::process::id());
    command.args(part).env(SECRET_VARIABLE, secret).current_dir("/").stdin(Stdio::null());
    command.status().unwrap().success()
}

fn open_to_all(path: &Path) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// What is outside, for one attack.
struct Outside {
    _root: tempfile::TempDir,
    target: Target,
    victim: std::process::Child,
    _tcp: (TcpListener, Option<TcpListener>),
    udp: UdpSocket,
    _sockets: (UnixListener, UnixListener),
    binary_bytes: u64,
}

impl Outside {
    fn new() -> Self {
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
        let sockets = (UnixListener::bind_addr(&address).unwrap(), UnixListener::bind(&path_socket).unwrap());
        std::fs::set_permissions(&path_socket, std::fs::Permissions::from_mode(0o777)).unwrap();
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
            shared_memory,
            memory_bytes: MEMORY_BYTES,
            processes: PROCESSES as usize,
            disk_bytes: DISK_BYTES,
        };
        Self { _root: root, target, victim, _tcp: (tcp, tcp_v6), udp, _sockets: sockets, binary_bytes }
    }

    /// What of the outside is not as it was.
    fn damage(&mut self) -> Vec<String> {
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

    /// Processes of the attacker that are still there, after they had time to go.
    async fn survivors(&self) -> Vec<String> {
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

fn sandbox(target: &Target, backend: Backend) -> Sandbox {
    let setup = SandboxSetup {
        spawner: Spawner::start().unwrap(),
        program: target.init_binary.clone(),
        init_arguments: vec!["sandbox-init".into()],
        state_directory: target.outside_directory.join("sandbox"),
        data_directory: target.outside_directory.clone(),
    };
    Sandbox::new(setup, Policy { backend, ..Policy::default() }).unwrap()
}

fn request(name: &str, target: &Target) -> RunRequest {
    let arguments = ["attack".to_owned(), name.to_owned(), serde_json::to_string(target).unwrap()];
    let mut request = RunRequest::new(&target.init_binary, arguments);
    request.readable_paths = vec![target.init_binary.parent().unwrap().to_owned()];
    request.writable_paths = vec![target.workspace.clone()];
    request.working_directory = Some(target.workspace.clone());
    request.limits = RunLimits {
        time: Some(Duration::from_secs(if name == "outliving the time limit" { 1 } else { 30 })),
        memory_bytes: Some(MEMORY_BYTES as u64),
        processes: PROCESSES,
        disk_bytes: DISK_BYTES as u64,
        ..RunLimits::default()
    };
    request
}

/// Why an attack counts as having got through; empty when it did not.
fn judge(name: &str, outcome: &RunOutcome) -> Vec<String> {
    let text = outcome.stdout.to_text();
    let mut reached: Vec<String> =
        text.lines().filter_map(|line| line.strip_prefix(REACHED)).map(str::to_owned).collect();
    let was_ended = match outcome.ended {
        Ended::Exited { code: 0 } => text.lines().any(|line| line == TRIED),
        Ended::MemoryLimit => name.starts_with("memory bomb"),
        Ended::ProcessLimit => name.starts_with("fork bomb"),
        Ended::DiskLimit => name.starts_with("disk filler"),
        Ended::TimeLimit => name == "outliving the time limit",
        _ => false,
    };
    if !was_ended {
        reached.push(format!("the attempt {}: {} {}", outcome.ended, text.trim(), outcome.stderr.to_text().trim()));
    }
    reached
}

async fn attempt(name: &str, backend: Backend) -> Vec<String> {
    let mut outside = Outside::new();
    let mut reached = if name == "outliving the daemon" {
        outlive_daemon(&outside.target, backend).await
    } else {
        let sandbox = sandbox(&outside.target, backend);
        match sandbox.run(request(name, &outside.target)).await {
            Ok(outcome) => judge(name, &outcome),
            Err(error) => {
                vec![format!("not run: {error}: {:?}", std::error::Error::source(&error).map(ToString::to_string))]
            }
        }
    };
    reached.extend(outside.survivors().await);
    reached.extend(outside.damage());
    reached
}

/// A daemon that starts a program and is killed.
async fn outlive_daemon(target: &Target, backend: Backend) -> Vec<String> {
    let backend = serde_json::to_string(&backend).unwrap();
    let mut daemon = Command::new(std::env::current_exe().unwrap())
        .args(["daemon", &backend, &serde_json::to_string(target).unwrap()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(daemon.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let alive = target.workspace.join("alive-2");
    while !alive.exists() && line == "running\n" {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    if line == "running\n" { Vec::new() } else { vec![format!("the daemon said {line:?}")] }
}

/// The daemon of [`outlive_daemon`]: says when its program runs, and waits to be killed.
pub(crate) fn daemon(backend: &str, target: &str) -> ExitCode {
    let (backend, target) = (serde_json::from_str(backend).unwrap(), serde_json::from_str(target).unwrap());
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let sandbox = sandbox(&target, backend);
        let mut child = sandbox.spawn(request("outliving the daemon", &target)).await.unwrap();
        let mut stdout = tokio::io::BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        tokio::io::AsyncBufReadExt::read_line(&mut stdout, &mut line).await.unwrap();
        println!("{}", line.trim());
        std::future::pending::<()>().await;
    });
    ExitCode::FAILURE
}

/// Without a box these attacks must get through, or they prove nothing. Those that would harm the
/// machine are left out.
pub(crate) fn control() -> ExitCode {
    const HARMLESS: [&str; 12] = [
        "reading outside",
        "writing outside",
        "changing modes, owners, times outside",
        "links and races of links",
        "limits and priorities of the daemon",
        "secrets in /proc",
        "memory shared with the daemon",
        "network: TCP and the metadata address",
        "network: sockets of the machine",
        "network: unusual families",
        "set-user-id programs and rights",
        "disk filler: reserved space",
    ];
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let blunt: Vec<&str> =
        HARMLESS.into_iter().filter(|name| runtime.block_on(attempt(name, Backend::None)).is_empty()).collect();
    println!("without a box {} of {} harmless attacks get through", HARMLESS.len() - blunt.len(), HARMLESS.len());
    for name in &blunt {
        println!("    {name}: DOES NOT, so it proves nothing");
    }
    if blunt.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

pub(crate) fn run(only: &str) -> ExitCode {
    let user = if rustix_is_root() { "root" } else { "user" };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (mut tiers, mut escaped) = (0, 0);
    for backend in [Backend::Bubblewrap, Backend::Landlock] {
        let outside = Outside::new();
        let status = runtime.block_on(sandbox(&outside.target, backend).status());
        let Some(tier) = status.tier else {
            println!("NOT TESTED: as {user} this machine cannot provide {backend:?}: {}", status.reason);
            println!("            {}", status.remedy.unwrap_or_default());
            continue;
        };
        tiers += 1;
        println!("\n{tier}, the daemon as {user} ({})", status.reason);
        println!("{:<42} {:<12} {:<6} blocked", "attack", "tier", "daemon");
        for (name, _) in ATTACKS.iter().filter(|(name, _)| name.contains(only)) {
            let reached = runtime.block_on(attempt(name, backend));
            let verdict = if reached.is_empty() { "yes" } else { "NO" };
            println!("{name:<42} {:<12} {user:<6} {verdict}", tier.to_string());
            for what in &reached {
                println!("    {what}");
            }
            escaped += usize::from(!reached.is_empty());
        }
    }
    match (tiers, escaped) {
        (0, _) => println!("\nas {user}: NOTHING WAS TRIED"),
        (_, 0) => println!("\nas {user}: everything was blocked on {tiers} tiers"),
        _ => println!("\nas {user}: {escaped} attacks got through"),
    }
    if escaped == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
