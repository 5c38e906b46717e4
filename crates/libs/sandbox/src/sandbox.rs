//! Public interface of the sandbox.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use agentd_process::Spawner;
use parking_lot::RwLock;
use tokio::sync::OnceCell;

use crate::child::SandboxedChild;
use crate::host::directories;
use crate::host::evaluation::{Evaluation, Status, evaluate};
use crate::host::launch::Host;
use crate::host::orphans;
use crate::host::paths;
use crate::host::users::Users;
use crate::run::collect;
use crate::{Policy, RunOutcome, RunRequest, SandboxError};

/// Configuration of a [`Sandbox`].
#[derive(Debug, Clone)]
pub struct SandboxSetup {
    pub spawner: Spawner,
    /// Daemon's own binary.
    pub program: PathBuf,
    /// Arguments with which that binary calls [`crate::init::main`] with the arguments that follow.
    pub init_arguments: Vec<OsString>,
    /// Directory of the sandbox, created with mode 0700; leftovers of a crash are removed.
    pub state_directory: PathBuf,
    /// Daemon's data directory: neither it nor its parents are ever opened to a program, but subdirectories can be.
    pub data_directory: PathBuf,
    /// Whether runs get control groups, if available; disabled in tests.
    pub control_groups: bool,
}

/// Runs programs in sandboxes, under a policy that can change at any time. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Sandbox(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    host: Host,
    users: Arc<Users>,
    active: RwLock<Arc<ActivePolicy>>,
}

/// Policy with its evaluation.
#[derive(Debug)]
struct ActivePolicy {
    policy: Policy,
    evaluation: OnceCell<Evaluation>,
}

impl ActivePolicy {
    fn new(policy: Policy) -> Arc<Self> {
        Arc::new(Self { policy, evaluation: OnceCell::new() })
    }
}

impl Sandbox {
    /// Creates the state directory and opens the daemon's binary. Runs nothing.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be created or the binary cannot be opened.
    pub fn new(setup: SandboxSetup, policy: Policy) -> io::Result<Self> {
        let SandboxSetup { spawner, program, init_arguments, state_directory, data_directory, control_groups } = setup;
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&state_directory)?;
        std::fs::set_permissions(&state_directory, std::fs::Permissions::from_mode(0o700))?;
        let state_directory = state_directory.canonicalize()?;
        clear(&state_directory)?;
        let data_directory = data_directory.canonicalize()?;
        let init = Arc::new(File::open(&program)?.into());
        let users = Arc::new(Users::new(spawner.clone(), program.clone(), init_arguments.clone()));
        let guarded = vec![data_directory, state_directory.clone()];
        let host = Host { spawner, init, init_arguments, state_directory, guarded, uses_groups: control_groups };
        Ok(Self(Arc::new(Shared { host, users, active: RwLock::new(ActivePolicy::new(policy)) })))
    }

    #[must_use]
    pub fn policy(&self) -> Policy {
        self.active().policy.clone()
    }

    /// Returns the errors of the policy's folders that cannot currently be opened; runs continue without them.
    #[must_use]
    pub fn unusable_paths(&self) -> Vec<SandboxError> {
        self.policy().writable_paths.iter().filter_map(|path| self.check_writable(path).err()).collect()
    }

    /// Whether this folder can currently be opened to code.
    ///
    /// # Errors
    /// Returns the reason if it cannot.
    pub fn check_writable(&self, path: &Path) -> Result<(), SandboxError> {
        self.0.host.check_writable(path)
    }

    /// Whether this path is the daemon's data directory, or contains or is inside it.
    #[must_use]
    pub fn is_own_data(&self, path: &Path) -> bool {
        paths::is_own(path, &self.0.host.guarded)
    }

    /// Replaces the policy. Running programs keep the previous one; the tiers are evaluated again before the next run.
    pub fn set_policy(&self, policy: Policy) {
        *self.0.active.write() = ActivePolicy::new(policy);
    }

    /// Evaluates the tiers again under the same policy, for example after the owner applied a remedy.
    pub fn recheck(&self) {
        let mut active = self.0.active.write();
        *active = ActivePolicy::new(active.policy.clone());
    }

    /// Returns the active tier and its reason. Evaluates the tiers if necessary, which takes some tenths of a second.
    pub async fn status(&self) -> Status {
        self.evaluation(&self.active()).await.status.clone()
    }

    /// Like [`Self::status`], but returns `None` instead of evaluating.
    #[must_use]
    pub fn known_status(&self) -> Option<Status> {
        self.active().evaluation.get().map(|evaluation| evaluation.status.clone())
    }

    /// Runs a program to its end. Dropping the future kills it with everything that it started.
    ///
    /// # Errors
    /// Returns an error if no sandbox is available, the policy forbids the request, or the sandbox could not be
    /// created. A program that cannot be started is an outcome.
    pub async fn run(&self, mut request: RunRequest) -> Result<RunOutcome, SandboxError> {
        let active = self.active();
        let entry = self.evaluation(&active).await.entry()?;
        let allowed = Duration::from_secs(active.policy.timeout_seconds);
        let time_limit = request.limits.time.map_or(allowed, |wanted| wanted.min(allowed));
        let started = Instant::now();
        let stdin = std::mem::take(&mut request.stdin);
        let launched = self.0.host.launch(entry, &active.policy, &request, None).await?;
        let mut child = SandboxedChild::new(launched, entry.tier);
        let (ended, stdout, stderr) = collect(&mut child, stdin, &request.limits, time_limit).await;
        Ok(RunOutcome { ended, stdout, stderr, duration: started.elapsed(), tier: entry.tier })
    }

    /// Starts a long-running program with pipes to its streams. All limits apply, except for those on time and output,
    /// which the caller enforces.
    ///
    /// # Errors
    /// Same as [`Self::run`].
    pub async fn spawn(&self, request: RunRequest) -> Result<SandboxedChild, SandboxError> {
        let active = self.active();
        let entry = self.evaluation(&active).await.entry()?;
        let launched = self.0.host.launch(entry, &active.policy, &request, None).await?;
        Ok(SandboxedChild::new(launched, entry.tier))
    }

    fn active(&self) -> Arc<ActivePolicy> {
        Arc::clone(&self.0.active.read())
    }

    async fn evaluation<'a>(&self, active: &'a ActivePolicy) -> &'a Evaluation {
        let shared = &self.0;
        let evaluate = || async {
            let state_directory = shared.host.state_directory.clone();
            // Concurrent with the evaluation, which may finish first.
            tokio::task::spawn_blocking(move || orphans::kill_orphans(&state_directory));
            evaluate(&shared.host, &shared.users, active.policy.backend).await
        };
        active.evaluation.get_or_init(evaluate).await
    }
}

/// Removes directories of daemons that ended without removing them. Other daemons on this machine may share the
/// directory.
fn clear(state_directory: &std::path::Path) -> io::Result<()> {
    for entry in std::fs::read_dir(state_directory)? {
        let entry = entry?;
        let is_left = entry.file_name().to_str().is_some_and(directories::is_left_over);
        if is_left && entry.file_type()?.is_dir() {
            crate::folder::remove_path(&entry.path())?;
        }
    }
    Ok(())
}
