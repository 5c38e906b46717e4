//! `agentd browser`: the daemon's browser, for a person or a script.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use http::Method;
use serde_json::{Map, Value, json};

use super::client::LocalClient;
use super::error::CliError;
use super::terminal::{one_line, print_json, print_line, say};
use crate::config::Config;

/// An action may take a minute, and the browser has to start first.
const TIME_LIMIT: Duration = Duration::from_secs(120);
/// Parameters that are numbers and switches; all others are texts, whatever they look like.
const NOT_TEXT: [&str; 8] = ["accept", "clear", "delay_ms", "idle_ms", "index", "timeout_ms", "x", "y"];

#[derive(Debug, Args)]
pub(super) struct BrowserArgs {
    #[command(subcommand)]
    command: BrowserCommand,
}

#[derive(Debug, Subcommand)]
enum BrowserCommand {
    /// Open a page, and show what something can be done with on it
    #[command(
        after_help = "Example:\n  agentd browser open https://example.com",
        override_usage = "agentd browser open [OPTIONS] <URL>"
    )]
    Open {
        url: String,
        /// In a tab of its own
        #[arg(long)]
        new_tab: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show what something can be done with on the open page, numbered
    Snapshot {
        /// Headings and text as well
        #[arg(long)]
        full: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Do something on the open page, and show the page after it
    #[command(
        after_help = "Examples:\n  agentd browser act click selector=@3\n  agentd browser act type_text selector=@4 text='Ada Lovelace' clear=true\n  agentd browser act press_key key=Enter\n  agentd browser act scroll y=600\n\nThe actions and their parameters are those of POST /api/browser/action.",
        override_usage = "agentd browser act [OPTIONS] <ACTION> [NAME=VALUE]..."
    )]
    Act {
        /// Such as click
        action: String,
        /// Its parameters
        parameters: Vec<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Draw the open page into a file
    #[command(after_help = "Example:\n  agentd browser screenshot page.png --full-page")]
    Screenshot {
        /// PNG, or JPEG where the name ends so
        #[arg(default_value = "screenshot.png")]
        file: PathBuf,
        /// The whole page and not only what is in the window
        #[arg(long)]
        full_page: bool,
        /// One element alone
        #[arg(long)]
        selector: Option<String>,
    },
    /// Record what is done in the browser, to be replayed
    Record {
        #[command(subcommand)]
        command: RecordCommand,
    },
    /// Close the browser
    Close,
}

#[derive(Debug, Subcommand)]
enum RecordCommand {
    /// Begin a recording
    #[command(override_usage = "agentd browser record start [OPTIONS] <NAME>")]
    Start { name: String },
    /// End it, and show where it is
    Stop,
    /// Show every recording
    List,
    /// Do again what was recorded
    #[command(override_usage = "agentd browser record replay [OPTIONS] <ID>")]
    Replay {
        /// As `agentd browser record list` shows it
        id: String,
    },
}

pub(super) async fn run(config: &Config, arguments: BrowserArgs) -> Result<(), CliError> {
    // One that only this command composed would take its browser along.
    let running = LocalClient::running(config).await?;
    let client = running.ok_or_else(|| CliError::NotRunning { data_dir: config.data_dir.clone() })?;
    match arguments.command {
        BrowserCommand::Open { url, new_tab, json } => open(&client, url, new_tab, json).await,
        BrowserCommand::Snapshot { full, json } => snapshot(&client, full, json).await,
        BrowserCommand::Act { action, parameters, json } => {
            let mut fields = parsed(&parameters)?;
            fields.insert("action".to_owned(), action.into());
            act(&client, fields, json).await
        }
        BrowserCommand::Screenshot { file, full_page, selector } => {
            screenshot(&client, file, full_page, selector).await
        }
        BrowserCommand::Record { command } => record(&client, command).await,
        BrowserCommand::Close => {
            let answer = ask(&client, Method::POST, "/api/browser/close", None).await?;
            say(if answer["closed"] == true { "Closed." } else { "There was none." });
            Ok(())
        }
    }
}

async fn ask(client: &LocalClient, method: Method, path: &str, body: Option<Value>) -> Result<Value, CliError> {
    client.json_within(TIME_LIMIT, method, path, body.as_ref()).await
}

/// `name=value` pairs as the fields of an action.
fn parsed(parameters: &[String]) -> Result<Map<String, Value>, CliError> {
    let mut fields = Map::new();
    for parameter in parameters {
        let Some((name, text)) = parameter.split_once('=') else {
            return Err(CliError::Usage(format!("`{parameter}` is no parameter; write it as NAME=VALUE")));
        };
        let value = if NOT_TEXT.contains(&name) { serde_json::from_str(text).ok() } else { None };
        fields.insert(name.to_owned(), value.unwrap_or_else(|| text.into()));
    }
    Ok(fields)
}

async fn open(client: &LocalClient, url: String, new_tab: bool, json: bool) -> Result<(), CliError> {
    let mut fields = Map::from_iter([("action".to_owned(), "goto".into()), ("url".to_owned(), url.into())]);
    if new_tab {
        let tab = ask(client, Method::POST, "/api/browser/tabs", Some(json!({}))).await?;
        fields.insert("tab_id".to_owned(), tab["tab_id"].clone());
    }
    act(client, fields, json).await
}

async fn act(client: &LocalClient, fields: Map<String, Value>, json: bool) -> Result<(), CliError> {
    let acted = ask(client, Method::POST, "/api/browser/action", Some(Value::Object(fields))).await?;
    if json {
        print_json(&acted);
        return Ok(());
    }
    if acted["restarted"] == true {
        say("The browser had ended and was started anew.");
    }
    if let Some(dialog) = acted.get("dialog") {
        say(format_args!("The page asks ({}): {}", dialog["kind"], dialog["message"]));
    }
    print_line(one_line(acted["url"].as_str().unwrap_or_default()));
    print_line(one_line(acted["title"].as_str().unwrap_or_default()));
    if acted.get("dialog").is_some_and(|dialog| dialog["answer"].is_null()) {
        return Ok(());
    }
    snapshot(client, false, false).await
}

async fn snapshot(client: &LocalClient, full: bool, json: bool) -> Result<(), CliError> {
    let snapshot = ask(client, Method::GET, &format!("/api/browser/snapshot?full={full}"), None).await?;
    if json {
        print_json(&snapshot);
        return Ok(());
    }
    print_line(snapshot["snapshot"].as_str().unwrap_or_default().trim_end());
    if snapshot["truncated"] == true {
        say("There is more on the page than is listed.");
    }
    Ok(())
}

async fn screenshot(
    client: &LocalClient,
    file: PathBuf,
    full_page: bool,
    selector: Option<String>,
) -> Result<(), CliError> {
    let ending = file.extension().map(|ending| ending.to_string_lossy().to_lowercase());
    let format = if matches!(ending.as_deref(), Some("jpg" | "jpeg")) { "jpeg" } else { "png" };
    let body = json!({"format": format, "full_page": full_page, "selector": selector});
    let picture = client.bytes_within(TIME_LIMIT, Method::POST, "/api/browser/screenshot", Some(&body)).await?;
    std::fs::write(&file, picture).map_err(CliError::file("writing", &file))?;
    print_line(format_args!("{}", file.display()));
    Ok(())
}

async fn record(client: &LocalClient, command: RecordCommand) -> Result<(), CliError> {
    let answer = match command {
        RecordCommand::Start { name } => {
            ask(client, Method::POST, "/api/browser/recording/start", Some(json!({"name": name}))).await?
        }
        RecordCommand::Stop => ask(client, Method::POST, "/api/browser/recording/stop", None).await?,
        RecordCommand::List => ask(client, Method::GET, "/api/browser/recordings", None).await?,
        RecordCommand::Replay { id } => {
            if !id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
                return Err(CliError::Usage(format!("`{id}` is no id of a recording")));
            }
            // As long as it takes.
            let path = format!("/api/browser/recordings/{id}/replay");
            client.json_within(Duration::from_secs(3_600), Method::POST, &path, None).await?
        }
    };
    print_json(&answer);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_what_the_api_takes() {
        let given = ["selector=a[href='x=y']", "text=5", "y=600", "clear=true", "timeout_ms=soon"].map(str::to_owned);
        let expected = json!({"selector": "a[href='x=y']", "text": "5", "y": 600, "clear": true, "timeout_ms": "soon"});
        assert_eq!(Value::Object(parsed(&given).unwrap()), expected);
        assert!(parsed(&["selector".to_owned()]).is_err());
    }
}
