//! Model of queue items.

use agentd_base::Timestamp;
use agentd_base::trace::TraceContext;
use serde::de::DeserializeOwned;

use crate::row::Row;
use crate::value::{FromValue, IntoValue, Kind, Value, ValueError};
use crate::{StoreError, stored_ids};

/// Separates the lane from the rest of a deduplication key.
pub(super) const LANE_END: char = '/';

agentd_base::typed_id!(
    /// Id of a queue item.
    ItemId,
    "item"
);
stored_ids!(ItemId);

/// Item to be enqueued.
#[derive(Debug, Clone)]
pub struct NewItem {
    pub queue: String,
    /// Deduplication key, unique in the queue. The part before the first `/` is the item's lane, see
    /// [`Tx::claim_excluding_lanes`](crate::Tx::claim_excluding_lanes).
    pub dedup_key: Option<String>,
    pub payload: serde_json::Value,
    /// Earliest time of the first attempt.
    pub run_at: Timestamp,
    /// Maximum number of attempts, at least 1.
    pub max_attempts: u32,
}

/// Result of enqueuing an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Enqueued {
    New(ItemId),
    /// An item with the same deduplication key existed.
    Existing(ItemId),
}

impl Enqueued {
    #[must_use]
    pub fn id(&self) -> &ItemId {
        match self {
            Self::New(id) | Self::Existing(id) => id,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemStatus {
    Pending,
    Leased,
    Done,
    DeadLetter,
}

impl ItemStatus {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Leased => "leased",
            Self::Done => "done",
            Self::DeadLetter => "dead_letter",
        }
    }
}

impl IntoValue for ItemStatus {
    const KIND: Kind = Kind::Text;

    fn into_value(self) -> Result<Value, ValueError> {
        self.as_str().into_value()
    }
}

impl FromValue for ItemStatus {
    fn from_value(value: &Value) -> Result<Self, ValueError> {
        let text = String::from_value(value)?;
        [Self::Pending, Self::Leased, Self::Done, Self::DeadLetter]
            .into_iter()
            .find(|status| status.as_str() == text)
            .ok_or_else(|| ValueError::Other { reason: format!("`{text}` is not a status of a queue item") })
    }
}

/// Row of the queue.
#[derive(Debug, Clone)]
pub struct Item {
    pub id: ItemId,
    pub queue: String,
    pub dedup_key: Option<String>,
    pub payload: serde_json::Value,
    pub status: ItemStatus,
    pub run_at: Timestamp,
    /// Time from which it may be claimed; for a leased item, the end of the lease.
    pub due_at: Timestamp,
    /// Number of attempts begun since the last manual retry.
    pub attempt: u32,
    pub(super) fence: u32,
    pub max_attempts: u32,
    pub owner: Option<String>,
    /// Error of the last failed attempt.
    pub error: Option<String>,
    /// Trace context in which the item was enqueued.
    pub trace: Option<TraceContext>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl Item {
    pub(super) fn from_row(row: &Row) -> Result<Self, StoreError> {
        Ok(Self {
            id: row.get("id")?,
            queue: row.get("queue")?,
            dedup_key: row.get("dedup_key")?,
            payload: row.json("payload")?,
            status: row.get("status")?,
            run_at: row.get("run_at")?,
            due_at: row.get("due_at")?,
            attempt: row.get("attempt")?,
            fence: row.get("fence")?,
            max_attempts: row.get("max_attempts")?,
            owner: row.get("owner")?,
            error: row.get("error")?,
            trace: row.trace()?,
            created_at: row.get("created_at")?,
            updated_at: row.get("updated_at")?,
        })
    }

    pub(super) fn into_lease(self, owner: &str) -> Lease {
        Lease {
            id: self.id,
            queue: self.queue,
            dedup_key: self.dedup_key,
            owner: owner.to_owned(),
            attempt: self.attempt,
            fence: self.fence,
            max_attempts: self.max_attempts,
            payload: self.payload,
            run_at: self.run_at,
            trace: self.trace,
            lease_until: self.due_at,
        }
    }
}

/// Lease on an item, valid until `lease_until`.
#[derive(Debug, Clone)]
pub struct Lease {
    pub id: ItemId,
    pub queue: String,
    pub dedup_key: Option<String>,
    pub owner: String,
    /// Number of the attempt, starting at 1.
    pub attempt: u32,
    pub(super) fence: u32,
    pub max_attempts: u32,
    pub payload: serde_json::Value,
    pub run_at: Timestamp,
    pub trace: Option<TraceContext>,
    pub lease_until: Timestamp,
}

impl Lease {
    /// Returns the lane of the item, if it has one.
    #[must_use]
    pub fn lane(&self) -> Option<&str> {
        Some(self.dedup_key.as_deref()?.split_once(LANE_END)?.0)
    }

    /// Deserializes the payload.
    ///
    /// # Errors
    /// `StoreError::Column` if the payload is not a valid `T`.
    pub fn payload<T: DeserializeOwned>(&self) -> Result<T, StoreError> {
        T::deserialize(&self.payload).map_err(|source| StoreError::Column {
            column: "payload".to_owned(),
            source: ValueError::Json { source: std::sync::Arc::new(source) },
        })
    }
}

/// Number of items in each state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueStats {
    pub pending: u64,
    pub leased: u64,
    pub done: u64,
    pub dead_letter: u64,
}
