//! What a run promises, on every tier that this machine has.

use std::path::{Path, PathBuf};
use std::time::Duration;

use agentd_process::Spawner;
use agentd_sandbox::{Backend, Ended, Policy, RunOutcome, RunRequest, Sandbox, SandboxError, SandboxSetup};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

struct Machine {
    root: tempfile::TempDir,
    sandbox: Sandbox,
}

impl Machine {
    fn new(backend: Backend) -> Self {
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
        };
        let sandbox = Sandbox::new(setup, Policy { backend, ..Policy::default() }).unwrap();
        Self { root, sandbox }
    }

    fn workspace(&self) -> PathBuf {
        self.root.path().canonicalize().unwrap().join("data/workspace")
    }

    fn request(&self, program: &str, arguments: &[&str]) -> RunRequest {
        let mut request = RunRequest::new(program, arguments.iter().copied());
        request.working_directory = Some(self.workspace());
        request.writable_paths = vec![self.workspace()];
        request
    }

    async fn run(&self, program: &str, arguments: &[&str]) -> RunOutcome {
        self.sandbox.run(self.request(program, arguments)).await.unwrap()
    }

    async fn shell(&self, script: &str) -> RunOutcome {
        self.run("sh", &["-c", script]).await
    }
}

/// Each tier that proves itself; the others are named loudly and left out.
async fn machines() -> Vec<Machine> {
    let mut machines = vec![];
    for backend in [Backend::Bubblewrap, Backend::Landlock] {
        let machine = Machine::new(backend);
        let status = machine.sandbox.status().await;
        if status.tier.is_some() {
            machines.push(machine);
        } else {
            println!("NOT TESTED: this machine cannot provide {backend:?}: {}", status.reason);
        }
    }
    machines.push(Machine::new(Backend::None));
    machines
}

fn text(outcome: &RunOutcome) -> (String, String) {
    (outcome.stdout.to_text(), outcome.stderr.to_text())
}

#[tokio::test]
async fn a_program_reads_its_input_and_answers() {
    for machine in machines().await {
        let mut request = machine.request("cat", &[]);
        request.stdin = b"hello".to_vec();
        let outcome = machine.sandbox.run(request).await.unwrap();
        assert_eq!(outcome.stdout.to_text(), "hello", "{:?} {outcome:?}", outcome.tier);
        assert_eq!(outcome.ended, Ended::Exited { code: 0 });
        let outcome = machine.shell("echo out; echo err >&2; exit 3").await;
        assert_eq!(
            (outcome.ended.clone(), text(&outcome)),
            (Ended::Exited { code: 3 }, ("out\n".into(), "err\n".into()))
        );
        assert_eq!(machine.shell("kill -15 $$").await.ended, Ended::Signaled { signal: 15 });
    }
}
