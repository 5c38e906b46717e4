use std::time::Duration;

use agentd_process::Spawner;
use agentd_sandbox::{Ended, Policy, RunRequest, Sandbox, SandboxError, SandboxSetup};

use crate::machine::machines;

#[tokio::test]
async fn exceeded_limit_ends_the_run_and_is_reported() {
    for machine in machines().await {
        let mut request = machine.request("sh", &["-c", "trap '' TERM; sleep 1000 & sleep 1000"]);
        request.limits.time = Some(Duration::from_millis(200));
        assert_eq!(machine.sandbox.run(request).await.unwrap().ended, Ended::TimeLimit);
        let share = "import mmap, time\nm = []\nfor i in range(200):\n  x = mmap.mmap(-1, 4 << 20); x.write(b'1' * (4 << 20)); m.append(x); time.sleep(0.005)\n";
        let mut request = machine.request("/usr/bin/python3", &["-c", share]);
        request.limits.memory_bytes = Some(100 << 20);
        let outcome = machine.sandbox.run(request).await.unwrap();
        assert_eq!(outcome.ended, Ended::MemoryLimit { limit: 100 << 20 }, "{outcome:?}");
        let mut request = machine.request("/usr/bin/python3", &["-c", "x = 'a' * (300 << 20)"]);
        request.limits.memory_bytes = Some(100 << 20);
        let outcome = machine.sandbox.run(request).await.unwrap();
        assert!(outcome.stderr.to_text().contains("MemoryError"), "{outcome:?}");
        let mut request = machine.request("sh", &["-c", "head -c 2000000 /dev/zero > big; stat -c %s big; ulimit -n"]);
        request.limits.file_bytes = 1_000_000;
        request.limits.open_files = 100;
        let outcome = machine.sandbox.run(request).await.unwrap();
        assert!(outcome.stdout.to_text().starts_with("1000000\n100"), "{outcome:?}");
    }
}

#[tokio::test]
async fn kernel_memory_counts_even_if_the_program_succeeds() {
    let fill = "import socket, time\nkept = []\ntry:\n  while True:\n    kept.append(socket.socketpair())\n    for s in kept[-1]:\n      s.setblocking(False)\n      try:\n        while s.send(b'1' * 65536): pass\n      except BlockingIOError: pass\nexcept OSError: time.sleep(2)\n";
    for machine in machines().await {
        // Each process is killed, or has no more descriptors and keeps what it has.
        let script = format!("fill() {{ /usr/bin/python3 -c \"{fill}\"; }}; fill & fill & wait; exit 0");
        let mut request = machine.request("sh", &["-c", &script]);
        request.limits.memory_bytes = Some(64 << 20);
        let outcome = machine.sandbox.run(request).await.unwrap();
        assert_eq!(outcome.ended, Ended::MemoryLimit { limit: 64 << 20 }, "{outcome:?}");
    }
}

/// Three processes, each within the limit, that show nothing under their own numbers.
const WITHOUT_FIRST_THREADS: &str = "import ctypes, os, socket, sys, threading, time
def heap(kept):
  while len(kept) < 40: kept.append(b'1' * (1 << 20))
def pairs(kept):
  while True: kept.append(socket.socketpair())
def hold():
  kept = []
  time.sleep(0.2)
  try: (heap if sys.argv[1] == 'heap' else pairs)(kept)
  except (OSError, MemoryError): pass
  time.sleep(5)
  os._exit(0)
for _ in range(3):
  if os.fork() == 0:
    threading.Thread(target=hold).start()
    ctypes.CDLL(None).syscall(60 if os.uname().machine == 'x86_64' else 93, 0)
for _ in range(3): os.wait()
";

#[tokio::test]
async fn process_with_ended_first_thread_is_counted() {
    for machine in machines().await {
        let has_group = machine.sandbox.status().await.control_groups.is_active;
        // Empty sockets count as full only without a control group.
        for what in ["heap", "pairs"].into_iter().take(if has_group { 1 } else { 2 }) {
            let mut request = machine.request("/usr/bin/python3", &["-c", WITHOUT_FIRST_THREADS, what]);
            request.limits.memory_bytes = Some(64 << 20);
            let outcome = machine.sandbox.run(request).await.unwrap();
            assert_eq!(outcome.ended, Ended::MemoryLimit { limit: 64 << 20 }, "{what} {has_group} {outcome:?}");
        }
    }
}

#[tokio::test]
async fn dropped_run_is_killed() {
    for machine in machines().await {
        let gate = machine.workspace().join("gate");
        let script = "mkfifo gate; setsid sh -c 'exec > gate; echo held; sleep 1000' & wait";
        let run = tokio::spawn({
            let (sandbox, request) = (machine.sandbox.clone(), machine.request("sh", &["-c", script]));
            async move { sandbox.run(request).await }
        });
        while !gate.exists() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let mut gate = tokio::task::spawn_blocking(move || std::fs::File::open(gate).unwrap()).await.unwrap();
        let read = async move |mut gate: std::fs::File| {
            tokio::task::spawn_blocking(move || {
                let mut bytes = [0; 16];
                let length = std::io::Read::read(&mut gate, &mut bytes).unwrap();
                (gate, bytes[..length].to_vec())
            })
            .await
            .unwrap()
        };
        let text;
        (gate, text) = read(gate).await;
        assert_eq!(text, b"held\n");
        run.abort();
        assert!(run.await.unwrap_err().is_cancelled());
        // Its end of the pipe is closed, although it left every group and session.
        assert_eq!(read(gate).await.1, b"");
    }
}

#[tokio::test]
async fn concurrent_runs_are_isolated() {
    for machine in machines().await {
        let mut runs = tokio::task::JoinSet::new();
        for number in 0..12 {
            let (sandbox, request) = (
                machine.sandbox.clone(),
                machine.request(
                    "sh",
                    &["-c", &format!("echo {number}; echo {number} > $TMPDIR/own; sleep 0.1; cat $TMPDIR/own")],
                ),
            );
            runs.spawn(async move { (number, sandbox.run(request).await.unwrap()) });
        }
        while let Some(done) = runs.join_next().await {
            let (number, outcome) = done.unwrap();
            assert_eq!(outcome.stdout.to_text(), format!("{number}\n{number}\n"), "{outcome:?}");
        }
    }
}

#[tokio::test]
async fn unavailable_tier_refuses_code_with_a_remedy() {
    // A binary that is not an init fails every evaluation.
    let root = tempfile::tempdir().unwrap();
    let setup = SandboxSetup {
        spawner: Spawner::start().unwrap(),
        program: "/bin/false".into(),
        init_arguments: Vec::new(),
        state_directory: root.path().join("sandbox"),
        data_directory: root.path().to_owned(),
        control_groups: true,
    };
    let sandbox = Sandbox::new(setup, Policy::default()).unwrap();
    assert_eq!(sandbox.known_status(), None);
    let error = sandbox.run(RunRequest::new("true", [""; 0])).await.unwrap_err();
    assert!(matches!(error, SandboxError::Unavailable { .. }), "{error:?}");
    let status = sandbox.known_status().unwrap();
    assert_eq!((status.tier, status.attempts.len()), (None, 2));
    assert!(status.remedy.is_some() && error.to_string().contains(&status.remedy.unwrap()));
}

/// Empty files use no bytes but still fill a disk.
const FLOOD: &str = "import os, sys\nos.makedirs(sys.argv[1], exist_ok=True)\nfor n in range(400_000):\n  os.close(os.open(f'{sys.argv[1]}/f{n}', os.O_CREAT))\n";

#[tokio::test]
async fn creating_too_many_files_ends_the_run() {
    for machine in machines().await {
        let flood = |bounded: bool| {
            let mut request = machine.request("/usr/bin/python3", &["-c", FLOOD, if bounded { "w" } else { "d" }]);
            // A fast file system creates thousands between two measurements: if two limits are exceeded, either may be
            // reported.
            request.limits.files = if bounded { 10_000_000 } else { 5_000 };
            request.workspace = bounded.then(|| machine.workspace());
            request
        };
        let outcome = machine.sandbox.run(flood(false)).await.unwrap();
        assert_eq!(outcome.ended, Ended::FileLimit, "{outcome:?}");
        let made = std::fs::read_dir(machine.workspace().join("d")).unwrap().count();
        println!("{:?}: {made} files before it was ended", outcome.tier);
        assert!(made < 200_000, "{made}");
        machine.sandbox.set_policy(Policy { workspace_max_files: 100, ..machine.sandbox.policy() });
        let outcome = machine.sandbox.run(flood(true)).await.unwrap();
        assert_eq!(outcome.ended, Ended::WorkspaceFiles { limit: 100 }, "{outcome:?}");
    }
}

/// Uses a folder that no other user may read while it grows.
#[tokio::test]
async fn files_in_closed_folders_are_counted() {
    let hidden = "import os\nfor m in range(400):\n  os.mkdir(f'd{m}')\n  for n in range(1000):\n    os.close(os.open(f'd{m}/f{n}', os.O_CREAT))\n  os.chmod(f'd{m}', 0)\n";
    for machine in machines().await {
        let mut request = machine.request("/usr/bin/python3", &["-c", hidden]);
        request.limits.files = 5_000;
        let outcome = machine.sandbox.run(request).await.unwrap();
        assert_eq!(outcome.ended, Ended::FileLimit, "{outcome:?}");
    }
}

#[tokio::test]
async fn workspace_is_measured_completely_after_the_run() {
    for machine in machines().await {
        machine.sandbox.set_policy(Policy { workspace_limit_mb: 16, ..machine.sandbox.policy() });
        let run = async |script: &str| {
            let mut request = machine.request("sh", &["-c", script]);
            request.workspace = Some(machine.workspace());
            machine.sandbox.run(request).await.unwrap().ended
        };
        let over = Ended::WorkspaceBytes { limit: 16 << 20 };
        assert_eq!(run("mkdir d && truncate -s 1G d/hole && chmod 0 d").await, over);
        // It had this size before; one more file could exceed the limit at the time of a measurement.
        assert_eq!(run("chmod 700 d").await, Ended::Exited { code: 0 });
        assert_eq!(run("truncate -s 2M more").await, over);
        assert_eq!(run("rm -r d more").await, Ended::Exited { code: 0 });
        assert_eq!(run("truncate -s 15M some").await, Ended::Exited { code: 0 });
        assert_eq!(run("ln some again").await, over);
    }
}
