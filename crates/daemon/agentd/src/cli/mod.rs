//! The command line. `agentd` alone serves.

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

/// Hosts AI agents behind one HTTP API, on your own machine.
#[derive(Debug, Parser)]
#[command(
    name = "agentd",
    version,
    after_help = "Start with `agentd`, open the address that it prints, and follow the four steps there.\nAnything wrong? `agentd doctor` checks what people trip over and says the remedy."
)]
pub struct Cli {
    /// Configuration file [default: ~/.config/agentd/agentd.toml, else /etc/agentd/agentd.toml]
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
    #[command(
        after_help = "Examples:\n  agentd serve\n  agentd serve --port 8080 --data-dir /srv/agentd\n  SVC_DATABASE_URL=postgres://… agentd serve"
    )]
    Serve,
    // A usage line of their own where there are required arguments: the made one lists what came from the environment
    // as if it were required.
    /// Make, list and revoke API keys
    Keys(keys::KeysArgs),
    /// Check everything that people trip over, and say the remedy
    Doctor(doctor::DoctorArgs),
    /// Make this machine a device of a daemon elsewhere
    Device(device::DeviceArgs),
    /// Talk to an agent
    Chat(chat::ChatArgs),
    /// Write everything that the daemon keeps into one archive
    Backup(backup::BackupArgs),
    /// Replace everything that the daemon keeps by what an archive holds
    Restore(backup::RestoreArgs),
    /// Show the chat platforms, and let people in who write there
    Channels(channels::ChannelsArgs),
    /// Open pages in the daemon's browser, act on them, look at them
    Browser(browser::BrowserArgs),
    /// Watch what the daemon does: requests, turns, tokens, queues, alerts
    Top(top::TopArgs),
    /// List the background workers, and what each did since the daemon started
    #[command(
        after_help = "Examples:\n  agentd workers\n  agentd workers --json | jq -r '.workers[] | select(.is_late) | .name'"
    )]
    Workers(workers::WorkersArgs),
    /// Print the OpenAPI document
    #[command(after_help = "Example:\n  agentd openapi > openapi.json")]
    Openapi,
    /// Print what makes a shell complete `agentd`
    #[command(
        after_help = "Examples:\n  agentd completions bash > ~/.local/share/bash-completion/completions/agentd\n  agentd completions zsh > ~/.zfunc/_agentd\n  agentd completions fish > ~/.config/fish/completions/agentd.fish",
        override_usage = "agentd completions [OPTIONS] <SHELL>"
    )]
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// The process that holds a model inside; started by the daemon
    #[command(hide = true)]
    InferenceWorker,
}

/// What `main` calls.
#[must_use]
pub fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    // Before anything else: it starts before every run of code, and its arguments are not people's.
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
            terminal::say_error(&*error);
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> Result<ExitCode, Box<dyn std::error::Error>> {
    // A device has no daemon of its own, so no configuration either.
    if let Some(Command::Device(arguments)) = cli.command {
        return wait_for(device::run(arguments)).map(|()| ExitCode::SUCCESS);
    }
    match &cli.command {
        Some(Command::Openapi) => return wait_for(start::print_openapi()).map(|()| ExitCode::SUCCESS),
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
        // The doctor also says what is wrong with the configuration.
        Some(Command::Doctor(arguments)) => return wait_for(doctor::run(config, arguments)),
        Some(Command::Keys(arguments)) => wait_for(keys::run(&config?, arguments)),
        // A conversation from a pipe has told of what failed in it.
        Some(Command::Chat(arguments)) => return wait_for(chat::run(&config?, arguments)),
        Some(Command::Channels(arguments)) => wait_for(channels::run(&config?, arguments)),
        Some(Command::Browser(arguments)) => wait_for(browser::run(&config?, arguments)),
        Some(Command::Top(arguments)) => wait_for(top::run(&config?, arguments)),
        Some(Command::Workers(arguments)) => wait_for(workers::run(&config?, arguments)),
        Some(Command::Backup(arguments)) => wait_for(backup::run_backup(&config?, arguments)),
        Some(Command::Restore(arguments)) => wait_for(backup::run_restore(&config?, arguments)),
        _ => start::serve(config?),
    };
    outcome.map(|()| ExitCode::SUCCESS)
}

fn read_config(file: Option<&Path>, source: ConfigSource) -> Result<Config, ConfigError> {
    let file = ConfigSource::from_file(file)?;
    Config::from_source(source.with_environment().or(file))
}

/// Runs a command that waits.
fn wait_for<T, E: Into<Box<dyn std::error::Error>>>(
    command: impl Future<Output = Result<T, E>>,
) -> Result<T, Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let outcome = runtime.block_on(command);
    // A thread that waits for the keyboard would otherwise keep the program from ending.
    runtime.shutdown_background();
    outcome.map_err(Into::into)
}
