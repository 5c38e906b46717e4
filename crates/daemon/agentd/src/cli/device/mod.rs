//! `agentd device`: this machine as a device of a daemon elsewhere.
//!
//! What the daemon asks for runs here, in a sandbox of this machine, and is shown to whoever looks
//! at the terminal. The token that pairing gave stays in a file that only this user can read.

mod serve;
mod shell;
mod socket;
mod state;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::json;

use self::shell::Shell;
use self::state::{Membership, State};
use super::client::refusal;
use super::error::CliError;
use super::terminal::say;

#[derive(Debug, Args)]
pub(super) struct DeviceArgs {
    #[command(subcommand)]
    command: DeviceCommand,
}

#[derive(Debug, Subcommand)]
enum DeviceCommand {
    /// Pair this machine with a daemon, and serve it
    #[command(
        after_help = "The code comes from `POST /api/auth/device/code` and is good for five minutes.\n\nExamples:\n  agentd device join https://agents.example.com 042137 --allow-shell\n  agentd device join http://localhost:7878 042137 --name workshop --allow-shell --directory ~/work",
        override_usage = "agentd device join [OPTIONS] <URL> <CODE>"
    )]
    Join(JoinArgs),
    /// Serve the daemon that this machine was paired with
    #[command(after_help = "Example:\n  agentd device run --allow-shell")]
    Run(ServeArgs),
}

#[derive(Debug, Args)]
struct JoinArgs {
    /// Where the daemon is
    url: String,
    /// The pairing code, six digits
    code: String,
    /// What the daemon calls this machine [default: its host name]
    #[arg(long)]
    name: Option<String>,
    #[command(flatten)]
    serve: ServeArgs,
}

#[derive(Debug, Args)]
struct ServeArgs {
    /// Let agents run commands on this machine, in a sandbox
    #[arg(long)]
    allow_shell: bool,
    /// Run these commands without a sandbox, with all that this user may do
    #[arg(long, requires = "allow_shell")]
    no_sandbox: bool,
    /// Where commands run and what they may change [default: `workspace` in the state directory]
    #[arg(long)]
    directory: Option<PathBuf>,
    /// Where the token is kept [default: ~/.config/agentd/device]
    #[arg(long)]
    state: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Paired {
    device_id: String,
    device_token: String,
    name: String,
}

/// Refuses what cannot be the address of a daemon.
pub(super) fn check_address(url: &str) -> Result<(), CliError> {
    socket::parse(url).map(|_| ())
}

pub(super) async fn run(arguments: DeviceArgs) -> Result<(), CliError> {
    match arguments.command {
        DeviceCommand::Join(JoinArgs { url, code, name, serve }) => {
            let state = State::open(serve.state.clone())?;
            // Before the code is used up: without a sandbox there is nothing to join for.
            let shell = find_shell(&serve, &state).await?;
            let membership = join(&url, &code, name).await?;
            state.save(&membership)?;
            say(format_args!(
                "paired as {} ({}); next time `agentd device run` is enough",
                membership.name, membership.device_id
            ));
            serve::serve(membership, shell).await
        }
        DeviceCommand::Run(arguments) => {
            let state = State::open(arguments.state.clone())?;
            let membership = state.load()?;
            let shell = find_shell(&arguments, &state).await?;
            serve::serve(membership, shell).await
        }
    }
}

async fn find_shell(arguments: &ServeArgs, state: &State) -> Result<Option<Shell>, CliError> {
    if !arguments.allow_shell {
        say("no tools are offered; --allow-shell lets agents run commands on this machine");
        return Ok(None);
    }
    Shell::open(state, arguments.directory.clone(), arguments.no_sandbox).await.map(Some)
}

async fn join(url: &str, code: &str, name: Option<String>) -> Result<Membership, CliError> {
    let url = url.trim_end_matches('/').to_owned();
    let address = socket::parse(&url)?;
    if address.is_exposed() {
        say("warning: http:// to another machine sends the token unprotected; use https://");
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
        return Err(refusal(status.as_u16(), &body));
    }
    let paired: Paired = serde_json::from_slice(&body).map_err(|source| CliError::Unreadable { source })?;
    Ok(Membership { url, device_id: paired.device_id, name: paired.name, token: paired.device_token })
}
