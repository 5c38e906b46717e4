use std::path::Path;

use agentd_sandbox::{Ended, Policy, SandboxError};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};

use crate::machine::{machines, text};

#[tokio::test]
async fn program_reads_input_and_writes_output() {
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
async fn interpreters_work() {
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
async fn only_listed_variables_are_inherited() {
    for machine in machines().await {
        let mut request = machine.request("env", &[]);
        request.environment = vec![("TOKEN".into(), "of the caller".into()), ("HOME".into(), "/elsewhere".into())];
        machine.sandbox.set_policy(Policy { env_allowlist: vec!["CARGO_PKG_NAME".into()], ..machine.sandbox.policy() });
        let outcome = machine.sandbox.run(request.clone()).await.unwrap();
        let text = outcome.stdout.to_text();
        let mut names: Vec<&str> = text.lines().filter_map(|line| line.split('=').next()).collect();
        names.sort_unstable();
        // Only cargo sets the last one, and not when the binary is run manually.
        names.retain(|name| *name != "CARGO_PKG_NAME");
        assert_eq!(names, ["HOME", "LANG", "PATH", "TMPDIR", "TOKEN"], "{text}");
        assert!(text.contains("HOME=/elsewhere"));
        request.environment = vec![("A=B".into(), "c".into())];
        assert!(matches!(machine.sandbox.run(request).await, Err(SandboxError::Variable { .. })));
    }
}

#[tokio::test]
async fn output_is_bounded_and_floods_end_the_run() {
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
async fn missing_program_is_an_outcome() {
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
async fn server_uses_its_pipes_until_it_is_killed_or_dropped() {
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
        // Its pipe ends because no process has it open.
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
