//! Inference process, and the tasks that serve its pipes.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};
use tokio::net::unix::pipe;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::protocol::{self, FromWorker, ProtocolError, ToWorker};
use agentd_process::{Child, ExitOutcome, SpawnError, SpawnRequest, Spawner, Stream};

/// Maximum number of received frames that are buffered.
const MAX_FRAMES: usize = 64;
/// Maximum number of queued outgoing frames. The process reads continuously, so the queue only fills up when it hangs.
const MAX_WRITES: usize = 256;
/// Maximum length of a retained line of the process's log.
const MAX_LOG_LINE_BYTES: u64 = 4096;
const MAX_LOG_LINES: usize = 8;
/// Time limit for a requested exit before the process is killed.
const EXIT_GRACE: Duration = Duration::from_secs(2);

/// Last lines of the process's log, which explain a crash.
type LogTail = Arc<Mutex<VecDeque<String>>>;

#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    frames: mpsc::Receiver<Result<FromWorker, ProtocolError>>,
    /// `None` once the process was asked to exit.
    requests: Option<mpsc::Sender<ToWorker>>,
    log: LogTail,
    log_task: Option<JoinHandle<()>>,
}

impl Process {
    /// Starts the process and sends it `configuration`, which determines its task.
    pub(super) async fn start(
        spawner: &Spawner,
        (program, arguments): (PathBuf, Vec<OsString>),
        configuration: ToWorker,
    ) -> Result<Self, SpawnError> {
        let mut child = spawner
            .spawn(SpawnRequest {
                program,
                arguments,
                environment: vec![("OMP_WAIT_POLICY".into(), "passive".into())],
                stdin: Stream::Pipe,
                stdout: Stream::Pipe,
                stderr: Stream::Pipe,
                ..SpawnRequest::default()
            })
            .await?;
        let (frame_sender, frames) = mpsc::channel(MAX_FRAMES);
        if let Some(stdout) = child.stdout.take() {
            tokio::spawn(read_frames(stdout, frame_sender));
        }
        let (requests, request_receiver) = mpsc::channel(MAX_WRITES);
        if let Some(stdin) = child.stdin.take() {
            tokio::spawn(write_requests(stdin, request_receiver));
        }
        let log = LogTail::default();
        let log_task = child.stderr.take().map(|stderr| tokio::spawn(read_log(stderr, Arc::clone(&log))));
        let process = Self { child, frames, requests: Some(requests), log, log_task };
        // The channel is new and has capacity.
        let _ = process.send(configuration);
        Ok(process)
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Queues a frame; returns false if the queue is full or closed.
    pub(super) fn send(&self, frame: ToWorker) -> bool {
        self.requests.as_ref().is_some_and(|requests| requests.try_send(frame).is_ok())
    }

    /// Returns the next frame; `None` if the process closed its pipe. Cancel-safe.
    pub(super) async fn next_frame(&mut self) -> Option<Result<FromWorker, ProtocolError>> {
        self.frames.recv().await
    }

    /// Kills the process and returns its outcome and its last log lines.
    pub(super) async fn kill(mut self) -> (ExitOutcome, Option<String>) {
        self.child.kill();
        let outcome = self.child.wait().await;
        if let Some(task) = self.log_task.take() {
            // Ends by itself: the group is dead, so the pipe is closed.
            let _ = task.await;
        }
        let last = self.log.lock().iter().rev().find(|line| !line.is_empty()).cloned();
        (outcome, last)
    }

    /// Collects a process that closed its pipe. It may still be exiting, and its own exit status is more informative
    /// than a kill.
    pub(super) async fn collect(self) -> (ExitOutcome, Option<String>) {
        let _ = tokio::time::timeout(EXIT_GRACE, self.child.wait()).await;
        self.kill().await
    }

    /// Ends the process by closing its standard input, and kills it after a grace period.
    pub(super) async fn end(mut self) -> ExitOutcome {
        self.requests = None;
        match tokio::time::timeout(EXIT_GRACE, self.child.wait()).await {
            Ok(outcome) => outcome,
            Err(_) => self.kill().await.0,
        }
    }
}

async fn read_frames(stdout: pipe::Receiver, frames: mpsc::Sender<Result<FromWorker, ProtocolError>>) {
    let mut stdout = BufReader::new(stdout);
    loop {
        let frame = match protocol::read_frame_async(&mut stdout).await {
            Ok(Some(frame)) => Ok(frame),
            Ok(None) => return,
            Err(error) => Err(error),
        };
        let broken = frame.is_err();
        if frames.send(frame).await.is_err() || broken {
            return;
        }
    }
}

async fn write_requests(mut stdin: pipe::Sender, mut requests: mpsc::Receiver<ToWorker>) {
    while let Some(frame) = requests.recv().await {
        match protocol::write_frame_async(&mut stdin, &frame).await {
            Ok(()) => {}
            // The supervisor checked the size; other errors are detected by the reader.
            Err(error) => {
                tracing::debug!(%error, "failed to write request to inference process");
                return;
            }
        }
    }
}

/// Forwards the process's log, and retains its end.
async fn read_log(stderr: impl AsyncRead + Unpin, tail: LogTail) {
    let mut stderr = BufReader::new(stderr);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut stderr).take(MAX_LOG_LINE_BYTES).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(&line).trim().to_owned();
        tracing::debug!(target: "agentd_inference::engine", "{text}");
        let mut tail = tail.lock();
        if tail.len() == MAX_LOG_LINES {
            tail.pop_front();
        }
        tail.push_back(text);
    }
}

/// Returns the resident memory of a process; 0 if it does not exist. See `statm` in proc(5).
pub(crate) fn resident_bytes(pid: u32) -> u64 {
    let pages = std::fs::read_to_string(format!("/proc/{pid}/statm"))
        .ok()
        .and_then(|line| line.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()))
        .unwrap_or(0);
    pages.saturating_mul(u64::try_from(rustix::param::page_size()).unwrap_or(4096))
}
