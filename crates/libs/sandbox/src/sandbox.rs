//! The sandbox as the daemon sees it.

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

/// What a [`Sandbox`] is made of.
#[derive(Debug, Clone)]
pub struct SandboxSetup {
    pub spawner: Spawner,
    /// The daemon's own binary.
    pub program: PathBuf,
    /// What makes that binary call [`crate::init::main`] with the arguments that follow.
    pub init_arguments: Vec<OsString>,
    /// A directory of the sandbox's own; made with mode 0700, and emptied of what a crash left.
    pub state_directory: PathBuf,
    /// The daemon's data: neither it nor what contains it is ever opened to a program, but
    /// directories in it can be.
    pub data_directory: PathBuf,
    /// Whether each run gets a control group where that can be had. For tests of what holds without.
    pub control_groups: bool,
}

/// Runs programs in boxes, under a policy that can change at any time. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Sandbox(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    host: Host,
    users: Arc<Users>,
    present: RwLock<Arc<Present>>,
}

/// A policy and what was found out under it.
#[derive(Debug)]
struct Present {
    policy: Policy,
    evaluation: OnceCell<Evaluation>,
}

impl Present {
    fn new(policy: Policy) -> Arc<Self> {
        Arc::new(Self { policy, evaluation: OnceCell::new() })
    }
}

impl Sandbox {
    /// Makes the state directory and opens the daemon's binary. Nothing is run yet.
    ///
    /// # Errors
    /// When the directory cannot be made or the binary cannot be opened.
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
        Ok(Self(Arc::new(Shared { host, users, present: RwLock::new(Present::new(policy)) })))
    }

    #[must_use]
    pub fn policy(&self) -> Policy {
        self.present().policy.clone()
    }

    /// The folders of the policy that cannot be opened as things are; runs go on without them.
    #[must_use]
    pub fn unusable_paths(&self) -> Vec<SandboxError> {
        self.policy().writable_paths.iter().filter_map(|path| self.check_writable(path).err()).collect()
    }

    /// Whether this folder could be opened to code as things are.
    ///
    /// # Errors
    /// Why not.
    pub fn check_writable(&self, path: &Path) -> Result<(), SandboxError> {
        self.0.host.check_writable(path)
    }

    /// Whether this path is the daemon's own data, a part of it, or holds it.
    #[must_use]
    pub fn is_own_data(&self, path: &Path) -> bool {
        paths::is_own(path, &self.0.host.guarded)
    }

    /// Replaces the policy. Runs that have started keep theirs; the tiers are tried again before
    /// the next one.
    pub fn set_policy(&self, policy: Policy) {
        *self.0.present.write() = Present::new(policy);
    }

    /// Tries the tiers again under the same policy, for an owner who followed a remedy.
    pub fn recheck(&self) {
        let mut present = self.0.present.write();
        *present = Present::new(present.policy.clone());
    }

    /// The tier in force and why. Tries the tiers when that has not been done yet, which takes
    /// some tenths of a second.
    pub async fn status(&self) -> Status {
        self.evaluation(&self.present()).await.status.clone()
    }

    /// Like [`Self::status`], but `None` instead of trying anything.
    #[must_use]
    pub fn known_status(&self) -> Option<Status> {
        self.present().evaluation.get().map(|evaluation| evaluation.status.clone())
    }

    /// Runs a program to its end. Dropping the future ends it with everything that it started.
    ///
    /// # Errors
    /// When no sandbox is available, the policy forbids what was asked, or the box could not be
    /// made. A program that cannot be started is an outcome.
    pub async fn run(&self, mut request: RunRequest) -> Result<RunOutcome, SandboxError> {
        let present = self.present();
        let entry = self.evaluation(&present).await.entry()?;
        let allowed = Duration::from_secs(present.policy.timeout_seconds);
        let time_limit = request.limits.time.map_or(allowed, |wanted| wanted.min(allowed));
        let started = Instant::now();
        let stdin = std::mem::take(&mut request.stdin);
        let launched = self.0.host.launch(entry, &present.policy, &request, None).await?;
        let mut child = SandboxedChild::new(launched, entry.tier);
        let (ended, stdout, stderr) = collect(&mut child, stdin, &request.limits, time_limit).await;
        Ok(RunOutcome { ended, stdout, stderr, duration: started.elapsed(), tier: entry.tier })
    }

    /// Starts a program that runs until it ends or is ended, with pipes to its streams. Its bounds
    /// hold, but those on time and output, which are the caller's.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub async fn spawn(&self, request: RunRequest) -> Result<SandboxedChild, SandboxError> {
        let present = self.present();
        let entry = self.evaluation(&present).await.entry()?;
        let launched = self.0.host.launch(entry, &present.policy, &request, None).await?;
        Ok(SandboxedChild::new(launched, entry.tier))
    }

    fn present(&self) -> Arc<Present> {
        Arc::clone(&self.0.present.read())
    }

    async fn evaluation<'a>(&self, present: &'a Present) -> &'a Evaluation {
        let shared = &self.0;
        let evaluate = || async {
            let state_directory = shared.host.state_directory.clone();
            // Beside the trial, which may well be over first.
            tokio::task::spawn_blocking(move || orphans::end(&state_directory));
            evaluate(&shared.host, &shared.users, present.policy.backend).await
        };
        present.evaluation.get_or_init(evaluate).await
    }
}

/// Removes the directories of daemons that have ended without removing them. Another daemon on this machine may share the
/// directory.
fn clear(state_directory: &std::path::Path) -> io::Result<()> {
    for entry in std::fs::read_dir(state_directory)? {
        let entry = entry?;
        let is_left = entry.file_name().to_str().is_some_and(directories::is_left_behind);
        if is_left && entry.file_type()?.is_dir() {
            crate::folder::remove_path(&entry.path())?;
        }
    }
    Ok(())
}
