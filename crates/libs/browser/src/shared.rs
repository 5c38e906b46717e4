//! State shared by all tabs of one Chromium, and commands whose outcome is only logged.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use serde::de::IgnoredAny;
use serde_json::Value;

use crate::cdp::{Connection, SessionId};
use crate::chromium::Folder;

/// Default time limit of a protocol command.
pub(crate) const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);

/// State shared by all tabs of a browser.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) connection: Connection,
    pub(crate) folder: Arc<Folder>,
    pub(crate) uploads: AtomicU64,
    pub(crate) upload_bytes: u64,
    pub(crate) dialog_timeout: Duration,
    pub(crate) viewport: (u32, u32),
    /// Version as reported by Chromium.
    pub(crate) version: String,
}

pub(crate) type Command = (Option<SessionId>, &'static str, Value);

/// Sends a command without waiting for its outcome, which is only logged.
pub(crate) fn send(shared: &Arc<Shared>, method: &'static str, parameters: Value) {
    send_in_order(shared, vec![(None, method, parameters)]);
}

/// Sends commands one after the other, each after the previous one has completed or failed.
pub(crate) fn send_in_order(shared: &Arc<Shared>, commands: Vec<Command>) {
    let connection = shared.connection.clone();
    tokio::spawn(async move {
        for (session, method, parameters) in commands {
            if let Err(error) =
                connection.call::<IgnoredAny>(session.as_deref(), method, parameters, COMMAND_TIMEOUT).await
            {
                tracing::debug!(%error, "browser command failed");
            }
        }
    });
}
