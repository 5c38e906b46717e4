//! Daemon's data directory, a sandbox next to it, and a workspace in it.

use std::path::PathBuf;

use agentd_process::Spawner;
use agentd_sandbox::{Backend, Policy, RunOutcome, RunRequest, Sandbox, SandboxSetup};

pub(crate) struct Machine {
    pub(crate) root: tempfile::TempDir,
    pub(crate) sandbox: Sandbox,
}

impl Machine {
    pub(crate) fn new(backend: Backend, control_groups: bool) -> Self {
        let root = tempfile::tempdir().unwrap();
        let data = root.path().join("data");
        std::fs::create_dir_all(data.join("workspace")).unwrap();
        std::fs::write(data.join("secret"), "the daemon's secret").unwrap();
        let setup = SandboxSetup {
            spawner: Spawner::start().unwrap(),
            program: env!("CARGO_BIN_EXE_agentd-sandbox-init").into(),
            init_arguments: Vec::new(),
            state_directory: data.join("sandbox"),
            data_directory: data,
            control_groups,
        };
        let sandbox = Sandbox::new(setup, Policy { backend, ..Policy::default() }).unwrap();
        Self { root, sandbox }
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.root.path().canonicalize().unwrap().join("data/workspace")
    }

    pub(crate) fn request(&self, program: &str, arguments: &[&str]) -> RunRequest {
        let mut request = RunRequest::new(program, arguments.iter().copied());
        request.working_directory = Some(self.workspace());
        request.writable_paths = vec![self.workspace()];
        request
    }

    pub(crate) async fn run(&self, program: &str, arguments: &[&str]) -> RunOutcome {
        self.sandbox.run(self.request(program, arguments)).await.unwrap()
    }

    pub(crate) async fn shell(&self, script: &str) -> RunOutcome {
        self.run("sh", &["-c", script]).await
    }
}

/// Returns a machine for each available tier, with and without control groups; prints the tiers that are unavailable.
pub(crate) async fn machines() -> Vec<Machine> {
    let mut machines = vec![];
    for backend in [Backend::Bubblewrap, Backend::Landlock] {
        for control_groups in [true, false] {
            let machine = Machine::new(backend, control_groups);
            let status = machine.sandbox.status().await;
            if status.tier.is_none() {
                println!("NOT TESTED: this machine cannot provide {backend:?}: {}", status.reason);
            } else if control_groups && !status.control_groups.is_active {
                println!("NOT TESTED: {backend:?} with control groups: {}", status.control_groups.detail);
            } else {
                machines.push(machine);
            }
        }
    }
    machines.push(Machine::new(Backend::None, true));
    machines
}

pub(crate) fn text(outcome: &RunOutcome) -> (String, String) {
    (outcome.stdout.to_text(), outcome.stderr.to_text())
}
