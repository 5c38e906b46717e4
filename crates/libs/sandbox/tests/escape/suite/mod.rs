//! Escape suite: sets up protected resources, runs the attacks, and evaluates their effects.
#![allow(clippy::disallowed_methods, reason = "the suite starts itself and a victim")]
#![allow(unsafe_code, reason = "a leaked descriptor and a shared segment have no safe names")]

mod loss;
mod outside;

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use agentd_process::Spawner;
use agentd_sandbox::{Backend, Ended, Policy, RunLimits, RunOutcome, RunRequest, Sandbox, SandboxSetup};
use serde::{Deserialize, Serialize};

use self::loss::{Loss, taken};
use self::outside::Outside;
use crate::SECRET_VARIABLE;
use crate::attacks::{ATTACKS, Target};

pub(crate) const REACHED: &str = "REACHED ";
pub(crate) const COMPLETED: &str = "every attempt was made";
/// Ordinary user without a name, for the second half of the suite.
const ORDINARY_USER: &str = "48123";
const MEMORY_BYTES: usize = 128 << 20;
const PROCESSES: u32 = 48;
const DISK_BYTES: usize = 96 << 20;

/// Copies this binary to a location that is accessible to an ordinary user, and runs the suite there as root and as
/// that user.
pub(crate) fn as_root_and_as_user(only: &str) -> ExitCode {
    let directory = tempfile::Builder::new().prefix("escape-").tempdir_in("/var/tmp").unwrap();
    open_to_all(directory.path());
    let binary = directory.path().join("escape");
    std::fs::copy(std::env::current_exe().unwrap(), &binary).unwrap();
    let is_root = is_root();
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

fn is_root() -> bool {
    // SAFETY: a query without memory.
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

fn sandbox(target: &Target, kind: Kind) -> Sandbox {
    let setup = SandboxSetup {
        spawner: Spawner::start().unwrap(),
        program: target.init_binary.clone(),
        init_arguments: vec!["sandbox-init".into()],
        state_directory: target.outside_directory.join("sandbox"),
        data_directory: target.outside_directory.clone(),
        control_groups: kind.control_groups,
    };
    Sandbox::new(setup, Policy { backend: kind.backend, ..Policy::default() }).unwrap()
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

/// Returns the reasons why an attack counts as successful; empty if it does not.
fn problems_of(name: &str, outcome: &RunOutcome, taken: u64) -> Vec<String> {
    let text = outcome.stdout.to_text();
    let mut reached: Vec<String> =
        text.lines().filter_map(|line| line.strip_prefix(REACHED)).map(str::to_owned).collect();
    let was_ended = match outcome.ended {
        Ended::Exited { code: 0 } => text.lines().any(|line| line == COMPLETED),
        // Remains of thousands of ended processes are charged until the kernel has cleaned them up.
        Ended::MemoryLimit { .. } => name.starts_with("memory bomb") || name == "fork bomb of detached processes",
        Ended::ProcessLimit => name.starts_with("fork bomb"),
        Ended::DiskLimit | Ended::DiskShort => name.starts_with("disk filler"),
        // An attacker that counts its memory may be delayed until the end.
        Ended::TimeLimit => name == "outliving the time limit" || taken > 0,
        _ => false,
    };
    if !was_ended {
        reached.push(format!("the attempt {}: {} {}", outcome.ended, text.trim(), outcome.stderr.to_text().trim()));
    }
    reached
}

/// Configuration in which an attack runs.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Kind {
    backend: Backend,
    control_groups: bool,
}

/// Result of an attack.
struct Attempt {
    /// Reasons why it counts as successful.
    reached: Vec<String>,
    /// Kernel memory it obtained, by its own count.
    taken: u64,
    /// Maximum loss of memory of the machine, regardless of the cause.
    lost: u64,
}

/// Returns the multiple of its limit that an attack may reach.
fn allowed_times(kind: Kind) -> u64 {
    // The kernel enforces the limit immediately. The init measures periodically, and the usage between two measurements
    // depends on the machine; unlimited attackers reach eight times the limit.
    if kind.control_groups { 2 } else { 5 }
}

/// Whether an attack is ended by periodic measurements. Its usage in between depends on the machine, so it must succeed
/// twice to count; an unlimited attack succeeds each time.
fn depends_on_measurement_interval(name: &str) -> bool {
    ["bomb", "disk filler", "outliving"].iter().any(|kind| name.contains(kind))
}

async fn attempt(name: &str, kind: Kind) -> Attempt {
    let loss = Loss::watch();
    let mut outside = Outside::new();
    let mut reached = if name == "outliving the daemon" {
        outlive_daemon(&outside, kind).await
    } else {
        let sandbox = sandbox(&outside.target, kind);
        match sandbox.run(request(name, &outside.target)).await {
            Ok(outcome) => problems_of(name, &outcome, taken(&outside.target.workspace)),
            Err(error) => {
                vec![format!("not run: {error}: {:?}", std::error::Error::source(&error).map(ToString::to_string))]
            }
        }
    };
    reached.extend(outside.survivors().await);
    reached.extend(outside.damage());
    let taken = taken(&outside.target.workspace);
    if taken > MEMORY_BYTES as u64 * allowed_times(kind) {
        reached.push(format!("{} MiB were kept for it, of {} allowed", taken >> 20, MEMORY_BYTES >> 20));
    }
    Attempt { reached, taken, lost: loss.end() }
}

/// Runs a daemon that starts a program and is killed.
async fn outlive_daemon(outside: &Outside, kind: Kind) -> Vec<String> {
    let target = &outside.target;
    let as_text = serde_json::to_string(&kind).unwrap();
    let mut daemon = Command::new(std::env::current_exe().unwrap())
        .args(["daemon", &as_text, &serde_json::to_string(target).unwrap()])
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
    if line != "running\n" {
        return vec![format!("the daemon said {line:?}")];
    }
    let mut left = outside.survivors().await;
    // The next daemon cleans up.
    let groups = sandbox(target, kind).status().await.control_groups;
    if groups.is_active {
        let path = Path::new(groups.detail.rsplit(' ').next().unwrap());
        let entries = std::fs::read_dir(path).unwrap().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        left.extend(names.filter(|name| name.contains(&format!("-{}-", daemon.id()))));
    }
    left
}

/// Daemon of [`outlive_daemon`]: reports that its program is running, and waits to be killed.
pub(crate) fn daemon(kind: &str, target: &str) -> ExitCode {
    let (kind, target) = (serde_json::from_str(kind).unwrap(), serde_json::from_str(target).unwrap());
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let sandbox = sandbox(&target, kind);
        let mut child = sandbox.spawn(request("outliving the daemon", &target)).await.unwrap();
        let mut stdout = tokio::io::BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        tokio::io::AsyncBufReadExt::read_line(&mut stdout, &mut line).await.unwrap();
        println!("{}", line.trim());
        std::future::pending::<()>().await;
    });
    ExitCode::FAILURE
}

/// Verifies that these attacks succeed without a sandbox; otherwise they prove nothing. Attacks that would harm the
/// machine are skipped.
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
    let kind = Kind { backend: Backend::None, control_groups: false };
    let is_blunt = |name: &&str| runtime.block_on(attempt(name, kind)).reached.is_empty();
    let blunt: Vec<&str> = HARMLESS.into_iter().filter(is_blunt).collect();
    println!("without a box {} of {} harmless attacks get through", HARMLESS.len() - blunt.len(), HARMLESS.len());
    for name in &blunt {
        println!("    {name}: DOES NOT, so it proves nothing");
    }
    if blunt.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

pub(crate) fn run(only: &str) -> ExitCode {
    let user = if is_root() { "root" } else { "user" };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (mut tiers, mut escaped) = (0, 0);
    for (backend, control_groups) in
        [Backend::Bubblewrap, Backend::Landlock].into_iter().flat_map(|backend| [(backend, true), (backend, false)])
    {
        let kind = Kind { backend, control_groups };
        let outside = Outside::new();
        let status = runtime.block_on(sandbox(&outside.target, kind).status());
        let Some(tier) = status.tier else {
            println!("NOT TESTED: as {user} this machine cannot provide {backend:?}: {}", status.reason);
            println!("            {}", status.remedy.unwrap_or_default());
            continue;
        };
        if control_groups && !status.control_groups.is_active {
            println!("NOT TESTED: {tier} with control groups, as {user}: {}", status.control_groups.detail);
            continue;
        }
        tiers += 1;
        println!("\n{tier}, the daemon as {user} ({}; {})", status.reason, status.control_groups.detail);
        println!("{:<42} {:<12} {:<6} {:<7} {:>9} {:>9}", "attack", "tier", "daemon", "blocked", "taken", "machine");
        // Groups limit memory and processes; other attacks are the same without them.
        let is_tried = |name: &str| {
            name.contains(only) && (status.control_groups.is_active || !is_root() || name.contains("bomb"))
        };
        for (name, _) in ATTACKS.iter().filter(|(name, _)| is_tried(name)) {
            let mut tried = runtime.block_on(attempt(name, kind));
            if !tried.reached.is_empty() && depends_on_measurement_interval(name) {
                println!("{name}: got through once, so it is tried again: {}", tried.reached.join("; "));
                tried = runtime.block_on(attempt(name, kind));
            }
            let Attempt { reached, taken, lost } = tried;
            let verdict = if reached.is_empty() { "yes" } else { "NO" };
            let figures = match name.contains("memory bomb") {
                true => format!("{:>5} MiB {:>5} MiB", taken >> 20, lost >> 20),
                false => String::new(),
            };
            println!("{name:<42} {:<12} {user:<6} {verdict:<7} {figures}", tier.to_string());
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
