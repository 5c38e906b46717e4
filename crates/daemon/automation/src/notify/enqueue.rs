//! Taking messages, in the transaction of whoever has them.

use agentd_base::id::IdGenerator;
use agentd_core::vault::{SealedUrl, UnknownMask, Vault, write_url_secrets};
use agentd_store::{NewItem, StoreError, Tx};
use serde_json::json;

use super::error::NotifyError;
use super::model::{BODY_LIMIT, DEFAULT_ATTEMPTS, MOST_ATTEMPTS, Notification, NotificationId};
use super::store;

/// The queue of the messages.
pub(super) const QUEUE: &str = "notify";

/// As [`Notify::enqueue`](super::Notify::enqueue).
pub(super) async fn enqueue(
    tx: &mut Tx,
    ids: &IdGenerator,
    vault: &Vault,
    new: &Notification,
) -> Result<NotificationId, NotifyError> {
    if new.body.len() > BODY_LIMIT {
        return Err(NotifyError::BodyTooLarge { bytes: new.body.len() });
    }
    let id = NotificationId::generate(ids);
    let channel = new.target.channel();
    let sealed = SealedUrl::new(channel, None, UnknownMask::Leave).ok();
    let shown = sealed.as_ref().map_or(channel, |sealed| sealed.shown.as_str());
    if !store::insert_notification(tx, &id, new, shown).await? {
        let key = new.idempotency_key.as_deref().unwrap_or_default();
        return store::find_id_by_key(tx, key).await?.ok_or(NotifyError::NotFound);
    }
    if let Some(sealed) = &sealed {
        write_url_secrets(tx, vault, &store::secret_scope(&id), &sealed.secrets).await?;
    }
    let attempts = new.max_attempts.unwrap_or(DEFAULT_ATTEMPTS).clamp(1, MOST_ATTEMPTS);
    add_item(tx, &id, attempts).await?;
    Ok(id)
}

/// A queue item for a message that has none.
pub(super) async fn add_item(tx: &mut Tx, id: &NotificationId, max_attempts: u32) -> Result<(), StoreError> {
    let run_at = tx.clock().now();
    let payload = json!({"notification_id": id});
    let item = NewItem { queue: QUEUE.to_owned(), dedup_key: None, payload, run_at, max_attempts };
    let item = tx.enqueue(item).await?;
    store::update_item(tx, id, item.id()).await
}
