//! Findings and their output.

use agentd_base::Timestamp;
use serde::Serialize;

use super::super::terminal::{Style, print_json, print_line};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Good,
    Warning,
    Broken,
}

#[derive(Debug, Serialize)]
struct Finding {
    check: &'static str,
    verdict: Verdict,
    /// Result of the check.
    finding: String,
    /// Suggested fix.
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct Report {
    findings: Vec<Finding>,
    /// Time of the last schema migration; the clock cannot be earlier.
    pub(super) not_before: Option<Timestamp>,
    /// Expected fingerprint of the key file, if the database has one.
    pub(super) key_fingerprint: Option<String>,
    /// Whether a database exists that is undamaged and has the schema of this program.
    pub(super) is_database_usable: bool,
}

impl Report {
    pub(super) fn good(&mut self, check: &'static str, finding: impl Into<String>) {
        self.findings.push(Finding { check, verdict: Verdict::Good, finding: finding.into(), remedy: None });
    }

    pub(super) fn warning(&mut self, check: &'static str, finding: impl Into<String>, remedy: impl Into<String>) {
        let (finding, remedy) = (finding.into(), Some(remedy.into()));
        self.findings.push(Finding { check, verdict: Verdict::Warning, finding, remedy });
    }

    pub(super) fn broken(&mut self, check: &'static str, finding: impl Into<String>, remedy: impl Into<String>) {
        let (finding, remedy) = (finding.into(), Some(remedy.into()));
        self.findings.push(Finding { check, verdict: Verdict::Broken, finding, remedy });
    }

    pub(super) fn is_broken(&self) -> bool {
        self.count(Verdict::Broken) > 0
    }

    fn count(&self, verdict: Verdict) -> usize {
        self.findings.iter().filter(|finding| finding.verdict == verdict).count()
    }

    pub(super) fn print(&self) {
        let style = Style::of_stdout();
        let width = self.findings.iter().map(|finding| finding.check.chars().count()).max().unwrap_or(0);
        for Finding { check, verdict, finding, remedy } in &self.findings {
            let mark = match verdict {
                Verdict::Good => style.green("✓"),
                Verdict::Warning => style.yellow("!"),
                Verdict::Broken => style.red("✗"),
            };
            print_line(mark.then(format_args!(" {check:<width$}  {finding}")));
            if let Some(remedy) = remedy {
                print_line(format_args!("  {:width$}  → {remedy}", ""));
            }
        }
        print_line("");
        print_line(match (self.count(Verdict::Broken), self.count(Verdict::Warning)) {
            (0, 0) => style.green("No problems found."),
            (0, warnings) => style.yellow(&format!("Warnings: {warnings}.")),
            (broken, _) => style.red(&format!("{broken} broken.")),
        });
    }

    pub(super) fn print_json(&self) {
        let is_healthy = !self.is_broken();
        let report = serde_json::json!({"healthy": is_healthy, "checks": self.findings});
        print_json(&report);
    }
}
