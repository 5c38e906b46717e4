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

/// State letter of a process (`Z` is a zombie); `None` when there is none.
fn state(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(") ").next()?.chars().next()
}

#[tokio::test]
async fn a_child_answers_through_its_pipes_and_is_reaped() {
    let spawner = Spawner::start().unwrap();
    let mut child = spawner.spawn(shell("read line; echo \"got $line\"; exit 7")).await.unwrap();
    child.stdin.take().unwrap().write_all(b"hello\n").await.unwrap();
    assert_eq!(output(&mut child).await, "got hello\n");
    assert_eq!(child.wait().await, ExitOutcome { code: Some(7), signal: None });
    assert_eq!(child.wait().await.to_string(), "ended with code 7");
    assert_eq!(state(child.pid()), None);
}

#[tokio::test]
async fn the_environment_is_what_was_named_and_no_descriptor_leaks() {
    let spawner = Spawner::start().unwrap();
    // A descriptor without close-on-exec, as a careless library would open it.
    let leaky = rustix::io::dup(std::fs::File::open("/dev/null").unwrap()).unwrap();
    let number = std::os::fd::AsRawFd::as_raw_fd(&leaky);
    let mut request = shell(&format!("[ -e /proc/$$/fd/{number} ] && echo LEAKED; exec /usr/bin/env"));
    request.environment.push(("ONLY".into(), "this".into()));
    let mut child = spawner.spawn(request).await.unwrap();
    let text = output(&mut child).await;
    drop(leaky);
    // The shell itself adds PWD and the like.
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("PWD=") && !line.starts_with('_')).collect();
    let lines: Vec<&str> =
        lines.into_iter().filter(|line| !line.starts_with("OLDPWD") && !line.starts_with("SHLVL")).collect();
    assert_eq!(lines, ["ONLY=this"]);
}

#[tokio::test]
async fn killing_takes_the_whole_group() {
    let spawner = Spawner::start().unwrap();
    let mut child = spawner.spawn(shell("sleep 1000 & echo $!; wait")).await.unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut line = vec![0; 32];
    let length = stdout.read(&mut line).await.unwrap();
    let grandchild: u32 = String::from_utf8_lossy(&line[..length]).trim().parse().unwrap();
    assert!(state(grandchild).is_some());
    child.kill();
    assert_eq!(child.wait().await.signal, Some(9));
    // The pipe ends when the grandchild, its last holder, is gone.
    assert_eq!(stdout.read(&mut line).await.unwrap(), 0);
}

#[tokio::test]
async fn what_a_leader_leaves_behind_ends_with_it() {
    let spawner = Spawner::start().unwrap();
    let mut child = spawner.spawn(shell("sleep 1000 & exit 0")).await.unwrap();
    assert_eq!(child.wait().await.code, Some(0));
    assert_eq!(output(&mut child).await, "");
}

#[tokio::test]
async fn a_dropped_child_is_killed() {
    let spawner = Spawner::start().unwrap();
    let mut child = spawner.spawn(shell("exec sleep 1000")).await.unwrap();
    let mut stdout = child.stdout.take().unwrap();
    drop(child);
    assert_eq!(stdout.read(&mut [0; 1]).await.unwrap(), 0);
}

#[tokio::test]
async fn a_child_outlives_the_last_spawner_until_it_is_dropped() {
    let spawner = Spawner::start().unwrap();
    let mut child = spawner.spawn(shell("read line; echo \"still $line\"")).await.unwrap();
    drop(spawner);
    child.stdin.take().unwrap().write_all(b"here\n").await.unwrap();
    assert_eq!(output(&mut child).await, "still here\n");
    assert_eq!(child.wait().await.code, Some(0));
}

#[tokio::test]
async fn a_missing_program_is_an_error_with_its_cause() {
    let spawner = Spawner::start().unwrap();
    let error = spawner.spawn(SpawnRequest::new("/nonexistent/program")).await.unwrap_err();
    assert_eq!(error.to_string(), "`/nonexistent/program` could not be started");
    let source = std::error::Error::source(&error).unwrap();
    assert_eq!(source.downcast_ref::<std::io::Error>().unwrap().kind(), std::io::ErrorKind::NotFound);
}

#[tokio::test]
async fn many_children_at_once_each_get_their_own_end() {
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
async fn a_named_descriptor_reaches_the_program_under_its_number() {
    let spawner = Spawner::start().unwrap();
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    rustix::io::write(&writer, b"through\n").unwrap();
    drop(writer);
    let mut request = shell(&format!("exec cat <&{}", std::os::fd::AsRawFd::as_raw_fd(&reader)));
    request.descriptors.push(Arc::new(reader));
    // dash takes descriptor numbers of one digit alone.
    request.program = "/bin/bash".into();
    let mut child = spawner.spawn(request).await.unwrap();
    assert_eq!(output(&mut child).await, "through\n");
}

#[tokio::test]
#[allow(unsafe_code)]
async fn a_step_before_the_program_runs_in_the_child_and_its_error_is_the_spawns() {
    let spawner = Spawner::start().unwrap();
    let mut request = shell("umask");
    // SAFETY: one system call.
    request.before_exec = Some(unsafe {
        BeforeExec::new(|| {
            libc::umask(0o071);
            Ok(())
        })
    });
    let mut child = spawner.spawn(request.clone()).await.unwrap();
    assert_eq!(output(&mut child).await, "0071\n");
    // SAFETY: makes no call at all.
    request.before_exec = Some(unsafe { BeforeExec::new(|| Err(io::Error::from_raw_os_error(libc::EDOM))) });
    let error = spawner.spawn(request).await.unwrap_err();
    let source = std::error::Error::source(&error).unwrap();
    assert_eq!(source.downcast_ref::<io::Error>().unwrap().raw_os_error(), Some(libc::EDOM));
}
