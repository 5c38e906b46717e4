//! The daemon, if one runs, and the address it is reached at.

use std::net::TcpListener;

use agentd_store::lock_holder;
use http::Method;
use serde::Deserialize;

use super::super::client::LocalClient;
use super::super::error::CliError;
use super::report::Report;
use crate::config::{Config, own_origin};

/// What a running daemon says of itself.
#[derive(Debug, Deserialize)]
pub(super) struct Running {
    version: String,
    bootstrap_mode: bool,
}

pub(super) async fn check(config: &Config, report: &mut Report) -> Option<Running> {
    const CHECK: &str = "daemon";
    let client = match LocalClient::running(config).await {
        Ok(Some(client)) => client,
        Ok(None) => {
            match lock_holder(&config.data_dir) {
                None => {
                    report.good(CHECK, "none runs");
                    check_port(config, report);
                }
                Some(pid) => report.broken(
                    CHECK,
                    format!("process {pid} uses the data directory but does not answer on its private socket"),
                    "wait if it is just starting; else look at its log, and end it",
                ),
            }
            return None;
        }
        Err(error) => {
            report.broken(CHECK, error.to_string(), "run the doctor as the daemon's user");
            return None;
        }
    };
    let running = match client.json::<Running>(Method::GET, "/api/health", None).await {
        Ok(running) => running,
        Err(error) => {
            report.broken(CHECK, format!("it runs, but: {error}"), "look at its log, and restart it if this stays");
            return None;
        }
    };
    if running.version == env!("CARGO_PKG_VERSION") {
        report.good(CHECK, format!("version {} runs and answers", running.version));
    } else {
        report.warning(
            CHECK,
            format!("version {} runs, this program is {}", running.version, env!("CARGO_PKG_VERSION")),
            "restart the daemon to run the program that you installed",
        );
    }
    match client.json::<serde_json::Value>(Method::GET, "/health/ready", None).await {
        Ok(_) => report.good("readiness", "the daemon takes work"),
        Err(CliError::Refused { message, .. }) => {
            report.broken("readiness", message, "it gets ready by itself; if it does not, look at its log");
        }
        Err(error) => report.broken("readiness", error.to_string(), "look at the daemon's log"),
    }
    Some(running)
}

fn check_port(config: &Config, report: &mut Report) {
    const CHECK: &str = "address";
    let address = config.listen;
    match TcpListener::bind(address) {
        Ok(_) => report.good(CHECK, format!("{address} is free")),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => report.broken(
            CHECK,
            format!("something else listens on {address}"),
            format!("choose another port with SVC_PORT; `ss -ltnp 'sport = :{}'` shows who it is", address.port()),
        ),
        Err(error) => report.broken(
            CHECK,
            format!("{address} cannot be listened on: {error}"),
            "choose an address of this machine with SVC_HOST, and a port above 1023",
        ),
    }
}

pub(super) fn check_exposure(config: &Config, running: Option<&Running>, report: &mut Report) {
    const CHECK: &str = "exposure";
    if config.listen.ip().is_loopback() {
        report.good(CHECK, format!("{} is reached from this machine alone", own_origin(config.listen)));
    } else if running.is_some_and(|running| running.bootstrap_mode) && !config.api_key_required {
        report.broken(
            CHECK,
            format!(
                "{} is reached from the network and no API key exists: whoever comes first owns the daemon",
                config.listen
            ),
            "make a key now: agentd keys create --name NAME",
        );
    } else {
        report.warning(
            CHECK,
            format!("{} is reached from the network without encryption", config.listen),
            "put a proxy with TLS in front, and name it in SVC_TRUSTED_PROXIES and SVC_BASE_URL",
        );
    }
}
