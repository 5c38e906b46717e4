//! Storage of tool lists.

use agentd_base::Clock;
use agentd_store::{Db, Tx};

use super::change::ToolServerId;
use super::connect::Session;
use super::listing::Listing;
use super::load::Spec;
use super::store;

/// Stores the tool lists of a server.
#[derive(Clone)]
pub(super) struct Listings {
    pub(super) db: Db,
    pub(super) clock: Clock,
    pub(super) id: ToolServerId,
}

impl Listings {
    pub(super) async fn store_for_spec(&self, spec: &Spec, listing: &Listing) {
        self.store_revision(spec.revision, listing).await;
    }

    pub(super) async fn store_for_session(&self, session: &Session, listing: &Listing) {
        self.store_revision(session.revision, listing).await;
    }

    async fn store_revision(&self, revision: i64, listing: &Listing) {
        let Ok(text) = serde_json::to_string(listing) else { return };
        let (id, now) = (self.id.clone(), self.clock.now());
        let stored = self.db.write(async move |tx: &mut Tx| {
            let known = store::find_listing(tx, &id).await?;
            if known.is_none_or(|(known, _)| known != text) {
                store::upsert_listing(tx, &id, revision, &text, now).await?;
            }
            Ok::<_, agentd_store::StoreError>(())
        });
        if let Err(error) = stored.await {
            tracing::warn!(%error, "failed to store the tool list of a tool server");
        }
    }
}
