//! The proof that a tier holds: a run in it tries to get out, and must fail.

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

/// Why a tier does not count.
#[derive(Debug)]
pub(crate) enum Doubt {
    /// It could not be tried.
    Unusable(SandboxError),
    /// It was tried, and did not come to its end.
    Failed(String),
    /// It let something through.
    Open(Vec<String>),
}

impl std::fmt::Display for Doubt {
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
            Self::Open(what) => write!(f, "it let through: {}", what.join(", ")),
        }
    }
}

/// What lies outside for the time of a canary.
struct Bait {
    directory: tempfile::TempDir,
    _tcp: TcpListener,
    _abstract: UnixListener,
    probe: Probe,
}

impl Bait {
    fn lay(host: &Host) -> io::Result<Self> {
        let directory = directories::make("canary", &host.state_directory)?;
        let root = directory.path().canonicalize()?;
        let inside_directory = root.join("inside");
        let outside_directory = root.join("outside");
        std::fs::create_dir(&inside_directory)?;
        std::fs::create_dir(&outside_directory)?;
        let outside_file = outside_directory.join("secret");
        std::fs::write(&outside_file, "not for you")?;
        // So that it is the tier that protects them, and not their modes.
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

/// # Errors
/// Why the tier does not count.
pub(crate) async fn prove(host: &Host, entry: &Entry) -> Result<(), Doubt> {
    let bait = Bait::lay(host).map_err(SandboxError::prepare("a canary")).map_err(Doubt::Unusable)?;
    let mut request = RunRequest::new("/bin/sh", ["-c", "exit 42"]);
    request.writable_paths = vec![bait.probe.inside_directory.clone()];
    request.limits = RunLimits { processes: 16, ..RunLimits::default() };
    let launched =
        host.launch(entry, &Policy::default(), &request, Some(bait.probe.clone())).await.map_err(Doubt::Unusable)?;
    let mut child = SandboxedChild::new(launched, entry.tier);
    let (ended, stdout, stderr) = collect(&mut child, Vec::new(), &request.limits, TIME_LIMIT).await;
    let text = stdout.to_text();
    let reached: Vec<String> =
        text.lines().filter_map(|line| line.strip_prefix(PROBE_REACHED)).map(str::to_owned).collect();
    if !reached.is_empty() {
        return Err(Doubt::Open(reached));
    }
    let foreign = std::fs::metadata(bait.directory.path().join("outside/escaped")).is_ok();
    if foreign {
        return Err(Doubt::Open(vec!["a file outside was made".to_owned()]));
    }
    if ended == (Ended::Exited { code: 42 }) && text.lines().eq([PROBE_DONE]) {
        return Ok(());
    }
    let said = format!("{}{}", text, stderr.to_text());
    Err(Doubt::Failed(format!("a trial run {ended}; it said: {}", said.trim().replace('\n', "; "))))
}
