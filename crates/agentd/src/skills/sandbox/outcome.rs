//! What a run left, as tools answer it.

use agentd_sandbox::{Captured, Ended, RunOutcome};
use serde_json::{Map, Value};

use crate::skills::tool::ToolOutput;

/// Of each stream as a result shows it; the middle of what is longer is left out, with a note.
const SHOWN_BYTES: usize = 48 * 1024;
/// Of each stream as it is read: all that a program may write, which is bounded where it runs.
pub(in crate::skills) const READ_BYTES: usize = 16 << 20;

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

    /// `{exit_code, stdout, stderr, ended}`, of each stream what fits into a result. Where that leaves
    /// something out, all that was read goes with it.
    #[must_use]
    pub fn into_output(self) -> ToolOutput {
        let RunOutcome { ended, stdout, stderr, .. } = self.0;
        let exit_code = match ended {
            Ended::Exited { code } => Value::from(code),
            _ => Value::Null,
        };
        let is_long = |stream: &Captured| stream.head.len() + stream.tail.len() > SHOWN_BYTES;
        let whole = (is_long(&stdout) || is_long(&stderr)).then(|| {
            let (stdout, stderr) = (stdout.to_text(), stderr.to_text());
            format!("ended: {ended}\nexit_code: {exit_code}\n\nstderr:\n{stderr}\n\nstdout:\n{stdout}\n")
        });
        let value = Map::from_iter([
            ("exit_code".to_owned(), exit_code),
            ("stdout".to_owned(), Value::from(stdout.shortened(SHOWN_BYTES).to_text())),
            ("stderr".to_owned(), Value::from(stderr.shortened(SHOWN_BYTES).to_text())),
            ("ended".to_owned(), Value::from(ended.to_string())),
        ]);
        ToolOutput { value, whole, whole_bytes: None }
    }
}
