//! Keeps one inference process: there while it is needed, replaced when it fails.
//!
//! States: no process; a process without work (ends after `idle_unload`); a process with work (is
//! killed after `stall_timeout` of silence); waiting to restart. The first failure is followed by a
//! restart at the next request; after further ones in a row, requests are refused until the backoff
//! has passed. A finished request ends the row.
//!
//! Whose requests they are, and that each of them ends, is the caller's business.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use agentd_base::{Backoff, Entropy};
use agentd_process::Spawner;
use tokio::time::Instant;

use crate::child::process::Process;
use crate::protocol::{FromWorker, ProtocolError, ToWorker};
use crate::{LocalError, LocalErrorCode};

/// Stands for "no deadline"; the timer wakes up in vain once in a while.
const NEVER: Duration = Duration::from_secs(24 * 60 * 60);

/// How the process is run.
#[derive(Debug, Clone)]
pub(crate) struct KeeperOptions {
    /// What it holds, as it stands in sentences, such as "the model inside".
    pub(crate) name: &'static str,
    pub(crate) worker_command: (PathBuf, Vec<OsString>),
    pub(crate) spawner: Spawner,
    pub(crate) entropy: Entropy,
    pub(crate) idle_unload: Duration,
    pub(crate) stall_timeout: Duration,
    pub(crate) restart_backoff: Backoff,
}

/// What the pipe or the clock had to say; not yet acted on.
pub(crate) enum Observed {
    Frame(Option<Result<FromWorker, ProtocolError>>),
    Deadline,
}

/// What that meant.
pub(crate) enum Happened {
    Frame(FromWorker),
    /// There is no process any more, for this reason. No request that it had will be answered.
    Lost(String),
    /// It was idle and was ended.
    Unloaded,
    Nothing,
}

#[derive(Debug)]
pub(crate) struct Keeper {
    options: KeeperOptions,
    process: Option<Process>,
    /// Of the last frame, or of the first request after idling.
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

    /// Why there is no process, after a failure.
    pub(crate) fn last_failure(&self) -> &str {
        &self.last_failure
    }

    /// Waits for a frame or for the end of patience. Cancel-safe; what comes goes to [`Self::classify`].
    pub(crate) async fn observe(&mut self, has_work: bool) -> Observed {
        let deadline = self.last_activity + self.patience(has_work);
        let frame = async {
            match &mut self.process {
                Some(process) => process.next_frame().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // Frames first: a deadline must not win over an answer that is there.
            biased;
            frame = frame => Observed::Frame(frame),
            () = tokio::time::sleep_until(deadline) => Observed::Deadline,
        }
    }

    /// Acts on what was observed. Not cancel-safe.
    pub(crate) async fn classify(&mut self, observed: Observed, has_work: bool) -> Happened {
        match observed {
            Observed::Frame(Some(Ok(frame))) => {
                self.last_activity = Instant::now();
                Happened::Frame(frame)
            }
            Observed::Frame(Some(Err(error))) => {
                self.lose(Some(format!("it sent something that is no answer: {error}"))).await
            }
            Observed::Frame(None) => self.lose(None).await,
            Observed::Deadline if self.last_activity + self.patience(has_work) > Instant::now() => Happened::Nothing,
            Observed::Deadline if has_work => {
                let seconds = self.options.stall_timeout.as_secs_f64();
                self.lose(Some(format!("it said nothing for {seconds} s and was ended"))).await
            }
            Observed::Deadline => {
                self.last_activity = Instant::now();
                if self.end().await { Happened::Unloaded } else { Happened::Nothing }
            }
        }
    }

    fn patience(&self, has_work: bool) -> Duration {
        match (&self.process, has_work) {
            (None, _) => NEVER,
            (Some(_), false) => self.options.idle_unload,
            (Some(_), true) => self.options.stall_timeout,
        }
    }

    /// Starts a process if there is none, and says whether it did.
    ///
    /// # Errors
    /// It cannot be started, or failed too often to be tried again already.
    pub(crate) async fn start(&mut self, configuration: ToWorker) -> Result<bool, LocalError> {
        if self.process.is_some() {
            return Ok(false);
        }
        let now = Instant::now();
        if now < self.restart_at {
            return Err(LocalError::new(
                LocalErrorCode::Unavailable,
                format!(
                    "{} failed {} times in a row and is tried again in {} s; the last time: {}",
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
                tracing::info!(pid = process.pid(), "the inference process for {} was started", self.options.name);
                self.process = Some(process);
                self.last_activity = Instant::now();
                Ok(true)
            }
            Err(error) => {
                let source = std::error::Error::source(&error).map(|source| format!(": {source}"));
                let message = format!("the inference process is not there: {error}{}", source.unwrap_or_default());
                self.note_failure(&message);
                Err(LocalError::new(LocalErrorCode::Unavailable, message))
            }
        }
    }

    /// False when the process does not take what it is sent, or is not there.
    pub(crate) fn send(&self, frame: ToWorker) -> bool {
        self.process.as_ref().is_some_and(|process| process.send(frame))
    }

    /// Work begins after a time without any: silence counts from now.
    pub(crate) fn begin_work(&mut self) {
        self.last_activity = Instant::now();
    }

    /// A request was answered: earlier failures no longer count.
    pub(crate) fn succeeded(&mut self) {
        self.failures_in_a_row = 0;
    }

    /// Ends the process, and says whether there was one.
    pub(crate) async fn end(&mut self) -> bool {
        let Some(process) = self.process.take() else { return false };
        let outcome = process.end().await;
        tracing::info!(%outcome, "the inference process for {} ended and gave its memory back", self.options.name);
        true
    }

    /// The process is lost. `why` is `None` when it ended by itself.
    async fn lose(&mut self, why: Option<String>) -> Happened {
        let Some(process) = self.process.take() else { return Happened::Nothing };
        let (why, (outcome, last_words)) = match why {
            Some(why) => (Some(why), process.kill().await),
            None => (None, process.collect().await),
        };
        let mut message = match why {
            Some(why) => format!("the inference process failed: {why}"),
            None => format!("the inference process {outcome}"),
        };
        if let Some(words) = last_words {
            message = format!("{message}; its last words: {words}");
        }
        self.note_failure(&message);
        Happened::Lost(message)
    }

    fn note_failure(&mut self, message: &str) {
        tracing::warn!(message, "{} is not available", self.options.name);
        self.failures_in_a_row = self.failures_in_a_row.saturating_add(1);
        message.clone_into(&mut self.last_failure);
        // One failure alone may be an accident: the next request tries again at once.
        self.restart_at = Instant::now();
        if self.failures_in_a_row > 1 {
            let unit = self.options.entropy.unit();
            self.restart_at += self.options.restart_backoff.delay(self.failures_in_a_row - 1, unit);
        }
    }
}
