//! `agentd keys`: the owner's way in, also when every key is lost.

use clap::{Args, Subcommand, ValueEnum};
use http::Method;
use serde::Deserialize;
use serde_json::json;

use super::client::LocalClient;
use super::error::CliError;
use super::terminal::{print_json, print_line, say, table, write_line};
use crate::config::Config;

#[derive(Debug, Args)]
pub(super) struct KeysArgs {
    #[command(subcommand)]
    command: KeysCommand,
}

#[derive(Debug, Subcommand)]
enum KeysCommand {
    /// Make a key and print it alone; it is shown this once
    #[command(
        after_help = "Examples:\n  agentd keys create --name laptop\n  export SVC_API_KEY=$(agentd keys create --name chat)\n  agentd keys create --name grafana --scope read --description \"reads the figures\"",
        override_usage = "agentd keys create [OPTIONS] --name <NAME>"
    )]
    Create {
        /// What the key is called in lists
        #[arg(long)]
        name: String,
        /// What it may do: `read` looks, `full` does everything
        #[arg(long, value_enum, default_value_t = Scope::Full)]
        scope: Scope,
        /// What it is for
        #[arg(long)]
        description: Option<String>,
    },
    /// List the keys, never what they are
    #[command(after_help = "Examples:\n  agentd keys list\n  agentd keys list --json | jq -r '.keys[].id'")]
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Revoke a key for good; whoever uses it is refused at once
    #[command(
        after_help = "Example:\n  agentd keys revoke key_01k9…   (`agentd keys list` shows the ids)",
        override_usage = "agentd keys revoke [OPTIONS] <ID>"
    )]
    Revoke {
        /// Id of the key
        id: String,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Scope {
    Full,
    Read,
}

#[derive(Deserialize)]
struct Created {
    id: String,
    name: String,
    key: String,
}

#[derive(Deserialize)]
struct Listed {
    id: String,
    name: String,
    created_at: String,
    last_used: Option<String>,
    #[serde(default)]
    scope: Option<String>,
}

/// Nobody has seen the key, so nobody may have it.
async fn take_back(client: &LocalClient, id: String, source: std::io::Error) -> CliError {
    let revoked = client.json::<serde_json::Value>(Method::DELETE, &format!("/api/auth/keys/{id}"), None).await;
    match revoked {
        Ok(_) => CliError::KeyRevoked { source },
        Err(_) => CliError::KeyLost { id, source },
    }
}

pub(super) async fn run(config: &Config, arguments: KeysArgs) -> Result<(), CliError> {
    if let KeysCommand::Revoke { id } = &arguments.command
        && !id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    {
        return Err(CliError::Usage(format!("`{id}` is no id of a key; `agentd keys list` shows them")));
    }
    let client = LocalClient::connect(config).await?;
    let outcome = carry_out(&client, arguments.command).await;
    client.close().await;
    outcome
}

async fn carry_out(client: &LocalClient, command: KeysCommand) -> Result<(), CliError> {
    match command {
        KeysCommand::Create { name, scope, description } => {
            let scope = match scope {
                Scope::Full => "full",
                Scope::Read => "read",
            };
            let mut body = json!({"name": name, "scope": scope});
            if let Some(description) = description {
                body["description"] = description.into();
            }
            let made: Created = client.json(Method::POST, "/api/auth/keys", Some(&body)).await?;
            if let Err(source) = write_line(made.key.as_str()) {
                return Err(take_back(client, made.id, source).await);
            }
            say(format_args!(
                "Made the key `{}` ({}, scope {scope}). Keep it: it is not shown again.",
                made.name, made.id
            ));
        }
        KeysCommand::List { json: true } => {
            let all: serde_json::Value = client.json(Method::GET, "/api/auth/keys", None).await?;
            print_json(&all);
        }
        KeysCommand::List { json: false } => {
            #[derive(Deserialize)]
            struct All {
                keys: Vec<Listed>,
            }
            let all: All = client.json(Method::GET, "/api/auth/keys", None).await?;
            if all.keys.is_empty() {
                say("There is no key. Make one with `agentd keys create --name NAME`.");
                return Ok(());
            }
            let mut rows = vec![["ID", "NAME", "SCOPE", "CREATED", "LAST USED"].map(str::to_owned).to_vec()];
            rows.extend(all.keys.into_iter().map(|key| {
                let last_used = key.last_used.unwrap_or_else(|| "never".to_owned());
                vec![key.id, key.name, key.scope.unwrap_or_else(|| "-".to_owned()), key.created_at, last_used]
            }));
            print_line(table(&rows).trim_end());
        }
        KeysCommand::Revoke { id } => {
            let _revoked: serde_json::Value =
                client.json(Method::DELETE, &format!("/api/auth/keys/{id}"), None).await?;
            say(format_args!("Revoked {id}; whoever uses it is refused from now on."));
        }
    }
    Ok(())
}
