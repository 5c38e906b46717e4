//! `agentd doctor`: checks for common problems and shows a remedy for each.
//!
//! It changes nothing: databases are inspected without migration.

mod channels;
mod daemon;
mod machine;
mod memory;
mod report;
mod storage;

use std::process::ExitCode;

use clap::Args;

use self::report::Report;
use super::error::CliError;
use crate::config::{Config, ConfigError};

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  agentd doctor\n  agentd doctor --memory\n  agentd doctor --json | jq '.checks[] | select(.verdict == \"broken\")'\n\nThe exit code is 1 if a check is broken, otherwise 0."
)]
pub(super) struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Also check all of memory: compare the search index and counts with the stored episodes
    #[arg(long)]
    memory: bool,
}

pub(super) async fn run(config: Result<Config, ConfigError>, arguments: DoctorArgs) -> Result<ExitCode, CliError> {
    let mut report = Report::default();
    match config {
        Err(ConfigError(problems)) => {
            for problem in problems {
                report.broken("configuration", problem, "correct the flag, variable or configuration file");
            }
        }
        Ok(config) => {
            let file =
                config.file.as_ref().map_or("no configuration file".to_owned(), |file| file.display().to_string());
            report.good("configuration", format!("all values are valid ({file})"));
            storage::check_data_dir(&config, &mut report);
            let running = daemon::check(&config, &mut report).await;
            storage::check_database(&config, &mut report).await;
            storage::check_key_file(&config, &mut report);
            machine::check_clock(&mut report);
            machine::check_clock_agreement(&config, &mut report).await;
            machine::check_model(&config, &mut report);
            machine::check_embedding_model(&config, &mut report);
            machine::check_browser(&config, &mut report);
            channels::check(&config, &mut report).await;
            daemon::check_exposure(&config, running.as_ref(), &mut report);
            if arguments.memory {
                memory::check(&config, &mut report).await;
            }
        }
    }
    if arguments.json {
        report.print_json();
    } else {
        report.print();
    }
    Ok(if report.is_broken() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
