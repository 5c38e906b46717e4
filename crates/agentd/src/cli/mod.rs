//! The command line. `agentd` alone serves.

mod start;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::config::ConfigSource;

/// Hosts AI agents behind one HTTP API, on your own machine.
#[derive(Debug, Parser)]
#[command(
    name = "agentd",
    version,
    after_help = "Start with `agentd`, open the address that it prints, and follow the four steps there.\nAnything wrong? `agentd doctor` checks what people trip over and says the remedy."
)]
pub struct Cli {
    /// Configuration file [default: agentd.toml in the working or the data directory]
    #[arg(long, global = true, env = "SVC_CONFIG")]
    config: Option<PathBuf>,
    #[command(flatten)]
    source: ConfigSource,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the daemon (what `agentd` alone does)
    Serve,
    /// Print the OpenAPI document
    Openapi,
    /// The process that holds the local model; started by the daemon
    #[command(hide = true)]
    InferenceWorker,
}

/// What `main` calls.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    if matches!(cli.command, Some(Command::InferenceWorker)) {
        return agentd_inference::worker::run(&agentd_base::Clock::system());
    }
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say_error(&*error);
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> Result<(), Box<dyn std::error::Error>> {
    if matches!(cli.command, Some(Command::Openapi)) {
        return start::print_openapi();
    }
    let file = ConfigSource::from_file(cli.config.as_deref(), cli.source.data_dir.as_deref())?;
    let config = crate::config::Config::from_source(cli.source.or(file))?;
    start::serve(config)
}

#[allow(clippy::print_stderr, reason = "the command line speaks to a person")]
fn say_error(error: &dyn std::error::Error) {
    eprintln!("agentd: {error}");
    let mut source = error.source();
    while let Some(cause) = source {
        eprintln!("  because: {cause}");
        source = cause.source();
    }
}
