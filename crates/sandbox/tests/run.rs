//! What a run promises, on every tier that this machine has.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agentd_process::Spawner;
use agentd_sandbox::{Backend, Ended, Policy, RunOutcome, RunRequest, Sandbox, SandboxError, SandboxSetup};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};

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

#[tokio::test]
async fn interpreters_run() {
    for machine in machines().await {
        let python = "import json, ssl, hashlib, subprocess, tempfile, threading\n\
                      t = threading.Thread(target=print, args=('thread',)); t.start(); t.join()\n\
                      with tempfile.NamedTemporaryFile() as f: f.write(b'x')\n\
                      open('made', 'w').write('by python')\n\
                      print(subprocess.run(['sh', '-c', 'cat made'], capture_output=True, text=True).stdout)";
        let outcome = machine.run("/usr/bin/python3", &["-c", python]).await;
        assert_eq!(text(&outcome), ("thread\nby python\n".into(), String::new()), "{outcome:?}");
        let node = "const { execSync } = require('child_process');\n\
                    require('fs').writeFileSync('made', 'by node');\n\
                    console.log(execSync('cat made').toString());";
        if Path::new("/usr/bin/node").exists() {
            let mut request = machine.request("/usr/bin/node", &["-e", node]);
            request.limits.memory_bytes = Some(512 << 20);
            let outcome = machine.sandbox.run(request).await.unwrap();
            assert_eq!(text(&outcome), ("by node\n".into(), String::new()), "{outcome:?}");
        } else {
            println!("NOT TESTED: node is not installed");
        }
        let outcome = machine.shell("set -e; mkdir d; cp -r /usr/share/doc/bash d/; ls -l d | wc -l; sort made | head -1; date >/dev/null; id -u").await;
        assert!(outcome.ended.is_success(), "{outcome:?}");
    }
}

#[tokio::test]
async fn what_it_makes_is_the_daemons_on_the_disk_and_what_the_daemon_makes_is_its_own() {
    use std::os::unix::fs::MetadataExt;
    for machine in machines().await {
        let workspace = machine.workspace();
        std::fs::create_dir(workspace.join("private")).unwrap();
        let private = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(workspace.join("private"), private).unwrap();
        std::fs::write(workspace.join("private/note"), "by the daemon").unwrap();
        let outcome =
            machine.shell("cat private/note; echo changed > private/note; mkdir -p a/b; echo new > a/b/c").await;
        assert_eq!(outcome.stdout.to_text(), "by the daemon", "{outcome:?}");
        assert_eq!(std::fs::read_to_string(workspace.join("private/note")).unwrap(), "changed\n");
        let made = std::fs::metadata(workspace.join("a/b/c")).unwrap();
        assert_eq!(made.uid(), std::fs::metadata(&workspace).unwrap().uid(), "{}", outcome.tier);
    }
}

#[tokio::test]
async fn paths_are_readable_or_writable_or_not_there() {
    for machine in machines().await {
        let root = machine.root.path().canonicalize().unwrap();
        let library = root.join("library");
        std::fs::create_dir(&library).unwrap();
        std::fs::write(library.join("book"), "words").unwrap();
        let mut request = machine.request("sh", &["-c", "cat \"$1\"; echo x > \"$1\" && echo written", "sh"]);
        request.arguments.push(library.join("book").into());
        request.readable_paths = vec![library.clone()];
        let outcome = machine.sandbox.run(request.clone()).await.unwrap();
        if machine.sandbox.policy().backend == Backend::None {
            continue;
        }
        assert_eq!(outcome.stdout.to_text(), "words", "{outcome:?}");
        request.readable_paths.clear();
        assert_eq!(machine.sandbox.run(request).await.unwrap().stdout.to_text(), "");
        // The policy opens a directory for every run.
        machine.sandbox.set_policy(Policy { writable_paths: vec![library.clone()], ..machine.sandbox.policy() });
        let script = format!("echo more >> {}/book", library.display());
        assert!(machine.shell(&script).await.ended.is_success());
        assert_eq!(std::fs::read_to_string(library.join("book")).unwrap(), "wordsmore\n");
    }
}

#[tokio::test]
async fn the_daemons_data_is_never_opened_even_through_a_link_that_code_left() {
    for machine in machines().await {
        let data = machine.root.path().join("data");
        let mut request = machine.request("true", &[]);
        request.readable_paths = vec![data.clone()];
        let error = machine.sandbox.run(request.clone()).await.unwrap_err();
        assert!(matches!(error, SandboxError::PathRefused { .. }), "{error:?}");
        machine.shell("ln -s ../ sub").await;
        request.readable_paths = vec![machine.workspace().join("sub")];
        let error = machine.sandbox.run(request).await.unwrap_err();
        assert!(error.to_string().contains("the daemon's own data"), "{error}");
    }
}

#[tokio::test]
async fn only_named_variables_are_handed_on() {
    for machine in machines().await {
        let mut request = machine.request("env", &[]);
        request.environment = vec![("TOKEN".into(), "of the caller".into()), ("HOME".into(), "/elsewhere".into())];
        machine.sandbox.set_policy(Policy { env_allowlist: vec!["CARGO_PKG_NAME".into()], ..machine.sandbox.policy() });
        let outcome = machine.sandbox.run(request.clone()).await.unwrap();
        let text = outcome.stdout.to_text();
        let mut names: Vec<&str> = text.lines().filter_map(|line| line.split('=').next()).collect();
        names.sort_unstable();
        // Only cargo sets the last one, and not when the binary is run by hand.
        names.retain(|name| *name != "CARGO_PKG_NAME");
        assert_eq!(names, ["HOME", "LANG", "PATH", "TMPDIR", "TOKEN"], "{text}");
        assert!(text.contains("HOME=/elsewhere"));
        request.environment = vec![("A=B".into(), "c".into())];
        assert!(matches!(machine.sandbox.run(request).await, Err(SandboxError::Variable { .. })));
    }
}

#[tokio::test]
async fn output_is_bounded_and_floods_are_ended() {
    for machine in machines().await {
        let mut request = machine.request("sh", &["-c", "seq 1 20000; echo last >&2"]);
        request.limits.kept_bytes = 1000;
        let outcome = machine.sandbox.run(request.clone()).await.unwrap();
        assert!(outcome.ended.is_success());
        assert!(outcome.stdout.head.starts_with(b"1\n2\n") && outcome.stdout.tail.ends_with(b"20000\n"));
        assert_eq!(outcome.stdout.head.len() + outcome.stdout.tail.len(), 1000);
        assert_eq!(outcome.stdout.total_bytes(), 108_894);
        assert_eq!(outcome.stderr.to_text(), "last\n");
        request.arguments = vec!["-c".into(), "yes".into()];
        request.limits.output_bytes = 1 << 20;
        let outcome = machine.sandbox.run(request).await.unwrap();
        assert_eq!(outcome.ended, Ended::OutputLimit, "{}", outcome.tier);
        assert_eq!(outcome.stdout.head.len() + outcome.stdout.tail.len(), 1000);
    }
}

#[tokio::test]
async fn limits_end_a_run_and_say_which_one() {
    for machine in machines().await {
        let mut request = machine.request("sh", &["-c", "trap '' TERM; sleep 1000 & sleep 1000"]);
        request.limits.time = Some(Duration::from_millis(200));
        assert_eq!(machine.sandbox.run(request).await.unwrap().ended, Ended::TimeLimit);
        let share = "import mmap, time\nm = []\nfor i in range(200):\n  x = mmap.mmap(-1, 4 << 20); x.write(b'1' * (4 << 20)); m.append(x); time.sleep(0.005)\n";
        let mut request = machine.request("/usr/bin/python3", &["-c", share]);
        request.limits.memory_bytes = Some(100 << 20);
        let outcome = machine.sandbox.run(request).await.unwrap();
        assert_eq!(outcome.ended, Ended::MemoryLimit, "{outcome:?}");
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
async fn a_program_that_is_not_there_is_an_outcome() {
    for machine in machines().await {
        let outcome = machine.run("no-such-program", &[]).await;
        assert!(
            matches!(&outcome.ended, Ended::NotStarted { reason } if reason.contains("no-such-program")),
            "{outcome:?}"
        );
        let mut request = machine.request("true", &[]);
        request.arguments.push(std::ffi::OsString::from("zero\0byte"));
        let outcome = machine.sandbox.run(request).await.unwrap();
        assert!(matches!(outcome.ended, Ended::NotStarted { .. }), "{outcome:?}");
    }
}

#[tokio::test]
async fn a_server_talks_over_its_pipes_until_it_is_killed_or_dropped() {
    for machine in machines().await {
        let script = "while read line; do echo \"got $line\"; done; echo end; sleep 1000 & echo $! > pid; wait";
        let mut child = machine.sandbox.spawn(machine.request("sh", &["-c", script])).await.unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let mut stdout = tokio::io::BufReader::new(child.stdout.take().unwrap());
        for word in ["one", "two"] {
            stdin.write_all(format!("{word}\n").as_bytes()).await.unwrap();
            let mut line = String::new();
            stdout.read_line(&mut line).await.unwrap();
            assert_eq!(line, format!("got {word}\n"));
        }
        drop(stdin);
        let mut line = String::new();
        stdout.read_line(&mut line).await.unwrap();
        assert_eq!(line, "end\n");
        child.kill();
        assert_eq!(child.wait().await, Ended::Stopped, "{}", child.tier());
        assert_eq!(child.wait().await, Ended::Stopped);
        // Its pipe ends because nobody holds it any more.
        line.clear();
        assert_eq!(stdout.read_line(&mut line).await.unwrap(), 0);

        let mut child =
            machine.sandbox.spawn(machine.request("sh", &["-c", "setsid sleep 1000 & echo up; wait"])).await.unwrap();
        let mut stdout = child.stdout.take().unwrap();
        assert_eq!(stdout.read(&mut [0; 8]).await.unwrap(), 3);
        drop(child);
        assert_eq!(stdout.read(&mut [0; 8]).await.unwrap(), 0);
    }
}

#[tokio::test]
async fn a_dropped_run_ends() {
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
        // Its end of the pipe is let go of, although it left every group and session.
        assert_eq!(read(gate).await.1, b"");
    }
}

#[tokio::test]
async fn many_runs_at_once_do_not_meet() {
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
async fn the_network_is_the_proxys_socket_or_nothing() {
    for machine in machines().await {
        let directory = machine.root.path().join("data/proxy");
        std::fs::create_dir(&directory).unwrap();
        std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o700)).unwrap();
        let path = directory.join("socket");
        let listener = tokio::net::UnixListener::bind(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let proxy = tokio::spawn(async move {
            loop {
                let (mut connection, _) = listener.accept().await.unwrap();
                let mut bytes = vec![0; 4096];
                let length = connection.read(&mut bytes).await.unwrap();
                let first = String::from_utf8_lossy(&bytes[..length]).lines().next().unwrap_or_default().to_owned();
                let answer =
                    format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{first}", first.len());
                connection.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        let script = "import urllib.request; print(urllib.request.urlopen('http://example.com/page').read().decode())";
        let mut request = machine.request("/usr/bin/python3", &["-c", script]);
        request.proxy_socket = Some(path.clone());
        let error = machine.sandbox.run(request.clone()).await.unwrap_err();
        assert!(matches!(error, SandboxError::NetworkForbidden), "{error:?}");
        machine.sandbox.set_policy(Policy { network: true, ..machine.sandbox.policy() });
        match (machine.sandbox.policy().backend, machine.sandbox.run(request.clone()).await) {
            (Backend::Landlock, answer) => assert!(matches!(answer, Err(SandboxError::NetworkUnsupported { .. }))),
            (_, answer) => {
                let outcome = answer.unwrap();
                assert_eq!(outcome.stdout.to_text(), "GET http://example.com/page HTTP/1.1\n", "{outcome:?}");
            }
        }
        // A request that does not ask has no way out, whatever the policy says.
        if machine.sandbox.policy().backend != Backend::None {
            request.proxy_socket = None;
            assert!(!machine.sandbox.run(request).await.unwrap().ended.is_success());
        }
        proxy.abort();
    }
}

#[tokio::test]
async fn a_missing_tier_refuses_code_and_says_the_remedy() {
    // A binary that is no init fails every trial.
    let root = tempfile::tempdir().unwrap();
    let setup = SandboxSetup {
        spawner: Spawner::start().unwrap(),
        program: "/bin/false".into(),
        init_arguments: Vec::new(),
        state_directory: root.path().join("sandbox"),
        data_directory: root.path().to_owned(),
    };
    let sandbox = Sandbox::new(setup, Policy::default()).unwrap();
    assert_eq!(sandbox.known_status(), None);
    let error = sandbox.run(RunRequest::new("true", [""; 0])).await.unwrap_err();
    assert!(matches!(error, SandboxError::Unavailable { .. }), "{error:?}");
    let status = sandbox.known_status().unwrap();
    assert_eq!((status.tier, status.attempts.len()), (None, 2));
    assert!(status.remedy.is_some() && error.to_string().contains(&status.remedy.unwrap()));
}

#[tokio::test]
async fn nothing_is_left_behind() {
    for machine in machines().await {
        machine.shell("true").await;
        let count = || {
            let state = machine.root.path().join("data/sandbox");
            let names = std::fs::read_dir(state)
                .unwrap()
                .flatten()
                .filter(|entry| !entry.file_name().to_string_lossy().starts_with("etc-"));
            let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap().lines().count();
            (names.count(), mounts)
        };
        let before = count();
        for number in 0..25 {
            let script = if number % 2 == 0 { "true" } else { "setsid sleep 1000 & echo $TMPDIR; exit 1" };
            machine.shell(script).await;
        }
        assert_eq!(count(), before);
    }
}
