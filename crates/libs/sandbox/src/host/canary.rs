//! Canary: a run in a tier that attempts to escape and must fail.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::Duration;

use super::directories;
use super::launch::{Entry, Host};
use crate::child::SandboxedChild;
use crate::init::{PROBE_DONE, PROBE_REACHED};
use crate::plan::Probe;
use crate::run::collect;
use crate::{Ended, Policy, RunLimits, RunRequest, SandboxError};

const TIME_LIMIT: Duration = Duration::from_secs(20);

/// Reason why a tier is not used.
#[derive(Debug)]
pub(crate) enum CanaryFailure {
    /// The canary could not be started.
    Unusable(SandboxError),
    /// The canary did not complete.
    Failed(String),
    /// The canary escaped in these ways.
    Open(Vec<String>),
}

impl std::fmt::Display for CanaryFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unusable(error) => {
                write!(f, "{error}")?;
                let mut source = std::error::Error::source(error);
                while let Some(cause) = source {
                    write!(f, ": {cause}")?;
                    source = cause.source();
                }
                Ok(())
            }
            Self::Failed(how) => f.write_str(how),
            Self::Open(what) => write!(f, "escape attempts succeeded: {}", what.join(", ")),
        }
    }
}

/// Targets outside the sandbox during a canary.
struct CanaryTargets {
    directory: tempfile::TempDir,
    _tcp: TcpListener,
    _abstract: UnixListener,
    probe: Probe,
}

impl CanaryTargets {
    fn create(host: &Host) -> io::Result<Self> {
        let directory = directories::create("canary", &host.state_directory)?;
        let root = directory.path().canonicalize()?;
        let inside_directory = root.join("inside");
        let outside_directory = root.join("outside");
        std::fs::create_dir(&inside_directory)?;
        std::fs::create_dir(&outside_directory)?;
        let outside_file = outside_directory.join("secret");
        std::fs::write(&outside_file, "not for you")?;
        // World-accessible, so that the tier protects them and not their modes.
        std::fs::set_permissions(&outside_directory, std::fs::Permissions::from_mode(0o777))?;
        std::fs::set_permissions(&outside_file, std::fs::Permissions::from_mode(0o666))?;
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let abstract_socket = format!("agentd-{}", root.to_string_lossy().replace('/', "-"));
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&abstract_socket)?)?;
        let probe = Probe {
            outside_file,
            outside_directory,
            inside_directory,
            tcp_port: tcp.local_addr()?.port(),
            abstract_socket,
            daemon_process: std::process::id(),
        };
        Ok(Self { directory, _tcp: tcp, _abstract: listener, probe })
    }
}

/// Runs the canary.
///
/// # Errors
/// Returns the reason why the tier is not used.
pub(crate) async fn prove(host: &Host, entry: &Entry) -> Result<(), CanaryFailure> {
    let targets =
        CanaryTargets::create(host).map_err(SandboxError::prepare("a canary")).map_err(CanaryFailure::Unusable)?;
    let mut request = RunRequest::new("/bin/sh", ["-c", "exit 42"]);
    request.writable_paths = vec![targets.probe.inside_directory.clone()];
    request.limits = RunLimits { processes: 16, ..RunLimits::default() };
    let launched = host
        .launch(entry, &Policy::default(), &request, Some(targets.probe.clone()))
        .await
        .map_err(CanaryFailure::Unusable)?;
    let mut child = SandboxedChild::new(launched, entry.tier);
    let (ended, stdout, stderr) = collect(&mut child, Vec::new(), &request.limits, TIME_LIMIT).await;
    let text = stdout.to_text();
    let reached: Vec<String> =
        text.lines().filter_map(|line| line.strip_prefix(PROBE_REACHED)).map(str::to_owned).collect();
    if !reached.is_empty() {
        return Err(CanaryFailure::Open(reached));
    }
    let foreign = std::fs::metadata(targets.directory.path().join("outside/escaped")).is_ok();
    if foreign {
        return Err(CanaryFailure::Open(vec!["a file outside was made".to_owned()]));
    }
    if ended == (Ended::Exited { code: 42 }) && text.lines().eq([PROBE_DONE]) {
        return Ok(());
    }
    let output = format!("{}{}", text, stderr.to_text());
    Err(CanaryFailure::Failed(format!("a test run {ended}; its output: {}", output.trim().replace('\n', "; "))))
}
