//! A Python program that finds some names defined and leaves an answer.

use std::path::PathBuf;
use std::time::Duration;

use agentd_base::Entropy;
use agentd_sandbox::RunRequest;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::runner::CodeError;
use super::{CodeRunner, READ_BYTES};
use crate::workspaces::UntrustedSource;

/// Runs the program and writes the answer behind everything else.
const DRIVER: &str = include_str!("driver.py");
/// Of what went wrong, the end, where Python says it.
const SHOWN_ERROR_CHARACTERS: usize = 2_000;

/// How much of what a program leaves is read.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    /// Of the result as JSON.
    answer_bytes: usize,
    printed_characters: usize,
    /// Of all output; whatever is printed, at least the answer must be left of it.
    kept_bytes: usize,
}

impl Bounds {
    const SHORT: Self = Self { answer_bytes: 120 << 10, printed_characters: 64 << 10, kept_bytes: 256 << 10 };
    /// Both together are less than a program may write.
    const LONG: Self = Self { answer_bytes: 8 << 20, printed_characters: 1 << 20, kept_bytes: READ_BYTES };
}

/// A program and what it gets.
#[derive(Debug, Clone)]
pub struct PythonJob {
    pub source: String,
    /// What the program finds defined.
    pub globals: Map<String, Value>,
    /// Which of them a function `run` is called with, where the program has one and sets no `result`.
    pub argument: &'static str,
    pub timeout: Duration,
    /// The folder that it works in and may change; without one a temporary directory.
    pub workspace: Option<PathBuf>,
    /// Records text of others that the program can have read.
    pub untrusted: UntrustedSource,
}

/// What a program left.
#[derive(Debug, Clone)]
pub struct PythonAnswer {
    /// Whether there is a result.
    pub answered: bool,
    pub result: Value,
    pub printed: String,
}

/// Why a program left nothing, and what it had printed by then.
#[derive(Debug, thiserror::Error)]
pub enum PythonError {
    #[error("the program did not end within {} seconds", limit.as_secs())]
    TimedOut { limit: Duration, printed: String },
    /// It ended with an error of its own.
    #[error("the program {ended}{}{stderr}", if stderr.is_empty() { "" } else { ": " })]
    Failed { ended: String, stderr: String, printed: String },
    #[error("{problem}")]
    NoAnswer { problem: String, printed: String },
    /// It did not run.
    #[error(transparent)]
    NotRun(#[from] CodeError),
}

impl PythonError {
    /// What was printed before it went wrong.
    #[must_use]
    pub fn printed(&self) -> &str {
        match self {
            Self::TimedOut { printed, .. } | Self::Failed { printed, .. } | Self::NoAnswer { printed, .. } => printed,
            Self::NotRun(_) => "",
        }
    }
}

/// What the driver says behind the mark.
#[derive(Deserialize)]
#[serde(untagged)]
enum Answer {
    Problem { problem: String },
    Given { answered: bool, result: Value },
}

impl CodeRunner {
    /// Runs a program in the sandbox.
    ///
    /// # Errors
    /// There is no sandbox, the time was over, or the program failed.
    pub async fn run_python(
        &self,
        entropy: &Entropy,
        job: PythonJob,
        cancelled: &CancellationToken,
    ) -> Result<PythonAnswer, PythonError> {
        self.run_python_within(Bounds::SHORT, entropy, job, cancelled).await
    }

    /// The same for who keeps long results: one of up to 8 MiB is read.
    ///
    /// # Errors
    /// As [`Self::run_python`].
    pub(crate) async fn run_python_at_length(
        &self,
        entropy: &Entropy,
        job: PythonJob,
        cancelled: &CancellationToken,
    ) -> Result<PythonAnswer, PythonError> {
        self.run_python_within(Bounds::LONG, entropy, job, cancelled).await
    }

    async fn run_python_within(
        &self,
        bounds: Bounds,
        entropy: &Entropy,
        job: PythonJob,
        cancelled: &CancellationToken,
    ) -> Result<PythonAnswer, PythonError> {
        // Unknown to the program until it runs, so that nothing printed by accident looks like it.
        let mark = hex::encode(entropy.bytes::<16>());
        let mut request = RunRequest::new("python3", ["-c", DRIVER]);
        let remedy = match &job.workspace {
            Some(_) => "hand back less, or write it to a file in the working directory and hand back its name",
            None => "hand back less",
        };
        let given = json!({
            "source": job.source,
            "globals": job.globals,
            "argument": job.argument,
            "mark": mark,
            "most": bounds.answer_bytes,
            "most_printed": bounds.printed_characters,
            "remedy": remedy,
        });
        request.stdin = given.to_string().into_bytes();
        request.limits.kept_bytes = bounds.kept_bytes;
        request.limits.time = Some(job.timeout);
        let outcome = self.run(request, job.workspace.as_deref(), cancelled, &job.untrusted).await?;
        let printed = outcome.output_before(&mark);
        if outcome.is_timeout() {
            return Err(PythonError::TimedOut { limit: job.timeout, printed });
        }
        if !outcome.is_success() {
            let stderr = outcome.stderr();
            let skipped = stderr.chars().count().saturating_sub(SHOWN_ERROR_CHARACTERS);
            let shown: String = stderr.chars().skip(skipped).collect();
            return Err(PythonError::Failed { ended: outcome.ended(), stderr: shown.trim().to_owned(), printed });
        }
        let problem = |problem: String, printed| Err(PythonError::NoAnswer { problem, printed });
        let Some(answer) = outcome.output_behind(&mark) else {
            return problem("the program ended before it left a result".to_owned(), printed);
        };
        match serde_json::from_str(&answer) {
            Ok(Answer::Given { answered, result }) => Ok(PythonAnswer { answered, result, printed }),
            Ok(Answer::Problem { problem: said }) => problem(said, printed),
            Err(error) => problem(format!("the result cannot be read: {error}"), printed),
        }
    }
}
