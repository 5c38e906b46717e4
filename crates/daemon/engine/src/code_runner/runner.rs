//! Runs code for an agent.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agentd_base::Entropy;
use agentd_core::parts::Detached;
use agentd_core::runtime::AppContext;
use agentd_core::settings::Settings;
use agentd_net::{FilteringProxy, ProxyListener, ProxyOptions, Trust};
use agentd_process::Spawner;
use agentd_sandbox::{Attempt, ControlGroups, Ended, RunRequest, Sandbox, SandboxError, SandboxSetup, Tier};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::interpreter::Interpreter;
use super::outcome::CodeOutcome;
use super::settings::SandboxSettings;
use crate::workspaces::{Room, UntrustedSource, Workspace, record_folders, sweep};

/// The hidden subcommand that the sandbox's first process is.
pub const INIT_SUBCOMMAND: &str = "sandbox-init";
/// A run may have to wait for the canaries, and is cleaned up after.
const MARGIN: Duration = Duration::from_secs(30);

/// What protects the machine from code.
#[derive(Debug, Clone)]
pub struct SandboxState {
    /// `None`: code is refused.
    pub tier: Option<Tier>,
    pub reason: String,
    pub remedy: Option<String>,
    pub attempts: Vec<Attempt>,
    pub control_groups: ControlGroups,
    /// Which of `writable_paths` cannot be opened, each with the reason.
    pub path_problems: Vec<String>,
}

fn in_full(error: &SandboxError) -> String {
    let source = std::error::Error::source(error).map(|source| format!(": {source}"));
    format!("{error}{}", source.unwrap_or_default())
}

/// Runs code in the sandbox. Cheap to clone.
#[derive(Clone)]
pub struct CodeRunner(Arc<Inner>);

struct Inner {
    /// Or why there can be none, whatever the settings.
    sandbox: Result<Sandbox, String>,
    settings: Settings,
    room: Room,
    /// Where workspaces lie, until they have been swept.
    unswept: Mutex<Option<PathBuf>>,
    entropy: Entropy,
    proxy_socket: PathBuf,
    /// There while the settings allow the network.
    proxy: Mutex<Option<FilteringProxy>>,
    granted_socket: PathBuf,
    /// There once a program needed it to which the owner allows the network by itself.
    granted: Mutex<Option<FilteringProxy>>,
}

impl std::fmt::Debug for CodeRunner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CodeRunner").field("sandbox", &self.0.sandbox).finish_non_exhaustive()
    }
}

/// Why code did not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum CodeError {
    /// There is no sandbox, or the program could not be started.
    #[error("{0}")]
    NotRun(String),
    #[error("the call was cancelled")]
    Cancelled,
}

impl CodeRunner {
    /// Starts nothing yet. `program` is the daemon's own binary. Where the sandbox cannot even be
    /// prepared, code is refused with the reason.
    pub fn new(context: &AppContext, settings: Settings, spawner: Spawner, program: PathBuf) -> Detached<Self> {
        let folder = context.data_dir.root().join("sandbox").join(machine());
        let made = context.data_dir.make_folder(&context.data_dir.root().join("sandbox"));
        let setup = SandboxSetup {
            spawner,
            program,
            init_arguments: vec![INIT_SUBCOMMAND.into()],
            state_directory: folder.clone(),
            data_directory: context.data_dir.root().to_path_buf(),
            control_groups: true,
        };
        let policy = settings.section::<SandboxSettings>().policy();
        let sandbox = made.and_then(|()| Sandbox::new(setup, policy));
        let sandbox = sandbox.map_err(|error| {
            tracing::error!(%error, folder = %folder.display(), "the sandbox cannot be prepared; code will be refused");
            format!("the sandbox cannot be prepared in {}: {error}", folder.display())
        });
        let of_bounds = settings.clone();
        Detached::new(Self(Arc::new(Inner {
            sandbox,
            room: Room::new(move || of_bounds.section::<SandboxSettings>().workspace_bounds()),
            unswept: Mutex::new(Some(context.data_dir.agents())),
            settings,
            entropy: context.entropy.clone(),
            proxy_socket: folder.join("proxy.sock"),
            proxy: Mutex::new(None),
            granted_socket: folder.join("granted.sock"),
            granted: Mutex::new(None),
        })))
    }

    /// The longest that the engine waits for a run that may take `timeout`.
    #[must_use]
    pub fn call_limit(timeout: Duration) -> Duration {
        timeout + MARGIN
    }

    pub(super) fn all_settings(&self) -> &Settings {
        &self.0.settings
    }

    /// The settings in force.
    #[must_use]
    pub fn settings(&self) -> Arc<SandboxSettings> {
        self.0.settings.section()
    }

    /// What agents' workspaces hold, and may hold under the settings in force.
    #[must_use]
    pub fn room(&self) -> &Room {
        &self.0.room
    }

    /// Removes what writers that were killed left half written: once, since only a killed daemon leaves something.
    pub(super) async fn sweep_workspaces(&self) {
        let Some(agents) = self.0.unswept.lock().take() else { return };
        match tokio::task::spawn_blocking(move || sweep(&agents)).await {
            Ok(0) => {}
            Ok(files) => tracing::info!(files, "what was left half written in workspaces has been removed"),
            Err(error) => tracing::warn!(%error, "workspaces were not swept; the next start of the daemon does it"),
        }
    }

    /// The sandbox under the settings in force, for who runs programs of other kinds in it.
    ///
    /// # Errors
    /// A sentence on why there is none.
    pub fn sandbox(&self) -> Result<&Sandbox, String> {
        let sandbox = self.0.sandbox.as_ref().map_err(Clone::clone)?;
        let policy = self.settings().policy();
        if sandbox.policy() != policy {
            sandbox.set_policy(policy);
        }
        Ok(sandbox)
    }

    /// Tries the tiers again, also under unchanged settings.
    pub fn recheck(&self) {
        if let Ok(sandbox) = self.sandbox() {
            sandbox.recheck();
        }
    }

    /// Tries the tiers unless that was done under these settings.
    pub(super) async fn prove(&self) {
        if let Ok(sandbox) = self.sandbox() {
            sandbox.status().await;
        }
        self.proxy_socket();
    }

    /// What is in force and why; waits for the tiers to be tried.
    pub async fn state(&self) -> SandboxState {
        match self.sandbox() {
            Ok(sandbox) => {
                let status = sandbox.status().await;
                let unusable = sandbox.unusable_paths();
                SandboxState {
                    path_problems: unusable.iter().map(in_full).collect(),
                    tier: status.tier,
                    reason: status.reason,
                    remedy: status.remedy,
                    attempts: status.attempts,
                    control_groups: status.control_groups,
                }
            }
            Err(reason) => {
                let remedy = Some("make the data directory writable for the daemon, and start it again".to_owned());
                let control_groups = ControlGroups { in_force: false, detail: reason.clone(), remedy: None };
                let (attempts, path_problems) = (Vec::new(), Vec::new());
                SandboxState { tier: None, reason, remedy, attempts, control_groups, path_problems }
            }
        }
    }

    /// Why this folder cannot be opened to code as things are.
    #[must_use]
    pub fn path_problem(&self, path: &Path) -> Option<String> {
        match self.0.sandbox.as_ref() {
            Ok(sandbox) => sandbox.check_writable(path).err().map(|error| in_full(&error)),
            Err(_) if path.is_dir() => None,
            Err(_) => Some(format!("`{}` is no folder that exists", path.display())),
        }
    }

    /// Whether this path is the daemon's own data, a part of it, or holds it.
    #[must_use]
    pub fn is_own_data(&self, path: &Path) -> bool {
        self.0.sandbox.as_ref().is_ok_and(|sandbox| sandbox.is_own_data(path))
    }

    /// Why code for this interpreter cannot run now, as far as is known without trying.
    #[must_use]
    pub fn problem(&self, interpreter: Interpreter) -> Option<String> {
        let sandbox = match self.sandbox() {
            Ok(sandbox) => sandbox,
            Err(reason) => return Some(reason),
        };
        if let Some(status) = sandbox.known_status()
            && status.tier.is_none()
        {
            let remedy = status.remedy.map(|remedy| format!(". To change that: {remedy}")).unwrap_or_default();
            return Some(format!("this machine offers no sandbox: {}{remedy}", status.reason));
        }
        interpreter.problem()
    }

    /// Runs a program in `workspace`, or in a temporary directory without one, with the network if the settings allow
    /// it. `untrusted` records text of others that the program can have read.
    ///
    /// # Errors
    /// There is no sandbox, the program cannot be started, or `cancelled`.
    pub async fn run(
        &self,
        mut request: RunRequest,
        workspace: Option<&Path>,
        cancelled: &CancellationToken,
        untrusted: &UntrustedSource,
    ) -> Result<CodeOutcome, CodeError> {
        let _running = workspace.map(|workspace| self.0.room.runs_in(workspace));
        if let Some(workspace) = workspace {
            request.workspace = Some(workspace.to_path_buf());
            request.working_directory = Some(workspace.to_path_buf());
            request.writable_paths.push(workspace.to_path_buf());
        }
        let sandbox = self.sandbox().map_err(CodeError::NotRun)?;
        let run = async {
            // Landlock knows no proxy; there code has no network.
            if sandbox.status().await.tier != Some(Tier::Landlock) {
                request.proxy_socket = self.proxy_socket();
            }
            sandbox.run(request).await
        };
        let connections = self.connections();
        if let Some(workspace) = workspace {
            record_foreign_files(workspace, untrusted).await;
        }
        let outcome = tokio::select! {
            outcome = run => outcome.map_err(|error| CodeError::NotRun(error.to_string()))?,
            () = cancelled.cancelled() => return Err(CodeError::Cancelled),
        };
        // Runs share the proxy, so this may have been another one.
        if self.connections() != connections {
            untrusted.record("the network");
        }
        if let Some(workspace) = workspace {
            record_foreign_files(workspace, untrusted).await;
        }
        if let Ended::NotStarted { reason } = &outcome.ended {
            return Err(CodeError::NotRun(format!("the program could not be started: {reason}")));
        }
        Ok(CodeOutcome::new(outcome))
    }

    /// Connections that code has made to the network since the daemon allowed it one.
    fn connections(&self) -> u64 {
        self.0.proxy.lock().as_ref().map_or(0, FilteringProxy::connections)
    }

    /// The way to the network; `None` when the settings allow none.
    fn proxy_socket(&self) -> Option<PathBuf> {
        let mut proxy = self.0.proxy.lock();
        if !self.settings().network {
            // What still goes through it ends with it.
            *proxy = None;
            return None;
        }
        self.open_proxy(&mut proxy, &self.0.proxy_socket)
            .inspect_err(|reason| tracing::error!(%reason, "sandboxed code has no network"))
            .ok()
    }

    /// The way to the network for a program to which the owner allows it by itself, under the same
    /// rules and whatever the settings say of code in general.
    ///
    /// # Errors
    /// A sentence on why there is none.
    pub fn granted_proxy_socket(&self) -> Result<PathBuf, String> {
        self.open_proxy(&mut self.0.granted.lock(), &self.0.granted_socket)
    }

    fn open_proxy(&self, proxy: &mut Option<FilteringProxy>, socket: &Path) -> Result<PathBuf, String> {
        if proxy.is_none() {
            let listener = ProxyListener::Unix { path: socket.to_path_buf(), owner: None };
            let options = ProxyOptions::new(self.0.settings.policy(), Trust::Steered);
            let started = FilteringProxy::start(&listener, options, &self.0.entropy);
            *proxy = Some(started.map_err(|error| format!("the proxy for sandboxed code cannot be started: {error}"))?);
        }
        Ok(socket.to_path_buf())
    }
}

/// Records that files of others lie in the workspace, where code can read them.
async fn record_foreign_files(workspace: &Path, untrusted: &UntrustedSource) {
    let (workspace, source) = (workspace.to_path_buf(), untrusted.clone());
    let recorded = tokio::task::spawn_blocking(move || match Workspace::open(&workspace) {
        Ok(workspace) => record_folders(&workspace, &source),
        Err(_) => source.record("the workspace"),
    });
    if recorded.await.is_err() {
        untrusted.record("the workspace");
    }
}

/// Replicas on several machines may share the data directory, but not what lies under this name.
fn machine() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let name: String = name.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(32).collect();
    if name.is_empty() { "machine".to_owned() } else { name }
}
