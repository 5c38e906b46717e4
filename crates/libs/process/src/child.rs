//! A running child, and how it ended.

use std::io;

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::net::unix::pipe;
use tokio::sync::watch;

use crate::Spawner;
use crate::thread::Spawned;

/// How a child ended. Both are `None` when the system no longer knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExitOutcome {
    /// What it returned.
    pub code: Option<i32>,
    /// What killed it.
    pub signal: Option<i32>,
}

impl std::fmt::Display for ExitOutcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "ended with code {code}"),
            (None, Some(signal)) => write!(f, "was ended by signal {signal}"),
            (None, None) => f.write_str("ended"),
        }
    }
}

/// Shared by the child's handle and the thread that reaps it.
#[derive(Debug)]
pub(crate) struct Exit {
    /// The group's id, until the leader is reaped: from then on the number may belong to others.
    group: Mutex<Option<Pid>>,
    outcome: watch::Sender<Option<ExitOutcome>>,
}

impl Exit {
    pub(crate) fn new(leader: Pid) -> Self {
        Self { group: Mutex::new(Some(leader)), outcome: watch::Sender::new(None) }
    }

    pub(crate) fn kill_group(&self) {
        self.signal_group(Signal::KILL);
    }

    fn signal_group(&self, signal: Signal) {
        if let Some(group) = *self.group.lock() {
            // It fails only when the whole group has ended.
            let _ = kill_process_group(group, signal);
        }
    }

    /// The leader has ended and is not reaped yet: ends the rest of its group, then reaps it.
    pub(crate) fn finish(&self, reap: impl FnOnce() -> ExitOutcome) {
        let mut group = self.group.lock();
        if let Some(group) = group.take() {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let outcome = reap();
        drop(group);
        self.outcome.send_replace(Some(outcome));
    }
}

/// A child process. Dropping it kills it and its group.
#[derive(Debug)]
pub struct Child {
    pid: u32,
    exit: std::sync::Arc<Exit>,
    /// Writes to the child; taking and dropping it closes the child's standard input.
    pub stdin: Option<pipe::Sender>,
    pub stdout: Option<pipe::Receiver>,
    pub stderr: Option<pipe::Receiver>,
    /// Keeps the thread that started the child: the child dies with it.
    _spawner: Spawner,
}

impl Child {
    pub(crate) fn new(spawner: Spawner, spawned: Spawned) -> io::Result<Self> {
        let Spawned { pid, exit, stdin, stdout, stderr } = spawned;
        let mut child = Self { pid, exit, stdin: None, stdout: None, stderr: None, _spawner: spawner };
        child.stdin = stdin.map(pipe::Sender::from_owned_fd).transpose()?;
        child.stdout = stdout.map(pipe::Receiver::from_owned_fd).transpose()?;
        child.stderr = stderr.map(pipe::Receiver::from_owned_fd).transpose()?;
        Ok(child)
    }

    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Kills the whole group at once. Harmless when it has ended.
    pub fn kill(&self) {
        self.exit.kill_group();
    }

    /// Asks the whole group to end. Harmless when it has ended.
    pub fn terminate(&self) {
        self.exit.signal_group(Signal::TERM);
    }

    /// Waits for the child's end. Cancel-safe, and may be called again.
    pub async fn wait(&self) -> ExitOutcome {
        let mut outcome = self.exit.outcome.subscribe();
        let ended = outcome.wait_for(Option::is_some).await;
        // The sender lives in `self.exit`, so it cannot be gone.
        ended.ok().and_then(|outcome| *outcome).unwrap_or(ExitOutcome { code: None, signal: None })
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.exit.kill_group();
    }
}
