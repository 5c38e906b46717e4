//! What a run left, as tools answer it.

use agentd_sandbox::{Ended, RunOutcome};
use serde_json::{Map, Value};

/// How code ended, and what it wrote.
#[derive(Debug)]
pub struct CodeOutcome(RunOutcome);

impl CodeOutcome {
    pub(super) fn new(outcome: RunOutcome) -> Self {
        Self(outcome)
    }

    #[must_use]
    pub fn is_success(&self) -> bool {
        self.0.ended.is_success()
    }

    /// Whether its time was over.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(self.0.ended, Ended::TimeLimit)
    }

    /// How it ended, in words.
    #[must_use]
    pub fn ended(&self) -> String {
        self.0.ended.to_string()
    }

    #[must_use]
    pub fn stderr(&self) -> String {
        self.0.stderr.to_text()
    }

    /// The output's end without a gap; `None` when it is no text.
    #[must_use]
    pub fn last_output(&self) -> Option<String> {
        let stdout = &self.0.stdout;
        let bytes = if stdout.omitted_bytes == 0 { &stdout.head } else { &stdout.tail };
        Some(String::from_utf8_lossy(bytes).into_owned())
    }

    /// Whether there was more output than is kept.
    #[must_use]
    pub fn is_output_cut(&self) -> bool {
        self.0.stdout.omitted_bytes > 0
    }

    /// `{exit_code, stdout, stderr, ended}`.
    #[must_use]
    pub fn into_object(self) -> Map<String, Value> {
        let exit_code = match self.0.ended {
            Ended::Exited { code } => Value::from(code),
            _ => Value::Null,
        };
        Map::from_iter([
            ("exit_code".to_owned(), exit_code),
            ("stdout".to_owned(), Value::from(self.0.stdout.to_text())),
            ("stderr".to_owned(), Value::from(self.0.stderr.to_text())),
            ("ended".to_owned(), Value::from(self.0.ended.to_string())),
        ])
    }
}
