//! Hearing that a server's tools changed.

use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::SubscriptionFilter;
use rmcp::service::{Peer, ServiceError, SubscriptionEnd};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::session::Session;

/// A server that announces a change for each of a thousand is asked once.
const QUIET: Duration = Duration::from_secs(1);
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Tells when to ask for the list of tools again.
#[derive(Debug)]
pub struct ToolsChanges {
    count: watch::Receiver<u64>,
    last: Option<Instant>,
}

impl ToolsChanges {
    pub(crate) fn new(session: &Session) -> Self {
        Self { count: session.tools_changes(), last: None }
    }

    /// Waits for a change since the last call, and for so long that changes are a second apart.
    /// Cancel-safe. `None` once the [`crate::Connection`] was dropped; that its server went away is
    /// not a change.
    pub async fn changed(&mut self) -> Option<()> {
        // A clone waits, and what it saw is marked as seen last: a cancelled wait forgets nothing.
        self.count.clone().changed().await.ok()?;
        if let Some(last) = self.last {
            tokio::time::sleep_until(last + QUIET).await;
        }
        self.count.mark_unchanged();
        self.last = Some(Instant::now());
        Some(())
    }
}

/// The standing request by which servers of the newer era announce changes; ends when dropped.
#[derive(Debug)]
pub(crate) struct Subscription(JoinHandle<()>);

impl Subscription {
    pub(crate) fn start(peer: Peer<RoleClient>, session: Session) -> Self {
        Self(tokio::spawn(async move {
            let mut pause = FIRST_PAUSE;
            while session.close_reason().is_none() {
                let started = Instant::now();
                let filter = SubscriptionFilter::builder().tools_list_changed().build();
                match peer.listen(filter).await {
                    Ok(mut subscription) => {
                        while let Ok(Some(_)) = subscription.next().await {}
                        if matches!(subscription.end(), Some(SubscriptionEnd::Graceful(_))) {
                            return;
                        }
                        if started.elapsed() > LONGEST_PAUSE {
                            pause = FIRST_PAUSE;
                        }
                    }
                    Err(ServiceError::McpError(_)) => return,
                    Err(_) => {}
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
                // Changes in between went unheard.
                session.note_tools_change();
            }
        }))
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.0.abort();
    }
}
