use std::io;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

fn shell(script: &str) -> SpawnRequest {
    SpawnRequest {
        program: "/bin/sh".into(),
        arguments: vec!["-c".into(), script.into()],
        stdin: Stream::Pipe,
        stdout: Stream::Pipe,
        stderr: Stream::Pipe,
        ..SpawnRequest::default()
    }
}

async fn output(child: &mut Child) -> String {
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).await.unwrap();
    text
}

/// Returns the state letter of a process (`Z` is a zombie); `None` if it does not exist.
fn state(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(") ").next()?.chars().next()
}

#[tokio::test]
async fn child_uses_its_pipes_and_is_reaped() {
    let spawner = Spawner::start().unwrap();
    let mut child = spawner.spawn(shell("read line; echo \"got $line\"; exit 7")).await.unwrap();
    child.stdin.take().unwrap().write_all(b"hello\n").await.unwrap();
    assert_eq!(output(&mut child).await, "got hello\n");
    assert_eq!(child.wait().await, ExitOutcome { code: Some(7), signal: None });
    assert_eq!(child.wait().await.to_string(), "exited with code 7");
    assert_eq!(state(child.pid()), None);
}

#[tokio::test]
async fn child_sees_only_the_given_environment_and_descriptors() {
    let spawner = Spawner::start().unwrap();
    // A descriptor without close-on-exec, as opened by a careless library.
    let leaked = rustix::io::dup(std::fs::File::open("/dev/null").unwrap()).unwrap();
    let number = std::os::fd::AsRawFd::as_raw_fd(&leaked);
    let mut request = shell(&format!("[ -e /proc/$$/fd/{number} ] && echo LEAKED; exec /usr/bin/env"));
    request.environment.push(("ONLY".into(), "this".into()));
    let mut child = spawner.spawn(request).await.unwrap();
    let text = output(&mut child).await;
    drop(leaked);
    // The shell itself adds PWD and similar variables.
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("PWD=") && !line.starts_with('_')).collect();
    let lines: Vec<&str> =
        lines.into_iter().filter(|line| !line.starts_with("OLDPWD") && !line.starts_with("SHLVL")).collect();
    assert_eq!(lines, ["ONLY=this"]);
}

#[tokio::test]
async fn kill_ends_the_whole_group() {
    let spawner = Spawner::start().unwrap();
    let mut child = spawner.spawn(shell("sleep 1000 & echo $!; wait")).await.unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut line = vec![0; 32];
    let length = stdout.read(&mut line).await.unwrap();
    let grandchild: u32 = String::from_utf8_lossy(&line[..length]).trim().parse().unwrap();
    assert!(state(grandchild).is_some());
    child.kill();
    assert_eq!(child.wait().await.signal, Some(9));
    // The pipe ends when the grandchild, the last process that has it open, has ended.
    assert_eq!(stdout.read(&mut line).await.unwrap(), 0);
}

#[tokio::test]
async fn group_is_killed_when_its_leader_ends() {
    let spawner = Spawner::start().unwrap();
    let mut child = spawner.spawn(shell("sleep 1000 & exit 0")).await.unwrap();
    assert_eq!(child.wait().await.code, Some(0));
    assert_eq!(output(&mut child).await, "");
}

#[tokio::test]
async fn dropped_child_is_killed() {
    let spawner = Spawner::start().unwrap();
    let mut child = spawner.spawn(shell("exec sleep 1000")).await.unwrap();
    let mut stdout = child.stdout.take().unwrap();
    drop(child);
    assert_eq!(stdout.read(&mut [0; 1]).await.unwrap(), 0);
}

#[tokio::test]
async fn child_outlives_the_last_spawner() {
    let spawner = Spawner::start().unwrap();
    let mut child = spawner.spawn(shell("read line; echo \"still $line\"")).await.unwrap();
    drop(spawner);
    child.stdin.take().unwrap().write_all(b"here\n").await.unwrap();
    assert_eq!(output(&mut child).await, "still here\n");
    assert_eq!(child.wait().await.code, Some(0));
}

#[tokio::test]
async fn missing_program_is_an_error_with_source() {
    let spawner = Spawner::start().unwrap();
    let error = spawner.spawn(SpawnRequest::new("/nonexistent/program")).await.unwrap_err();
    assert_eq!(error.to_string(), "failed to start `/nonexistent/program`");
    let source = std::error::Error::source(&error).unwrap();
    assert_eq!(source.downcast_ref::<std::io::Error>().unwrap().kind(), std::io::ErrorKind::NotFound);
}

#[tokio::test]
async fn concurrent_children_have_separate_outcomes() {
    let spawner = Spawner::start().unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for code in 0..20 {
        let spawner = spawner.clone();
        tasks.spawn(async move {
            let child = spawner.spawn(shell(&format!("exit {code}"))).await.unwrap();
            (code, child.wait().await.code)
        });
    }
    while let Some(done) = tasks.join_next().await {
        let (code, got) = done.unwrap();
        assert_eq!(got, Some(code));
    }
}

#[tokio::test]
async fn inherited_descriptor_keeps_its_number() {
    let spawner = Spawner::start().unwrap();
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    rustix::io::write(&writer, b"through\n").unwrap();
    drop(writer);
    let mut request = shell(&format!("exec cat <&{}", std::os::fd::AsRawFd::as_raw_fd(&reader)));
    request.descriptors.push(Arc::new(reader));
    // dash supports only descriptor numbers of one digit.
    request.program = "/bin/bash".into();
    let mut child = spawner.spawn(request).await.unwrap();
    assert_eq!(output(&mut child).await, "through\n");
}

#[tokio::test]
#[allow(unsafe_code)]
async fn before_exec_runs_in_the_child_and_its_error_fails_the_spawn() {
    let spawner = Spawner::start().unwrap();
    let mut request = shell("umask");
    // SAFETY: a single system call.
    request.before_exec = Some(unsafe {
        BeforeExec::new(|| {
            libc::umask(0o071);
            Ok(())
        })
    });
    let mut child = spawner.spawn(request.clone()).await.unwrap();
    assert_eq!(output(&mut child).await, "0071\n");
    // SAFETY: makes no calls.
    request.before_exec = Some(unsafe { BeforeExec::new(|| Err(io::Error::from_raw_os_error(libc::EDOM))) });
    let error = spawner.spawn(request).await.unwrap_err();
    let source = std::error::Error::source(&error).unwrap();
    assert_eq!(source.downcast_ref::<io::Error>().unwrap().raw_os_error(), Some(libc::EDOM));
}
