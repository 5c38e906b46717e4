//! Seeds in processes of their own. The parts of a daemon hold each other, so that one that is killed in a simulation
//! gives back its memory and its open files only at the end of its process.
//!
//! Such a process is this program again.

#![allow(clippy::disallowed_methods, reason = "tests start processes")]

use std::path::Path;
use std::process::{Command, Stdio};

use agentd_store::testing::statements::{Alteration, alter_statements};
use serde::{Deserialize, Serialize};

use super::run::{Report, simulate};
use super::template::Template;

/// What a process is to do, as JSON.
const VARIABLE: &str = "AGENTD_TEST_SIMULATION_BATCH";
const ANSWER: &str = "report ";

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Batch {
    /// Where the template lies.
    pub folder: std::path::PathBuf,
    pub first: u64,
    pub count: u64,
    /// Statements are altered, and the first violation ends it.
    pub altered: Vec<(String, String)>,
    pub stops: bool,
}

/// The process: an answer a seed.
#[test]
#[ignore = "a part of the simulation, which starts it"]
fn process() {
    let Ok(batch) = std::env::var(VARIABLE) else { return };
    let batch: Batch = serde_json::from_str(&batch).expect("a batch");
    let template = Template::read_from(&batch.folder);
    let altered: Vec<Alteration> =
        batch.altered.into_iter().map(|(part, other)| (&*part.leak(), &*other.leak())).collect();
    alter_statements(altered);
    for number in 0..batch.count {
        let mut report = simulate(&template, batch.first.wrapping_add(number));
        report.trace.clear();
        println!("\n{ANSWER}{}", serde_json::to_string(&report).expect("a report"));
        if batch.stops && report.violation.is_some() {
            return;
        }
    }
}

impl Batch {
    /// What its seeds came to; a process that ends before its time is a violation of the seed that it was at.
    pub fn run(&self) -> Vec<Report> {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["simulation::batch::process", "--exact", "--ignored", "--nocapture"]);
        command.env(VARIABLE, serde_json::to_string(self).expect("a batch")).stdin(Stdio::null());
        let ran = command.output().expect("a process");
        let said = String::from_utf8_lossy(&ran.stdout);
        let answers = said.lines().filter_map(|line| line.strip_prefix(ANSWER));
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
