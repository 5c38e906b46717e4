//! State that all tabs of one Chromium share, and commands to it whose outcome is only logged.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use serde::de::IgnoredAny;
use serde_json::Value;

use crate::cdp::{Connection, SessionId};
use crate::chromium::Folder;

/// A command that only looks something up.
pub(crate) const QUICK: Duration = Duration::from_secs(10);

/// What all tabs of a browser work with.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) connection: Connection,
    pub(crate) folder: Arc<Folder>,
    pub(crate) uploads: AtomicU64,
    pub(crate) upload_bytes: u64,
    pub(crate) dialog_time: Duration,
    pub(crate) viewport: (u32, u32),
    /// As Chromium names itself.
    pub(crate) version: String,
}

pub(crate) type Command = (Option<SessionId>, &'static str, Value);

/// A command whose outcome changes nothing here.
pub(crate) fn tell(shared: &Arc<Shared>, method: &'static str, parameters: Value) {
    tell_in_order(shared, vec![(None, method, parameters)]);
}

/// Each when the one before is done, or has failed.
pub(crate) fn tell_in_order(shared: &Arc<Shared>, commands: Vec<Command>) {
    let connection = shared.connection.clone();
    tokio::spawn(async move {
        for (session, method, parameters) in commands {
            if let Err(error) = connection.call::<IgnoredAny>(session.as_deref(), method, parameters, QUICK).await {
                tracing::debug!(%error, "a command was not carried out");
            }
        }
    });
}
