//! `agentd channels`: chat platforms and pairing requests.

use clap::{Args, Subcommand};
use http::Method;
use serde::Deserialize;
use serde_json::Value;

use super::client::LocalClient;
use super::error::CliError;
use super::terminal::{one_line, print_json, print_line, print_message, table};
use crate::config::Config;

#[derive(Debug, Args)]
pub(super) struct ChannelsArgs {
    #[command(subcommand)]
    command: ChannelsCommand,
}

#[derive(Debug, Subcommand)]
enum ChannelsCommand {
    /// List chat platforms and their status
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List pairing requests of unknown senders
    Pairings {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Approve the pairing request with this code
    #[command(
        after_help = "Example:\n  agentd channels approve telegram K7QXW2MA",
        override_usage = "agentd channels approve [OPTIONS] <PLATFORM> <CODE>"
    )]
    Approve {
        /// Platform, such as telegram
        platform: String,
        /// Pairing code that the sender received
        code: String,
    },
    /// Reject the pairing request with this code
    #[command(override_usage = "agentd channels refuse [OPTIONS] <PLATFORM> <CODE>")]
    Refuse {
        /// Platform, such as telegram
        platform: String,
        /// Pairing code, as listed by `agentd channels pairings`
        code: String,
    },
    /// Register the webhook or the bot commands with a platform
    #[command(
        after_help = "Examples:\n  agentd channels register telegram   (sets the webhook)\n  agentd channels register discord    (registers the bot's commands)",
        override_usage = "agentd channels register [OPTIONS] <PLATFORM>"
    )]
    Register {
        /// telegram or discord; configure other platforms on their own pages
        platform: String,
    },
}

#[derive(Deserialize)]
struct Channel {
    platform: String,
    status: String,
    agent_id: Option<String>,
    last_received_at: Option<String>,
    last_error: Option<String>,
}

#[derive(Deserialize)]
struct Pairing {
    platform: String,
    code: String,
    sender_id: String,
    sender_name: String,
    requested_at: String,
}

#[derive(Deserialize)]
struct Sender {
    id: String,
    name: String,
}

/// Checks that a text is a single path segment.
fn segment(text: &str) -> Result<&str, CliError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    match !text.is_empty() && text.bytes().all(is_plain) {
        true => Ok(text),
        false => Err(CliError::Usage(format!("`{text}` is not a platform or a code"))),
    }
}

pub(super) async fn run(config: &Config, arguments: ChannelsArgs) -> Result<(), CliError> {
    let client = LocalClient::connect(config).await?;
    let outcome = execute(&client, arguments.command).await;
    client.close().await;
    outcome
}

async fn execute(client: &LocalClient, command: ChannelsCommand) -> Result<(), CliError> {
    match command {
        ChannelsCommand::List { json } => list(client, json).await,
        ChannelsCommand::Pairings { json } => pairings(client, json).await,
        ChannelsCommand::Approve { platform, code } => {
            let path = format!("/api/channels/{}/pairings/{}/approve", segment(&platform)?, segment(&code)?);
            let sender: Sender = client.json(Method::POST, &path, None).await?;
            print_message(format_args!(
                "Approved {} ({}). The sender was notified.",
                one_line(&sender.name),
                one_line(&sender.id)
            ));
            Ok(())
        }
        ChannelsCommand::Refuse { platform, code } => {
            let path = format!("/api/channels/{}/pairings/{}", segment(&platform)?, segment(&code)?);
            client.json::<Value>(Method::DELETE, &path, None).await?;
            print_message("Rejected. The sender was not notified.");
            Ok(())
        }
        ChannelsCommand::Register { platform } => {
            let path = format!("/api/channels/{}/register", segment(&platform)?);
            let registered: Value = client.json(Method::POST, &path, None).await?;
            print_message(format_args!(
                "Registered: {}",
                one_line(registered["registered"].as_str().unwrap_or_default())
            ));
            Ok(())
        }
    }
}

async fn list(client: &LocalClient, json: bool) -> Result<(), CliError> {
    let all: Value = client.json(Method::GET, "/api/channels", None).await?;
    if json {
        print_json(&all);
        return Ok(());
    }
    let channels: Vec<Channel> = serde_json::from_value(all["channels"].clone()).unwrap_or_default();
    let mut rows = vec![["PLATFORM", "STATUS", "AGENT", "LAST MESSAGE", "LAST ERROR"].map(str::to_owned).to_vec()];
    rows.extend(channels.into_iter().map(|channel| {
        let others = [channel.agent_id, channel.last_received_at, channel.last_error];
        let others = others.into_iter().map(|cell| cell.unwrap_or_else(|| "-".to_owned()));
        [channel.platform, channel.status].into_iter().chain(others).collect()
    }));
    print_line(table(&rows).trim_end());
    Ok(())
}

async fn pairings(client: &LocalClient, json: bool) -> Result<(), CliError> {
    let all: Value = client.json(Method::GET, "/api/channels/pairings?limit=200", None).await?;
    if json {
        print_json(&all);
        return Ok(());
    }
    let pairings: Vec<Pairing> = serde_json::from_value(all["pairings"].clone()).unwrap_or_default();
    if pairings.is_empty() {
        print_message("No pairing requests.");
        return Ok(());
    }
    let mut rows = vec![["PLATFORM", "CODE", "NAME", "ID", "SINCE"].map(str::to_owned).to_vec()];
    rows.extend(pairings.into_iter().map(|pairing| {
        vec![pairing.platform, pairing.code, pairing.sender_name, pairing.sender_id, pairing.requested_at]
    }));
    print_line(table(&rows).trim_end());
    Ok(())
}
