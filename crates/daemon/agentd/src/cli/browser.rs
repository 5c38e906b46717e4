//! `agentd browser`: control of the daemon's browser.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use http::Method;
use serde_json::{Map, Value, json};

use super::client::LocalClient;
use super::error::CliError;
use super::terminal::{one_line, print_json, print_line, print_message};
use crate::config::Config;

/// Request timeout. An action may take a minute, and the browser may have to start first.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);
/// Parameters that are numbers or booleans; all others are strings.
const NON_STRING_PARAMETERS: [&str; 8] = ["accept", "clear", "delay_ms", "idle_ms", "index", "timeout_ms", "x", "y"];

#[derive(Debug, Args)]
pub(super) struct BrowserArgs {
    #[command(subcommand)]
    command: BrowserCommand,
}

#[derive(Debug, Subcommand)]
enum BrowserCommand {
    /// Open a page and list its interactive elements
    #[command(
        after_help = "Example:\n  agentd browser open https://example.com",
        override_usage = "agentd browser open [OPTIONS] <URL>"
    )]
    Open {
        url: String,
        /// Open in a new tab
        #[arg(long)]
        new_tab: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List the interactive elements of the open page, numbered
    Snapshot {
        /// Include headings and text
        #[arg(long)]
        full: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Perform an action on the open page and list its elements
    #[command(
        after_help = "Examples:\n  agentd browser act click selector=@3\n  agentd browser act type_text selector=@4 text='Ada Lovelace' clear=true\n  agentd browser act press_key key=Enter\n  agentd browser act scroll y=600\n\nThe actions and their parameters are those of POST /api/browser/action.",
        override_usage = "agentd browser act [OPTIONS] <ACTION> [NAME=VALUE]..."
    )]
    Act {
        /// Action, such as click
        action: String,
        /// Parameters of the action
        parameters: Vec<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Save a screenshot of the open page
    #[command(after_help = "Example:\n  agentd browser screenshot page.png --full-page")]
    Screenshot {
        /// File to write; JPEG if the name ends in .jpg or .jpeg, otherwise PNG
        #[arg(default_value = "screenshot.png")]
        file: PathBuf,
        /// Capture the whole page instead of the visible part
        #[arg(long)]
        full_page: bool,
        /// Capture only this element
        #[arg(long)]
        selector: Option<String>,
    },
    /// Record and replay browser actions
    Record {
        #[command(subcommand)]
        command: RecordCommand,
    },
    /// Close the browser
    Close,
}

#[derive(Debug, Subcommand)]
enum RecordCommand {
    /// Start a recording
    #[command(override_usage = "agentd browser record start [OPTIONS] <NAME>")]
    Start { name: String },
    /// Stop the recording and show where it is stored
    Stop,
    /// List recordings
    List,
    /// Replay a recording
    #[command(override_usage = "agentd browser record replay [OPTIONS] <ID>")]
    Replay {
        /// Id of the recording, as listed by `agentd browser record list`
        id: String,
    },
}

pub(super) async fn run(config: &Config, arguments: BrowserArgs) -> Result<(), CliError> {
    // An offline daemon would close its browser at the end of this command.
    let running = LocalClient::running(config).await?;
    let client = running.ok_or_else(|| CliError::NotRunning { data_dir: config.data_dir.clone() })?;
    match arguments.command {
        BrowserCommand::Open { url, new_tab, json } => open(&client, url, new_tab, json).await,
        BrowserCommand::Snapshot { full, json } => snapshot(&client, full, json).await,
        BrowserCommand::Act { action, parameters, json } => {
            let mut fields = parse_parameters(&parameters)?;
            fields.insert("action".to_owned(), action.into());
            act(&client, fields, json).await
        }
        BrowserCommand::Screenshot { file, full_page, selector } => {
            screenshot(&client, file, full_page, selector).await
        }
        BrowserCommand::Record { command } => record(&client, command).await,
        BrowserCommand::Close => {
            let answer = ask(&client, Method::POST, "/api/browser/close", None).await?;
            print_message(if answer["closed"] == true { "Closed." } else { "No browser was open." });
            Ok(())
        }
    }
}

async fn ask(client: &LocalClient, method: Method, path: &str, body: Option<Value>) -> Result<Value, CliError> {
    client.json_within(REQUEST_TIMEOUT, method, path, body.as_ref()).await
}

/// Parses `name=value` pairs into the fields of an action.
fn parse_parameters(parameters: &[String]) -> Result<Map<String, Value>, CliError> {
    let mut fields = Map::new();
    for parameter in parameters {
        let Some((name, text)) = parameter.split_once('=') else {
            return Err(CliError::Usage(format!("`{parameter}` is not a parameter; use NAME=VALUE")));
        };
        let value = if NON_STRING_PARAMETERS.contains(&name) { serde_json::from_str(text).ok() } else { None };
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
        print_message("The browser had exited and was restarted.");
    }
    if let Some(dialog) = acted.get("dialog") {
        print_message(format_args!("The page asks ({}): {}", dialog["kind"], dialog["message"]));
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
        print_message("The list is truncated; the page has more elements.");
    }
    Ok(())
}

async fn screenshot(
    client: &LocalClient,
    file: PathBuf,
    full_page: bool,
    selector: Option<String>,
) -> Result<(), CliError> {
    let extension = file.extension().map(|extension| extension.to_string_lossy().to_lowercase());
    let format = if matches!(extension.as_deref(), Some("jpg" | "jpeg")) { "jpeg" } else { "png" };
    let body = json!({"format": format, "full_page": full_page, "selector": selector});
    let picture = client.bytes_within(REQUEST_TIMEOUT, Method::POST, "/api/browser/screenshot", Some(&body)).await?;
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
                return Err(CliError::Usage(format!("`{id}` is not a recording id")));
            }
            // A replay may take long.
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
    fn parameters_are_parsed_by_their_type() {
        let given = ["selector=a[href='x=y']", "text=5", "y=600", "clear=true", "timeout_ms=soon"].map(str::to_owned);
        let expected = json!({"selector": "a[href='x=y']", "text": "5", "y": 600, "clear": true, "timeout_ms": "soon"});
        assert_eq!(Value::Object(parse_parameters(&given).unwrap()), expected);
        assert!(parse_parameters(&["selector".to_owned()]).is_err());
    }
}
