//! Outcome of a run, as returned by tools.

use agentd_sandbox::{Ended, RunOutcome};

/// Maximum number of bytes read from each stream: everything that a program may write.
pub(crate) const READ_BYTES: usize = 16 << 20;

/// End and output of a run.
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

    /// Whether the run exceeded its time limit.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(self.0.ended, Ended::TimeLimit)
    }

    /// Describes how the run ended.
    #[must_use]
    pub fn ended(&self) -> String {
        self.0.ended.to_string()
    }

    #[must_use]
    pub fn stderr(&self) -> String {
        self.0.stderr.to_text()
    }

    /// Returns the output after the last `mark`, if there is one and nothing after it was omitted.
    #[must_use]
    pub fn output_after(&self, mark: &str) -> Option<String> {
        let stdout = &self.0.stdout;
        let bytes = if stdout.omitted_bytes == 0 { &stdout.head } else { &stdout.tail };
        String::from_utf8_lossy(bytes).rsplit_once(mark).map(|(_, behind)| behind.to_owned())
    }

    /// Returns the output before the last `mark`, or all of it.
    #[must_use]
    pub fn output_before(&self, mark: &str) -> String {
        let output = self.0.stdout.to_text();
        output.rsplit_once(mark).map_or(output.as_str(), |(before, _)| before).to_owned()
    }

    /// Returns the outcome of the sandbox.
    pub(crate) fn into_run(self) -> RunOutcome {
        self.0
    }
}
