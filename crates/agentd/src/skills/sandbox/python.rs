//! A Python program that finds some names defined and leaves an answer.

use std::path::PathBuf;
use std::time::Duration;

use agentd_base::Entropy;
use agentd_sandbox::RunRequest;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::CodeRunner;
use crate::skills::tool::ToolError;

/// Runs the program and writes the answer behind everything else.
const DRIVER: &str = include_str!("driver.py");
/// Of what went wrong, the end, where Python says it.
const SHOWN_ERROR_CHARACTERS: usize = 2_000;

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
}

/// What a program left.
#[derive(Debug, Clone, Deserialize)]
pub struct PythonAnswer {
    /// Whether there is a result.
    pub answered: bool,
    pub result: Value,
    pub printed: String,
}

/// Why a program left nothing.
#[derive(Debug, thiserror::Error)]
pub enum PythonError {
    #[error("the program did not end within {} seconds", .0.as_secs())]
    TimedOut(Duration),
    /// It ended with an error of its own.
    #[error("the program {ended}: {stderr}")]
    Failed { ended: String, stderr: String },
    #[error("the program ended before it could leave its answer")]
    NoAnswer,
    #[error("the program's answer is too long to be kept; let it answer less, or write to a file")]
    AnswerTooLong,
    /// It did not run.
    #[error(transparent)]
    NotRun(#[from] ToolError),
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
        // Unknown to the program until it runs, so that nothing printed by accident looks like it.
        let mark = hex::encode(entropy.bytes::<16>());
        let mut request = RunRequest::new("python3", ["-c", DRIVER]);
        let given = json!({"source": job.source, "globals": job.globals, "argument": job.argument, "mark": mark});
        request.stdin = given.to_string().into_bytes();
        request.limits.time = Some(job.timeout);
        let outcome = self.run_in(request, job.workspace.as_deref(), cancelled).await?;
        if outcome.is_timeout() {
            return Err(PythonError::TimedOut(job.timeout));
        }
        if !outcome.is_success() {
            let stderr = outcome.stderr();
            let skipped = stderr.chars().count().saturating_sub(SHOWN_ERROR_CHARACTERS);
            let shown: String = stderr.chars().skip(skipped).collect();
            return Err(PythonError::Failed { ended: outcome.ended(), stderr: shown.trim().to_owned() });
        }
        let none = || if outcome.is_output_cut() { PythonError::AnswerTooLong } else { PythonError::NoAnswer };
        outcome.last_output().and_then(|output| answer_in(&output, &mark)).ok_or_else(none)
    }
}

fn answer_in(output: &str, mark: &str) -> Option<PythonAnswer> {
    let (_, answer) = output.rsplit_once(mark)?;
    serde_json::from_str(answer).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_found_behind_what_was_printed() {
        let found = answer_in("noise\nabc{\"answered\":true,\"result\":[1],\"printed\":\"\"}\n", "abc").unwrap();
        assert_eq!((found.answered, found.result), (true, json!([1])));
        for bad in ["", "abc", "abc{", "x{\"answered\":true}"] {
            assert!(answer_in(bad, "abc").is_none());
        }
    }
}
