//! Runs seeds in separate processes of this test binary. Parts of a daemon reference each other, so a daemon killed
//! in a
//! simulation frees its memory and open files only when its process exits.

#![allow(clippy::disallowed_methods, reason = "tests start processes")]

use std::path::Path;
use std::process::{Command, Stdio};

use agentd_store::testing::statements::{Alteration, alter_statements};
use serde::{Deserialize, Serialize};

use super::run::{Report, simulate};
use super::template::Template;

/// Environment variable with the batch as JSON.
const BATCH_VARIABLE: &str = "AGENTD_TEST_SIMULATION_BATCH";
const REPORT_PREFIX: &str = "report ";

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Batch {
    /// Folder of the template.
    pub folder: std::path::PathBuf,
    pub first: u64,
    pub count: u64,
    /// Alterations of statements. If `stops` is set, the first violation ends the batch.
    pub altered: Vec<(String, String)>,
    pub stops: bool,
}

/// Entry point of the process; prints one report per seed.
#[test]
#[ignore = "started by the simulation"]
fn process() {
    let Ok(batch) = std::env::var(BATCH_VARIABLE) else { return };
    let batch: Batch = serde_json::from_str(&batch).expect("a batch");
    let template = Template::read_from(&batch.folder);
    let altered: Vec<Alteration> =
        batch.altered.into_iter().map(|(part, other)| (&*part.leak(), &*other.leak())).collect();
    alter_statements(altered);
    for number in 0..batch.count {
        let mut report = simulate(&template, batch.first.wrapping_add(number));
        report.trace.clear();
        println!("\n{REPORT_PREFIX}{}", serde_json::to_string(&report).expect("a report"));
        if batch.stops && report.violation.is_some() {
            return;
        }
    }
}

impl Batch {
    /// Runs the seeds in a new process. A process that exits early counts as a violation of the seed it was
    /// running.
    pub fn run(&self) -> Vec<Report> {
        let mut command = Command::new(std::env::current_exe().expect("path of the test binary"));
        command.args(["simulation::batch::process", "--exact", "--ignored", "--nocapture"]);
        command.env(BATCH_VARIABLE, serde_json::to_string(self).expect("a batch")).stdin(Stdio::null());
        let ran = command.output().expect("a process");
        let stdout = String::from_utf8_lossy(&ran.stdout);
        let answers = stdout.lines().filter_map(|line| line.strip_prefix(REPORT_PREFIX));
        let mut reports: Vec<Report> = answers.map(|answer| serde_json::from_str(answer).expect("a report")).collect();
        if !ran.status.success() {
            let why = String::from_utf8_lossy(&ran.stderr).into_owned();
            let seed = self.first.wrapping_add(reports.len() as u64);
            reports.push(Report { seed, violation: Some(format!("it panicked: {why}")), ..Report::default() });
        }
        reports
    }
}

impl Template {
    pub fn write_to(&self, folder: &Path) {
        std::fs::write(folder.join("agentd.db"), &self.database).expect("a database");
        std::fs::write(folder.join("secret.key"), &self.key).expect("a key");
        let rest = serde_json::to_string(self).expect("a template");
        std::fs::write(folder.join("template.json"), rest).expect("a template");
    }

    fn read_from(folder: &Path) -> Self {
        let read = |name: &str| std::fs::read(folder.join(name)).expect("a file of the template");
        let template: Self = serde_json::from_slice(&read("template.json")).expect("a template");
        Self { database: read("agentd.db"), key: read("secret.key"), ..template }
    }
}
