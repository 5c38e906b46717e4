//! Execution of code for agents.

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
use crate::workspaces::{UntrustedSource, Workspace, WorkspaceQuota, record_folders, sweep};

/// Hidden subcommand that runs as the first process of the sandbox.
pub const INIT_SUBCOMMAND: &str = "sandbox-init";
/// Time added to the timeout of a run for sandbox tests before it and cleanup after it.
const CALL_MARGIN: Duration = Duration::from_secs(30);

/// Active sandbox.
#[derive(Debug, Clone)]
pub struct SandboxState {
    /// Active isolation level; `None` if code is rejected.
    pub tier: Option<Tier>,
    pub reason: String,
    pub remedy: Option<String>,
    pub attempts: Vec<Attempt>,
    pub control_groups: ControlGroups,
    /// Entries of `writable_paths` that are unavailable, each with the reason.
    pub path_problems: Vec<String>,
}

fn format_with_source(error: &SandboxError) -> String {
    let source = std::error::Error::source(error).map(|source| format!(": {source}"));
    format!("{error}{}", source.unwrap_or_default())
}

/// Runs code in the sandbox. Cheap to clone.
#[derive(Clone)]
pub struct CodeRunner(Arc<Inner>);

struct Inner {
    /// The sandbox, or the reason why it is unavailable under any settings.
    sandbox: Result<Sandbox, String>,
    settings: Settings,
    quota: WorkspaceQuota,
    /// Folder of the workspaces; `None` after the sweep.
    unswept: Mutex<Option<PathBuf>>,
    entropy: Entropy,
    proxy_socket: PathBuf,
    /// Set while the settings permit network access.
    proxy: Mutex<Option<FilteringProxy>>,
    granted_socket: PathBuf,
    /// Set once a program with its own network permission has run.
    granted_proxy: Mutex<Option<FilteringProxy>>,
}

impl std::fmt::Debug for CodeRunner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CodeRunner").field("sandbox", &self.0.sandbox).finish_non_exhaustive()
    }
}

/// Reason why code did not run to completion.
#[derive(Debug, thiserror::Error)]
pub enum CodeError {
    /// No sandbox is available, or the program could not be started.
    #[error("{0}")]
    NotRun(String),
    #[error("the call was cancelled")]
    Cancelled,
}

impl CodeRunner {
    /// Creates a runner without starting anything. `program` is the daemon's own binary. If the sandbox cannot be
    /// prepared, code is rejected with the reason.
    pub fn new(context: &AppContext, settings: Settings, spawner: Spawner, program: PathBuf) -> Detached<Self> {
        let folder = context.data_dir.root().join("sandbox").join(machine_name());
        let created = context.data_dir.make_folder(&context.data_dir.root().join("sandbox"));
        let setup = SandboxSetup {
            spawner,
            program,
            init_arguments: vec![INIT_SUBCOMMAND.into()],
            state_directory: folder.clone(),
            data_directory: context.data_dir.root().to_path_buf(),
            control_groups: true,
        };
        let policy = settings.section::<SandboxSettings>().policy();
        let sandbox = created.and_then(|()| Sandbox::new(setup, policy));
        let sandbox = sandbox.map_err(|error| {
            tracing::error!(%error, folder = %folder.display(), "failed to prepare the sandbox; code is rejected");
            format!("failed to prepare the sandbox in {}: {error}", folder.display())
        });
        let quota_settings = settings.clone();
        Detached::new(Self(Arc::new(Inner {
            sandbox,
            quota: WorkspaceQuota::new(move || quota_settings.section::<SandboxSettings>().workspace_bounds()),
            unswept: Mutex::new(Some(context.data_dir.agents())),
            settings,
            entropy: context.entropy.clone(),
            proxy_socket: folder.join("proxy.sock"),
            proxy: Mutex::new(None),
            granted_socket: folder.join("granted.sock"),
            granted_proxy: Mutex::new(None),
        })))
    }

    /// Returns the time limit of the engine for a run with this timeout.
    #[must_use]
    pub fn call_limit(timeout: Duration) -> Duration {
        timeout + CALL_MARGIN
    }

    pub(super) fn all_settings(&self) -> &Settings {
        &self.0.settings
    }

    /// Returns the current settings.
    #[must_use]
    pub fn settings(&self) -> Arc<SandboxSettings> {
        self.0.settings.section()
    }

    /// Returns the quota of workspaces under the current settings.
    #[must_use]
    pub fn quota(&self) -> &WorkspaceQuota {
        &self.0.quota
    }

    /// Removes partial files of killed writers, once per process, because only a killed daemon leaves them.
    pub(super) async fn sweep_workspaces(&self) {
        let Some(agents) = self.0.unswept.lock().take() else { return };
        match tokio::task::spawn_blocking(move || sweep(&agents)).await {
            Ok(0) => {}
            Ok(files) => tracing::info!(files, "removed partial files in workspaces"),
            Err(error) => tracing::warn!(%error, "failed to sweep workspaces; retried at the next start"),
        }
    }

    /// Returns the sandbox under the current settings, for running other programs in it.
    ///
    /// # Errors
    /// A sentence that describes why it is unavailable.
    pub fn sandbox(&self) -> Result<&Sandbox, String> {
        let sandbox = self.0.sandbox.as_ref().map_err(Clone::clone)?;
        let policy = self.settings().policy();
        if sandbox.policy() != policy {
            sandbox.set_policy(policy);
        }
        Ok(sandbox)
    }

    /// Tests the isolation levels again, even under unchanged settings.
    pub fn recheck(&self) {
        if let Ok(sandbox) = self.sandbox() {
            sandbox.recheck();
        }
    }

    /// Tests the isolation levels, unless they were already tested under the current settings.
    pub(super) async fn test_isolation(&self) {
        if let Ok(sandbox) = self.sandbox() {
            sandbox.status().await;
        }
        self.proxy_socket();
    }

    /// Returns the active sandbox and the reason; waits for the tests.
    pub async fn state(&self) -> SandboxState {
        match self.sandbox() {
            Ok(sandbox) => {
                let status = sandbox.status().await;
                let unusable = sandbox.unusable_paths();
                SandboxState {
                    path_problems: unusable.iter().map(format_with_source).collect(),
                    tier: status.tier,
                    reason: status.reason,
                    remedy: status.remedy,
                    attempts: status.attempts,
                    control_groups: status.control_groups,
                }
            }
            Err(reason) => {
                let remedy =
                    Some("make the data directory writable for the daemon, then restart the daemon".to_owned());
                let control_groups = ControlGroups { is_active: false, detail: reason.clone(), remedy: None };
                let (attempts, path_problems) = (Vec::new(), Vec::new());
                SandboxState { tier: None, reason, remedy, attempts, control_groups, path_problems }
            }
        }
    }

    /// Returns the reason why code cannot be given access to this folder, if any.
    #[must_use]
    pub fn path_problem(&self, path: &Path) -> Option<String> {
        match self.0.sandbox.as_ref() {
            Ok(sandbox) => sandbox.check_writable(path).err().map(|error| format_with_source(&error)),
            Err(_) if path.is_dir() => None,
            Err(_) => Some(format!("`{}` is not an existing folder", path.display())),
        }
    }

    /// Whether this path is in the daemon's own data, or contains it.
    #[must_use]
    pub fn is_own_data(&self, path: &Path) -> bool {
        self.0.sandbox.as_ref().is_ok_and(|sandbox| sandbox.is_own_data(path))
    }

    /// Returns the reason why code for this interpreter cannot run, as far as known without a test.
    #[must_use]
    pub fn problem(&self, interpreter: Interpreter) -> Option<String> {
        let sandbox = match self.sandbox() {
            Ok(sandbox) => sandbox,
            Err(reason) => return Some(reason),
        };
        if let Some(status) = sandbox.known_status()
            && status.tier.is_none()
        {
            let remedy = status.remedy.map(|remedy| format!(". To enable one: {remedy}")).unwrap_or_default();
            return Some(format!("no sandbox is available: {}{remedy}", status.reason));
        }
        interpreter.problem()
    }

    /// Runs a program in `workspace`, or in a temporary directory if `None`, with network access if the settings permit
    /// it. `untrusted` records untrusted text that the program may have read.
    ///
    /// # Errors
    /// No sandbox is available, the program cannot be started, or `cancelled`.
    pub async fn run(
        &self,
        mut request: RunRequest,
        workspace: Option<&Path>,
        cancelled: &CancellationToken,
        untrusted: &UntrustedSource,
    ) -> Result<CodeOutcome, CodeError> {
        let _running = workspace.map(|workspace| self.0.quota.track_program(workspace));
        if let Some(workspace) = workspace {
            request.workspace = Some(workspace.to_path_buf());
            request.working_directory = Some(workspace.to_path_buf());
            request.writable_paths.push(workspace.to_path_buf());
        }
        let sandbox = self.sandbox().map_err(CodeError::NotRun)?;
        let run = async {
            // The Landlock level does not support the proxy, so code has no network there.
            if sandbox.status().await.tier != Some(Tier::Landlock) {
                request.proxy_socket = self.proxy_socket();
            }
            sandbox.run(request).await
        };
        let connections = self.connections();
        if let Some(workspace) = workspace {
            record_untrusted_files(workspace, untrusted).await;
        }
        let outcome = tokio::select! {
            outcome = run => outcome.map_err(|error| CodeError::NotRun(error.to_string()))?,
            () = cancelled.cancelled() => return Err(CodeError::Cancelled),
        };
        // Runs share the proxy, so another run may have opened the connection.
        if self.connections() != connections {
            untrusted.record("the network");
        }
        if let Some(workspace) = workspace {
            record_untrusted_files(workspace, untrusted).await;
        }
        if let Ended::NotStarted { reason } = &outcome.ended {
            return Err(CodeError::NotRun(format!("failed to start the program: {reason}")));
        }
        Ok(CodeOutcome::new(outcome))
    }

    /// Returns the number of network connections of code since the daemon permitted access.
    fn connections(&self) -> u64 {
        self.0.proxy.lock().as_ref().map_or(0, FilteringProxy::connections)
    }

    /// Returns the proxy socket; `None` if the settings permit no network access.
    fn proxy_socket(&self) -> Option<PathBuf> {
        let mut proxy = self.0.proxy.lock();
        if !self.settings().network {
            // Open connections are closed with it.
            *proxy = None;
            return None;
        }
        self.open_proxy(&mut proxy, &self.0.proxy_socket)
            .inspect_err(
                |reason| tracing::error!(%reason, "failed to open the proxy; sandboxed code has no network access"),
            )
            .ok()
    }

    /// Returns the proxy socket for a program with its own network permission. The same filter rules apply, independent
    /// of the setting for code in general.
    ///
    /// # Errors
    /// A sentence that describes why it is unavailable.
    pub fn granted_proxy_socket(&self) -> Result<PathBuf, String> {
        self.open_proxy(&mut self.0.granted_proxy.lock(), &self.0.granted_socket)
    }

    fn open_proxy(&self, proxy: &mut Option<FilteringProxy>, socket: &Path) -> Result<PathBuf, String> {
        if proxy.is_none() {
            let listener = ProxyListener::Unix { path: socket.to_path_buf(), owner: None };
            let options = ProxyOptions::new(self.0.settings.policy(), Trust::Untrusted);
            let started = FilteringProxy::start(&listener, options, &self.0.entropy);
            *proxy = Some(started.map_err(|error| format!("failed to start the proxy for sandboxed code: {error}"))?);
        }
        Ok(socket.to_path_buf())
    }
}

/// Records that the workspace contains untrusted files, which code can read.
async fn record_untrusted_files(workspace: &Path, untrusted: &UntrustedSource) {
    let (workspace, source) = (workspace.to_path_buf(), untrusted.clone());
    let recorded = tokio::task::spawn_blocking(move || match Workspace::open(&workspace) {
        Ok(workspace) => record_folders(&workspace, &source),
        Err(_) => source.record("the workspace"),
    });
    if recorded.await.is_err() {
        untrusted.record("the workspace");
    }
}

/// Returns the machine's name. Replicas on several machines may share the data directory, but not the files below this
/// name.
fn machine_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let name: String = name.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(32).collect();
    if name.is_empty() { "machine".to_owned() } else { name }
}
