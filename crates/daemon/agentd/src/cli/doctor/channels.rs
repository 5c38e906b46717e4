//! The chat platforms that are on.

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

/// Says nothing while no daemon runs: it is the one that talks to platforms.
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
            let remedy =
                "correct its credentials with PUT /api/channels/settings; docs/guide/channels.md says where they are";
            return report.broken(CHECK, format!("{platform}: {message}"), remedy);
        }
        Err(error) => return report.broken(CHECK, format!("{platform}: {error}"), "look at the daemon's log"),
    };
    let name = &checked.account_name;
    if channel.mode == "connect" {
        return report_connection(channel, name, report);
    }
    if let Some(url) = checked.webhook_url.as_deref().filter(|url| *url != channel.webhook_url) {
        let told = if url.is_empty() { "nowhere".to_owned() } else { format!("to {url}") };
        let finding = format!("{platform} sends {told}, and this daemon is at {}", channel.webhook_url);
        return report.warning(CHECK, finding, format!("run `agentd channels register {platform}`"));
    }
    if let Some(error) = checked.last_error.as_ref().or(channel.last_error.as_ref()) {
        let finding = format!("{platform} answers as `{name}`, but: {error}");
        return report.warning(
            CHECK,
            finding,
            "look whether SVC_BASE_URL is reached from outside, and at the daemon's log",
        );
    }
    let last = channel.last_received_at.as_deref().unwrap_or("never");
    report.good(CHECK, format!("{platform} answers as `{name}`; last message: {last}"));
}

/// Its address is nothing to the platform.
fn report_connection(channel: &Channel, name: &str, report: &mut Report) {
    let platform = &channel.platform;
    let last = channel.last_received_at.as_deref().unwrap_or("never");
    match (channel.status.as_str(), &channel.last_error) {
        ("connected", _) => {
            report.good(CHECK, format!("{platform} is connected as `{name}`; last message: {last}"));
        }
        (_, Some(error)) => {
            let remedy = "docs/guide/channels.md says which switches and tokens a connection takes";
            report.warning(CHECK, format!("{platform} answers as `{name}`, but: {error}"), remedy);
        }
        (_, None) => {
            let finding = format!("{platform} answers as `{name}`, and no connection stands");
            report.warning(CHECK, finding, "look again in a minute, and at the daemon's log");
        }
    }
}
