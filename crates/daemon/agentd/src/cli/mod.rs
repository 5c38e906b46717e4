//! Command line. `agentd` without a subcommand runs the daemon.

mod backup;
mod browser;
mod channels;
mod chat;
mod client;
mod device;
mod doctor;
mod error;
mod events;
mod keys;
mod socket;
mod start;
mod terminal;
mod top;
mod workers;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use agentd_engine::code_runner::INIT_SUBCOMMAND;
use clap::{CommandFactory, Parser, Subcommand};

use crate::config::{Config, ConfigError, ConfigSource};

/// Self-hosted daemon for AI agents with an HTTP API
#[derive(Debug, Parser)]
#[command(
    name = "agentd",
    version,
    after_help = "Start with `agentd`, open the URL that it prints, and follow the setup.\nIf something does not work, run `agentd doctor`."
)]
pub struct Cli {
    /// Configuration file [default: ~/.config/agentd/agentd.toml, then /etc/agentd/agentd.toml]
    #[arg(long, global = true, env = "SVC_CONFIG")]
    config: Option<PathBuf>,
    #[command(flatten)]
    source: ConfigSource,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the daemon (default command)
    #[command(
        after_help = "Examples:\n  agentd serve\n  agentd serve --port 8080 --data-dir /srv/agentd\n  SVC_DATABASE_URL=postgres://… agentd serve"
    )]
    Serve,
    // Commands with required arguments override the usage line, because the generated one lists options set in the
    // environment as required.
    /// Create, list and revoke API keys
    Keys(keys::KeysArgs),
    /// Check configuration and environment for common problems
    Doctor(doctor::DoctorArgs),
    /// Connect this machine to a remote daemon as a device
    Device(device::DeviceArgs),
    /// Chat with an agent
    Chat(chat::ChatArgs),
    /// Create a backup archive of all data
    Backup(backup::BackupArgs),
    /// Restore all data from a backup archive
    Restore(backup::RestoreArgs),
    /// Show chat platforms and manage pairing requests
    Channels(channels::ChannelsArgs),
    /// Control the daemon's browser
    Browser(browser::BrowserArgs),
    /// Show live statistics: requests, turns, tokens, queues, alerts
    Top(top::TopArgs),
    /// List background workers and their statistics
    #[command(
        after_help = "Examples:\n  agentd workers\n  agentd workers --json | jq -r '.workers[] | select(.is_late) | .name'"
    )]
    Workers(workers::WorkersArgs),
    /// Print the OpenAPI document
    #[command(after_help = "Example:\n  agentd openapi > openapi.json")]
    Openapi,
    /// Print a shell completion script
    #[command(
        after_help = "Examples:\n  agentd completions bash > ~/.local/share/bash-completion/completions/agentd\n  agentd completions zsh > ~/.zfunc/_agentd\n  agentd completions fish > ~/.config/fish/completions/agentd.fish",
        override_usage = "agentd completions [OPTIONS] <SHELL>"
    )]
    Completions {
        /// Shell
        shell: clap_complete::Shell,
    },
    /// Process that runs a local model; started by the daemon
    #[command(hide = true)]
    InferenceWorker,
}

/// Runs the command line.
#[must_use]
pub fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    // First, because it starts before every sandboxed run, and its arguments are internal.
    if arguments.next().is_some_and(|first| first == INIT_SUBCOMMAND) {
        agentd_sandbox::init::main(arguments);
    }
    let cli = Cli::parse();
    if matches!(cli.command, Some(Command::InferenceWorker)) {
        return agentd_inference::worker::run(&agentd_base::Clock::system());
    }
    match run(cli) {
        Ok(code) => code,
        Err(error) => {
            terminal::print_error(&*error);
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> Result<ExitCode, Box<dyn std::error::Error>> {
    // A device needs no daemon, so no configuration is read.
    if let Some(Command::Device(arguments)) = cli.command {
        return block_on(device::run(arguments)).map(|()| ExitCode::SUCCESS);
    }
    match &cli.command {
        Some(Command::Openapi) => return block_on(start::print_openapi()).map(|()| ExitCode::SUCCESS),
        Some(Command::Completions { shell }) => {
            let mut text = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "agentd", &mut text);
            terminal::print_piece(&*String::from_utf8_lossy(&text));
            return Ok(ExitCode::SUCCESS);
        }
        _ => {}
    }
    let config = read_config(cli.config.as_deref(), cli.source);
    let outcome = match cli.command {
        // The doctor also reports problems of the configuration.
        Some(Command::Doctor(arguments)) => return block_on(doctor::run(config, arguments)),
        Some(Command::Keys(arguments)) => block_on(keys::run(&config?, arguments)),
        // A piped conversation has already reported its failures.
        Some(Command::Chat(arguments)) => return block_on(chat::run(&config?, arguments)),
        Some(Command::Channels(arguments)) => block_on(channels::run(&config?, arguments)),
        Some(Command::Browser(arguments)) => block_on(browser::run(&config?, arguments)),
        Some(Command::Top(arguments)) => block_on(top::run(&config?, arguments)),
        Some(Command::Workers(arguments)) => block_on(workers::run(&config?, arguments)),
        Some(Command::Backup(arguments)) => block_on(backup::run_backup(&config?, arguments)),
        Some(Command::Restore(arguments)) => block_on(backup::run_restore(&config?, arguments)),
        _ => start::serve(config?),
    };
    outcome.map(|()| ExitCode::SUCCESS)
}

fn read_config(file: Option<&Path>, source: ConfigSource) -> Result<Config, ConfigError> {
    let file = ConfigSource::from_file(file)?;
    Config::from_source(source.with_environment().or(file))
}

/// Runs an asynchronous command.
fn block_on<T, E: Into<Box<dyn std::error::Error>>>(
    command: impl Future<Output = Result<T, E>>,
) -> Result<T, Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let outcome = runtime.block_on(command);
    // Otherwise a thread that reads the keyboard would block the exit.
    runtime.shutdown_background();
    outcome.map_err(Into::into)
}
