//! Notifications about changes to a server's tools.

use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::SubscriptionFilter;
use rmcp::service::{Peer, ServiceError, SubscriptionEnd};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::session::Session;

/// Minimum time between two reported changes; changes in between are merged.
const MIN_CHANGE_INTERVAL: Duration = Duration::from_secs(1);
const INITIAL_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(60);

/// Receiver that signals when the list of tools should be requested again.
#[derive(Debug)]
pub struct ToolsChanges {
    count: watch::Receiver<u64>,
    last: Option<Instant>,
}

impl ToolsChanges {
    pub(crate) fn new(session: &Session) -> Self {
        Self { count: session.tools_changes(), last: None }
    }

    /// Waits for a change since the last call; changes are reported at most once a second. Cancel-safe. Returns `None`
    /// once the [`crate::Connection`] was dropped; the loss of the server is not a change.
    pub async fn changed(&mut self) -> Option<()> {
        // A clone waits, and the value is marked as seen last, so that a cancelled wait loses no change.
        self.count.clone().changed().await.ok()?;
        if let Some(last) = self.last {
            tokio::time::sleep_until(last + MIN_CHANGE_INTERVAL).await;
        }
        self.count.mark_unchanged();
        self.last = Some(Instant::now());
        Some(())
    }
}

/// Long-running request by which servers of the newer protocol announce changes; cancelled on drop.
#[derive(Debug)]
pub(crate) struct Subscription(JoinHandle<()>);

impl Subscription {
    pub(crate) fn start(peer: Peer<RoleClient>, session: Session) -> Self {
        Self(tokio::spawn(async move {
            let mut backoff = INITIAL_BACKOFF;
            while session.close_reason().is_none() {
                let started = Instant::now();
                let filter = SubscriptionFilter::builder().tools_list_changed().build();
                match peer.listen(filter).await {
                    Ok(mut subscription) => {
                        while let Ok(Some(_)) = subscription.next().await {}
                        if matches!(subscription.end(), Some(SubscriptionEnd::Graceful(_))) {
                            return;
                        }
                        if started.elapsed() > MAX_BACKOFF {
                            backoff = INITIAL_BACKOFF;
                        }
                    }
                    Err(ServiceError::McpError(_)) => return,
                    Err(_) => {}
                }
                tokio::time::sleep(backoff).await;
                backoff = (backoff * 2).min(MAX_BACKOFF);
                // Changes in the meantime may have been missed.
                session.record_tools_change();
            }
        }))
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.0.abort();
    }
}
