//! Checks of the running daemon and of its address.

use std::net::TcpListener;

use agentd_store::lock_holder;
use http::Method;
use serde::Deserialize;

use super::super::client::LocalClient;
use super::super::error::CliError;
use super::report::Report;
use crate::config::{Config, own_origin};

/// Health response of a running daemon.
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
                    report.good(CHECK, "not running");
                    check_port(config, report);
                }
                Some(pid) => report.broken(
                    CHECK,
                    format!("process {pid} uses the data directory but does not respond on its private socket"),
                    "wait if it is starting; otherwise check its log and stop it",
                ),
            }
            return None;
        }
        Err(error) => {
            report.broken(CHECK, error.to_string(), "run this command as the daemon's user");
            return None;
        }
    };
    let running = match client.json::<Running>(Method::GET, "/api/health", None).await {
        Ok(running) => running,
        Err(error) => {
            report.broken(CHECK, format!("running, but: {error}"), "check its log, and restart it if this persists");
            return None;
        }
    };
    if running.version == env!("CARGO_PKG_VERSION") {
        report.good(CHECK, format!("version {} is running", running.version));
    } else {
        report.warning(
            CHECK,
            format!(
                "version {} is running, but this program is version {}",
                running.version,
                env!("CARGO_PKG_VERSION")
            ),
            "restart the daemon to use the installed version",
        );
    }
    match client.json::<serde_json::Value>(Method::GET, "/health/ready", None).await {
        Ok(_) => report.good("readiness", "the daemon is ready"),
        Err(CliError::Refused { message, .. }) => {
            report.broken("readiness", message, "wait until the daemon is ready; if this persists, check its log");
        }
        Err(error) => report.broken("readiness", error.to_string(), "check the daemon's log"),
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
            format!("another process listens on {address}"),
            format!(
                "choose another port with SVC_PORT, or find the process with `ss -ltnp 'sport = :{}'`",
                address.port()
            ),
        ),
        Err(error) => report.broken(
            CHECK,
            format!("cannot listen on {address}: {error}"),
            "set SVC_HOST to an address of this machine, and SVC_PORT to a port above 1023",
        ),
    }
}

pub(super) fn check_exposure(config: &Config, running: Option<&Running>, report: &mut Report) {
    const CHECK: &str = "exposure";
    if config.listen.ip().is_loopback() {
        report.good(CHECK, format!("{} is reachable only from this machine", own_origin(config.listen)));
    } else if running.is_some_and(|running| running.bootstrap_mode) && !config.api_key_required {
        report.broken(
            CHECK,
            format!(
                "{} is reachable from the network and no API key exists: the first client can take over the daemon",
                config.listen
            ),
            "create a key now: agentd keys create --name NAME",
        );
    } else {
        report.warning(
            CHECK,
            format!("{} is reachable from the network without encryption", config.listen),
            "use a TLS proxy, and configure it in SVC_TRUSTED_PROXIES and SVC_BASE_URL",
        );
    }
}
