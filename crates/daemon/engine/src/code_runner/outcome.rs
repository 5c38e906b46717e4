//! What a run left, as tools answer it.

use agentd_sandbox::{Ended, RunOutcome};

/// Of each stream as it is read: all that a program may write, which is bounded where it runs.
pub(crate) const READ_BYTES: usize = 16 << 20;

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

    /// The output behind the last `mark`, where there is one and nothing behind it was left out.
    #[must_use]
    pub fn output_behind(&self, mark: &str) -> Option<String> {
        let stdout = &self.0.stdout;
        let bytes = if stdout.omitted_bytes == 0 { &stdout.head } else { &stdout.tail };
        String::from_utf8_lossy(bytes).rsplit_once(mark).map(|(_, behind)| behind.to_owned())
    }

    /// The output before the last `mark`, or all of it.
    #[must_use]
    pub fn output_before(&self, mark: &str) -> String {
        let output = self.0.stdout.to_text();
        output.rsplit_once(mark).map_or(output.as_str(), |(before, _)| before).to_owned()
    }

    /// What ran, as the sandbox tells it.
    pub(crate) fn into_run(self) -> RunOutcome {
        self.0
    }
}
