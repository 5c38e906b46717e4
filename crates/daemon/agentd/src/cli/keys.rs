//! `agentd keys`: management of API keys, also if all keys are lost.

use clap::{Args, Subcommand, ValueEnum};
use http::Method;
use serde::Deserialize;
use serde_json::json;

use super::client::LocalClient;
use super::error::CliError;
use super::terminal::{print_json, print_line, print_message, table, write_line};
use crate::config::Config;

#[derive(Debug, Args)]
pub(super) struct KeysArgs {
    #[command(subcommand)]
    command: KeysCommand,
}

#[derive(Debug, Subcommand)]
enum KeysCommand {
    /// Create a key and print only the key; it is not shown again
    #[command(
        after_help = "Examples:\n  agentd keys create --name laptop\n  export SVC_API_KEY=$(agentd keys create --name chat)\n  agentd keys create --name grafana --scope read --description \"dashboards\"",
        override_usage = "agentd keys create [OPTIONS] --name <NAME>"
    )]
    Create {
        /// Display name of the key
        #[arg(long)]
        name: String,
        /// Scope of the key: `read` for read-only access, `full` for everything
        #[arg(long, value_enum, default_value_t = Scope::Full)]
        scope: Scope,
        /// Purpose of the key
        #[arg(long)]
        description: Option<String>,
    },
    /// List keys without their secrets
    #[command(after_help = "Examples:\n  agentd keys list\n  agentd keys list --json | jq -r '.keys[].id'")]
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Revoke a key permanently, with immediate effect
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

/// Revokes a key that could not be printed.
async fn revoke_unprinted(client: &LocalClient, id: String, source: std::io::Error) -> CliError {
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
        return Err(CliError::Usage(format!("`{id}` is not a key id; list the ids with `agentd keys list`")));
    }
    let client = LocalClient::connect(config).await?;
    let outcome = execute(&client, arguments.command).await;
    client.close().await;
    outcome
}

async fn execute(client: &LocalClient, command: KeysCommand) -> Result<(), CliError> {
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
            let created: Created = client.json(Method::POST, "/api/auth/keys", Some(&body)).await?;
            if let Err(source) = write_line(created.key.as_str()) {
                return Err(revoke_unprinted(client, created.id, source).await);
            }
            print_message(format_args!(
                "Created the key `{}` ({}, scope {scope}). Store it now: it is not shown again.",
                created.name, created.id
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
                print_message("No keys. Create one with `agentd keys create --name NAME`.");
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
            print_message(format_args!("Revoked {id}. Requests with this key are now rejected."));
        }
    }
    Ok(())
}
