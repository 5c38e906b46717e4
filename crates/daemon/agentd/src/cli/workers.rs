//! `agentd workers`: list of background workers.

use clap::Args;
use http::Method;
use serde::Deserialize;
use serde_json::Value;

use super::client::LocalClient;
use super::error::CliError;
use super::terminal::{print_json, print_line, table};
use crate::config::Config;

const PATH: &str = "/api/monitoring/workers";

#[derive(Debug, Args)]
pub(super) struct WorkersArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Deserialize)]
struct List {
    workers: Vec<Worker>,
}

#[derive(Deserialize)]
struct Worker {
    name: String,
    description: String,
    is_late: bool,
    items: u64,
    failures: u64,
    failures_in_a_row: u64,
    last_success_at: Option<String>,
}

impl Worker {
    fn state(&self) -> &'static str {
        match (self.is_late, self.failures_in_a_row) {
            (true, _) => "late",
            (false, 0) => "ok",
            (false, _) => "failing",
        }
    }

    fn row(self) -> Vec<String> {
        let state = self.state().to_owned();
        let last_success = self.last_success_at.unwrap_or_else(|| "-".to_owned());
        vec![self.name, state, last_success, self.items.to_string(), self.failures.to_string(), self.description]
    }
}

pub(super) async fn run(config: &Config, arguments: WorkersArgs) -> Result<(), CliError> {
    let client = LocalClient::connect(config).await?;
    let found: Result<Value, CliError> = client.json(Method::GET, PATH, None).await;
    client.close().await;
    let found = found?;
    if arguments.json {
        print_json(&found);
        return Ok(());
    }
    let list: List = serde_json::from_value(found).map_err(|source| CliError::Unreadable { source })?;
    let mut rows =
        vec![["NAME", "STATE", "LAST SUCCESS", "ITEMS", "FAILURES", "DESCRIPTION"].map(str::to_owned).to_vec()];
    rows.extend(list.workers.into_iter().map(Worker::row));
    print_line(table(&rows).trim_end());
    Ok(())
}
