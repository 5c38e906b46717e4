//! Runs Python programs with predefined variables and returns their result.

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

/// Driver script that runs the program and writes the result after all other output.
const DRIVER: &str = include_str!("driver.py");
/// Maximum length of an error; the end is kept because Python reports the cause there.
const MAX_ERROR_CHARACTERS: usize = 2_000;

/// Limits for the output of a program.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    /// Maximum size of the result as JSON.
    answer_bytes: usize,
    printed_characters: usize,
    /// Maximum size of all output; must leave room for the result.
    kept_bytes: usize,
}

impl Bounds {
    const SHORT: Self = Self { answer_bytes: 120 << 10, printed_characters: 64 << 10, kept_bytes: 256 << 10 };
    /// The sum is below the maximum output of a program.
    const LONG: Self = Self { answer_bytes: 8 << 20, printed_characters: 1 << 20, kept_bytes: READ_BYTES };
}

/// A program with its input.
#[derive(Debug, Clone)]
pub struct PythonJob {
    pub source: String,
    /// Global variables of the program.
    pub globals: Map<String, Value>,
    /// Global that is passed to a function `run`, if the program defines one and sets no `result`.
    pub argument: &'static str,
    pub timeout: Duration,
    /// Working directory with write access; a temporary directory if `None`.
    pub workspace: Option<PathBuf>,
    /// Records untrusted text that the program may have read.
    pub untrusted: UntrustedSource,
}

/// Result of a program.
#[derive(Debug, Clone)]
pub struct PythonAnswer {
    /// Whether the program provided a result.
    pub answered: bool,
    pub result: Value,
    pub printed: String,
}

/// Error of a program, with its output so far.
#[derive(Debug, thiserror::Error)]
pub enum PythonError {
    #[error("the program did not end within {} seconds", limit.as_secs())]
    TimedOut { limit: Duration, printed: String },
    /// The program failed.
    #[error("the program {ended}{}{stderr}", if stderr.is_empty() { "" } else { ": " })]
    Failed { ended: String, stderr: String, printed: String },
    #[error("{problem}")]
    NoAnswer { problem: String, printed: String },
    /// The program did not run.
    #[error(transparent)]
    NotRun(#[from] CodeError),
}

impl PythonError {
    /// Returns the output before the failure.
    #[must_use]
    pub fn printed(&self) -> &str {
        match self {
            Self::TimedOut { printed, .. } | Self::Failed { printed, .. } | Self::NoAnswer { printed, .. } => printed,
            Self::NotRun(_) => "",
        }
    }
}

/// Output of the driver after the mark.
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
    /// No sandbox is available, the time limit was exceeded, or the program failed.
    pub async fn run_python(
        &self,
        entropy: &Entropy,
        job: PythonJob,
        cancelled: &CancellationToken,
    ) -> Result<PythonAnswer, PythonError> {
        self.run_python_within(Bounds::SHORT, entropy, job, cancelled).await
    }

    /// Variant of [`Self::run_python`] that accepts results of up to 8 MiB.
    ///
    /// # Errors
    /// See [`Self::run_python`].
    pub(crate) async fn run_python_with_long_result(
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
        // Random, so that output of the program cannot imitate it by accident.
        let mark = hex::encode(entropy.bytes::<16>());
        let mut request = RunRequest::new("python3", ["-c", DRIVER]);
        let remedy = match &job.workspace {
            Some(_) => "return less, or write it to a file in the working directory and return its name",
            None => "return less",
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
            let skipped = stderr.chars().count().saturating_sub(MAX_ERROR_CHARACTERS);
            let shown: String = stderr.chars().skip(skipped).collect();
            return Err(PythonError::Failed { ended: outcome.ended(), stderr: shown.trim().to_owned(), printed });
        }
        let problem = |problem: String, printed| Err(PythonError::NoAnswer { problem, printed });
        let Some(answer) = outcome.output_after(&mark) else {
            return problem("the program ended without a result".to_owned(), printed);
        };
        match serde_json::from_str(&answer) {
            Ok(Answer::Given { answered, result }) => Ok(PythonAnswer { answered, result, printed }),
            Ok(Answer::Problem { problem: message }) => problem(message, printed),
            Err(error) => problem(format!("the result is not valid: {error}"), printed),
        }
    }
}
