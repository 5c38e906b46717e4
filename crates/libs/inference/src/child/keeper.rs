//! Supervision of one inference process: started on demand, replaced after a failure.
//!
//! States: no process; an idle process (ended after `idle_unload`); a busy process (killed after `stall_timeout`
//! without output); waiting to restart. After a first failure, the next request restarts the process. After further
//! consecutive failures, requests are refused until the backoff has passed. A finished request resets the count.
//!
//! Out of scope: the requests themselves, and their completion.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use agentd_base::{Backoff, Entropy};
use agentd_process::Spawner;
use tokio::time::Instant;

use crate::child::process::Process;
use crate::protocol::{FromWorker, ProtocolError, ToWorker};
use crate::{LocalError, LocalErrorCode};

/// Stands for "no deadline"; the timer fires without effect once in a while.
const NEVER: Duration = Duration::from_secs(24 * 60 * 60);

/// Configuration of the process.
#[derive(Debug, Clone)]
pub(crate) struct KeeperOptions {
    /// Name of the component for messages, such as "the built-in model".
    pub(crate) name: &'static str,
    pub(crate) worker_command: (PathBuf, Vec<OsString>),
    pub(crate) spawner: Spawner,
    pub(crate) entropy: Entropy,
    pub(crate) idle_unload: Duration,
    pub(crate) stall_timeout: Duration,
    pub(crate) restart_backoff: Backoff,
}

/// Observed input from the pipe or the clock, not yet handled.
pub(crate) enum Observed {
    Frame(Option<Result<FromWorker, ProtocolError>>),
    Deadline,
}

/// Result of handling an input.
pub(crate) enum ProcessEvent {
    Frame(FromWorker),
    /// The process is lost, for this reason. Its requests will not be answered.
    Lost(String),
    /// The process was idle and has been ended.
    Unloaded,
    Nothing,
}

#[derive(Debug)]
pub(crate) struct Keeper {
    options: KeeperOptions,
    process: Option<Process>,
    /// Time of the last frame, or of the first request after an idle period.
    last_activity: Instant,
    failures_in_a_row: u32,
    restart_at: Instant,
    last_failure: String,
}

impl Keeper {
    pub(crate) fn new(options: KeeperOptions) -> Self {
        let now = Instant::now();
        Self {
            options,
            process: None,
            last_activity: now,
            failures_in_a_row: 0,
            restart_at: now,
            last_failure: String::new(),
        }
    }

    pub(crate) fn process_id(&self) -> Option<u32> {
        self.process.as_ref().map(Process::pid)
    }

    /// Returns the reason for the last failure.
    pub(crate) fn last_failure(&self) -> &str {
        &self.last_failure
    }

    /// Waits for a frame or a timeout. Cancel-safe; the result must be passed to [`Self::classify`].
    pub(crate) async fn observe(&mut self, has_work: bool) -> Observed {
        let deadline = self.last_activity + self.timeout(has_work);
        let frame = async {
            match &mut self.process {
                Some(process) => process.next_frame().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // Frames first: a deadline must not take precedence over an available response.
            biased;
            frame = frame => Observed::Frame(frame),
            () = tokio::time::sleep_until(deadline) => Observed::Deadline,
        }
    }

    /// Handles the observed input. Not cancel-safe.
    pub(crate) async fn classify(&mut self, observed: Observed, has_work: bool) -> ProcessEvent {
        match observed {
            Observed::Frame(Some(Ok(frame))) => {
                self.last_activity = Instant::now();
                ProcessEvent::Frame(frame)
            }
            Observed::Frame(Some(Err(error))) => {
                self.handle_loss(Some(format!("it sent an invalid response: {error}"))).await
            }
            Observed::Frame(None) => self.handle_loss(None).await,
            Observed::Deadline if self.last_activity + self.timeout(has_work) > Instant::now() => ProcessEvent::Nothing,
            Observed::Deadline if has_work => {
                let seconds = self.options.stall_timeout.as_secs_f64();
                self.handle_loss(Some(format!("it did not respond for {seconds} s and was stopped"))).await
            }
            Observed::Deadline => {
                self.last_activity = Instant::now();
                if self.end().await { ProcessEvent::Unloaded } else { ProcessEvent::Nothing }
            }
        }
    }

    fn timeout(&self, has_work: bool) -> Duration {
        match (&self.process, has_work) {
            (None, _) => NEVER,
            (Some(_), false) => self.options.idle_unload,
            (Some(_), true) => self.options.stall_timeout,
        }
    }

    /// Starts a process if there is none; returns whether it did.
    ///
    /// # Errors
    /// Returns an error if the process cannot be started, or if the backoff after failures has not passed.
    pub(crate) async fn start(&mut self, configuration: ToWorker) -> Result<bool, LocalError> {
        if self.process.is_some() {
            return Ok(false);
        }
        let now = Instant::now();
        if now < self.restart_at {
            return Err(LocalError::new(
                LocalErrorCode::Unavailable,
                format!(
                    "{} failed {} times in a row; next attempt in {} s; last error: {}",
                    self.options.name,
                    self.failures_in_a_row,
                    (self.restart_at - now).as_secs() + 1,
                    self.last_failure
                ),
            ));
        }
        let KeeperOptions { spawner, worker_command, .. } = &self.options;
        match Process::start(spawner, worker_command.clone(), configuration).await {
            Ok(process) => {
                tracing::info!(model = self.options.name, pid = process.pid(), "inference process started");
                self.process = Some(process);
                self.last_activity = Instant::now();
                Ok(true)
            }
            Err(error) => {
                let source = std::error::Error::source(&error).map(|source| format!(": {source}"));
                let message = format!("failed to start the inference process: {error}{}", source.unwrap_or_default());
                self.record_failure(&message);
                Err(LocalError::new(LocalErrorCode::Unavailable, message))
            }
        }
    }

    /// Sends a frame; returns false if there is no process or it does not accept the frame.
    pub(crate) fn send(&self, frame: ToWorker) -> bool {
        self.process.as_ref().is_some_and(|process| process.send(frame))
    }

    /// Restarts the stall timeout when work begins after an idle period.
    pub(crate) fn begin_work(&mut self) {
        self.last_activity = Instant::now();
    }

    /// Resets the failure count after a completed request.
    pub(crate) fn succeeded(&mut self) {
        self.failures_in_a_row = 0;
    }

    /// Ends the process; returns whether there was one.
    pub(crate) async fn end(&mut self) -> bool {
        let Some(process) = self.process.take() else { return false };
        let outcome = process.end().await;
        tracing::info!(model = self.options.name, %outcome, "inference process ended");
        true
    }

    /// Handles the loss of the process. `why` is `None` if it ended by itself.
    async fn handle_loss(&mut self, why: Option<String>) -> ProcessEvent {
        let Some(process) = self.process.take() else { return ProcessEvent::Nothing };
        let (why, (outcome, last_log_lines)) = match why {
            Some(why) => (Some(why), process.kill().await),
            None => (None, process.collect().await),
        };
        let mut message = match why {
            Some(why) => format!("the inference process failed: {why}"),
            None => format!("the inference process {outcome}"),
        };
        if let Some(words) = last_log_lines {
            message = format!("{message}; last log lines: {words}");
        }
        self.record_failure(&message);
        ProcessEvent::Lost(message)
    }

    fn record_failure(&mut self, message: &str) {
        tracing::warn!(model = self.options.name, reason = message, "inference process failed");
        self.failures_in_a_row = self.failures_in_a_row.saturating_add(1);
        message.clone_into(&mut self.last_failure);
        // A single failure may be accidental: the next request retries immediately.
        self.restart_at = Instant::now();
        if self.failures_in_a_row > 1 {
            let unit = self.options.entropy.unit();
            self.restart_at += self.options.restart_backoff.delay(self.failures_in_a_row - 1, unit);
        }
    }
}
