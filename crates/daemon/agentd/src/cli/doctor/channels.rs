//! Check of enabled chat platforms.

use http::Method;
use serde::Deserialize;

use super::super::client::LocalClient;
use super::super::error::CliError;
use super::report::Report;
use crate::config::Config;

const CHECK: &str = "channels";

#[derive(Deserialize)]
struct All {
    channels: Vec<Channel>,
}

#[derive(Deserialize)]
struct Channel {
    platform: String,
    enabled: bool,
    mode: String,
    status: String,
    webhook_url: String,
    last_received_at: Option<String>,
    last_error: Option<String>,
}

#[derive(Deserialize)]
struct Checked {
    account_name: String,
    webhook_url: Option<String>,
    last_error: Option<String>,
}

/// Checks the platforms through the running daemon; reports nothing if no daemon runs.
pub(super) async fn check(config: &Config, report: &mut Report) {
    let Ok(Some(client)) = LocalClient::running(config).await else { return };
    if let Ok(all) = client.json::<All>(Method::GET, "/api/channels", None).await {
        for channel in all.channels.into_iter().filter(|channel| channel.enabled) {
            check_one(&client, &channel, report).await;
        }
    }
    client.close().await;
}

async fn check_one(client: &LocalClient, channel: &Channel, report: &mut Report) {
    let platform = &channel.platform;
    let path = format!("/api/channels/{platform}/check");
    let checked = match client.json::<Checked>(Method::POST, &path, None).await {
        Ok(checked) => checked,
        Err(CliError::Refused { message, .. }) => {
            let remedy = "correct its credentials with PUT /api/channels/settings; see docs/guides/channels.md for where to find them";
            return report.broken(CHECK, format!("{platform}: {message}"), remedy);
        }
        Err(error) => return report.broken(CHECK, format!("{platform}: {error}"), "check the daemon's log"),
    };
    let name = &checked.account_name;
    if channel.mode == "connect" {
        return report_connection(channel, name, report);
    }
    if let Some(url) = checked.webhook_url.as_deref().filter(|url| *url != channel.webhook_url) {
        let target = if url.is_empty() { "has no webhook".to_owned() } else { format!("sends to {url}") };
        let finding = format!("{platform} {target}, but this daemon is at {}", channel.webhook_url);
        return report.warning(CHECK, finding, format!("run `agentd channels register {platform}`"));
    }
    if let Some(error) = checked.last_error.as_ref().or(channel.last_error.as_ref()) {
        let finding = format!("{platform} works as `{name}`, but: {error}");
        return report.warning(
            CHECK,
            finding,
            "check that SVC_BASE_URL is reachable from the internet, and check the daemon's log",
        );
    }
    let last = channel.last_received_at.as_deref().unwrap_or("never");
    report.good(CHECK, format!("{platform} works as `{name}`; last message: {last}"));
}

/// Reports a platform in connect mode, which needs no public URL.
fn report_connection(channel: &Channel, name: &str, report: &mut Report) {
    let platform = &channel.platform;
    let last = channel.last_received_at.as_deref().unwrap_or("never");
    match (channel.status.as_str(), &channel.last_error) {
        ("connected", _) => {
            report.good(CHECK, format!("{platform} is connected as `{name}`; last message: {last}"));
        }
        (_, Some(error)) => {
            let remedy = "see docs/guides/channels.md for the settings and tokens that a connection needs";
            report.warning(CHECK, format!("{platform} works as `{name}`, but: {error}"), remedy);
        }
        (_, None) => {
            let finding = format!("{platform} works as `{name}`, but is not connected");
            report.warning(CHECK, finding, "check again in a minute, and check the daemon's log");
        }
    }
}
