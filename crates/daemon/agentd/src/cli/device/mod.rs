//! `agentd device`: this machine as a device of a remote daemon.
//!
//! Commands from the daemon run in a sandbox of this machine and are shown in the terminal. The token from pairing is
//! stored in a file that only this user can read.

mod serve;
mod shell;
mod socket;
mod state;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::json;

use self::shell::Shell;
use self::state::{Pairing, State};
use super::client::error_from_body;
use super::error::CliError;
use super::terminal::print_message;

#[derive(Debug, Args)]
pub(super) struct DeviceArgs {
    #[command(subcommand)]
    command: DeviceCommand,
}

#[derive(Debug, Subcommand)]
enum DeviceCommand {
    /// Pair this machine with a daemon and connect to it
    #[command(
        after_help = "Get the code with `POST /api/auth/device/code`; it is valid for five minutes.\n\nExamples:\n  agentd device join https://agents.example.com 042137 --allow-shell\n  agentd device join http://localhost:7878 042137 --name workshop --allow-shell --directory ~/work",
        override_usage = "agentd device join [OPTIONS] <URL> <CODE>"
    )]
    Join(JoinArgs),
    /// Connect to the daemon that this machine is paired with
    #[command(after_help = "Example:\n  agentd device run --allow-shell")]
    Run(ServeArgs),
}

#[derive(Debug, Args)]
struct JoinArgs {
    /// URL of the daemon
    url: String,
    /// Pairing code, six digits
    code: String,
    /// Name of this machine [default: its host name]
    #[arg(long)]
    name: Option<String>,
    #[command(flatten)]
    serve: ServeArgs,
}

#[derive(Debug, Args)]
struct ServeArgs {
    /// Allow agents to run commands on this machine, in a sandbox
    #[arg(long)]
    allow_shell: bool,
    /// Run these commands without a sandbox, with all permissions of this user
    #[arg(long, requires = "allow_shell")]
    no_sandbox: bool,
    /// Working directory of commands, the only one they can write to [default: `workspace` in the state directory]
    #[arg(long)]
    directory: Option<PathBuf>,
    /// Directory for the token [default: ~/.config/agentd/device]
    #[arg(long)]
    state: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Paired {
    device_id: String,
    device_token: String,
    name: String,
}

/// Checks that a text is a valid URL of a daemon.
pub(super) fn check_address(url: &str) -> Result<(), CliError> {
    socket::parse(url).map(|_| ())
}

pub(super) async fn run(arguments: DeviceArgs) -> Result<(), CliError> {
    match arguments.command {
        DeviceCommand::Join(JoinArgs { url, code, name, serve }) => {
            let state = State::open(serve.state.clone())?;
            // Before the code is consumed, because joining without a sandbox is useless.
            let shell = find_shell(&serve, &state).await?;
            let pairing = join(&url, &code, name).await?;
            state.save(&pairing)?;
            print_message(format_args!(
                "paired as {} ({}); from now on, connect with `agentd device run`",
                pairing.name, pairing.device_id
            ));
            serve::serve(pairing, shell).await
        }
        DeviceCommand::Run(arguments) => {
            let state = State::open(arguments.state.clone())?;
            let pairing = state.load()?;
            let shell = find_shell(&arguments, &state).await?;
            serve::serve(pairing, shell).await
        }
    }
}

async fn find_shell(arguments: &ServeArgs, state: &State) -> Result<Option<Shell>, CliError> {
    if !arguments.allow_shell {
        print_message("no tools offered; use --allow-shell to let agents run commands on this machine");
        return Ok(None);
    }
    Shell::open(state, arguments.directory.clone(), arguments.no_sandbox).await.map(Some)
}

async fn join(url: &str, code: &str, name: Option<String>) -> Result<Pairing, CliError> {
    let url = url.trim_end_matches('/').to_owned();
    let address = socket::parse(&url)?;
    if address.is_exposed() {
        print_message("warning: http:// sends the token to another machine unencrypted; use https://");
    }
    let machine = rustix::system::uname();
    let name = name.unwrap_or_else(|| machine.nodename().to_string_lossy().chars().take(64).collect());
    let body = json!({
        "code": code,
        "name": name,
        "platform": std::env::consts::OS,
        "metadata": {
            "architecture": std::env::consts::ARCH,
            "agentd": env!("CARGO_PKG_VERSION"),
        },
    });
    let http = reqwest::Client::builder().build().map_err(CliError::broken)?;
    let sending = http.post(format!("{url}/api/auth/device/pair")).json(&body).send();
    let answer = sending.await.map_err(|source| CliError::Unreachable { url: url.clone(), source: source.into() })?;
    let status = answer.status();
    let body = answer.bytes().await.map_err(CliError::broken)?;
    if !status.is_success() {
        return Err(error_from_body(status.as_u16(), &body));
    }
    let paired: Paired = serde_json::from_slice(&body).map_err(|source| CliError::Unreadable { source })?;
    Ok(Pairing { url, device_id: paired.device_id, name: paired.name, token: paired.device_token })
}
