//! Running child process.

use std::io;
use std::sync::Arc;

use rustix::process::Signal;
use tokio::net::unix::pipe;

use crate::exit::{Exit, ExitOutcome};
use crate::thread::{Handle, Spawned};

/// A child process. Dropping it kills it and its group.
#[derive(Debug)]
pub struct Child {
    pid: u32,
    exit: Arc<Exit>,
    /// Child's standard input, if piped; dropping it closes the input.
    pub stdin: Option<pipe::Sender>,
    pub stdout: Option<pipe::Receiver>,
    pub stderr: Option<pipe::Receiver>,
    /// Keeps the spawner thread alive, since the child dies with it.
    _thread: Arc<Handle>,
}

impl Child {
    pub(crate) fn new(thread: Arc<Handle>, spawned: Spawned) -> io::Result<Self> {
        let Spawned { pid, exit, stdin, stdout, stderr } = spawned;
        let mut child = Self { pid, exit, stdin: None, stdout: None, stderr: None, _thread: thread };
        child.stdin = stdin.map(pipe::Sender::from_owned_fd).transpose()?;
        child.stdout = stdout.map(pipe::Receiver::from_owned_fd).transpose()?;
        child.stderr = stderr.map(pipe::Receiver::from_owned_fd).transpose()?;
        Ok(child)
    }

    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Kills the whole process group. No effect if it has ended.
    pub fn kill(&self) {
        self.exit.kill_group();
    }

    /// Sends SIGTERM to the whole process group. No effect if it has ended.
    pub fn terminate(&self) {
        self.exit.signal_group(Signal::TERM);
    }

    /// Waits for the child's end. Cancel-safe; may be called repeatedly.
    pub async fn wait(&self) -> ExitOutcome {
        self.exit.wait().await
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.exit.kill_group();
    }
}
