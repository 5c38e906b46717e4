//! What stands in the queue.

use agentd_base::Timestamp;
use agentd_base::trace::TraceContext;
use serde::de::DeserializeOwned;

use crate::row::Row;
use crate::value::{FromValue, IntoValue, Kind, Value, ValueError};
use crate::{StoreError, stored_ids};

/// Ends the name of a lane in a deduplication key.
pub(super) const LANE_END: char = '/';

agentd_base::typed_id!(
    /// The id of a queue item.
    ItemId,
    "item"
);
stored_ids!(ItemId);

/// An item to be added.
#[derive(Debug, Clone)]
pub struct NewItem {
    pub queue: String,
    /// At most one item of the queue has it. What precedes the first `/` names the item's lane, see
    /// [`Tx::claim_outside`](crate::Tx::claim_outside).
    pub dedup_key: Option<String>,
    pub payload: serde_json::Value,
    /// Not before.
    pub run_at: Timestamp,
    /// At least 1.
    pub max_attempts: u32,
}

/// What became of an item that was to be added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Enqueued {
    New(ItemId),
    /// One with the same deduplication key was there.
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

/// A row of the queue.
#[derive(Debug, Clone)]
pub struct Item {
    pub id: ItemId,
    pub queue: String,
    pub dedup_key: Option<String>,
    pub payload: serde_json::Value,
    pub status: ItemStatus,
    pub run_at: Timestamp,
    /// When it may be claimed; of a leased one, when the lease ends.
    pub due_at: Timestamp,
    /// How many attempts were begun, since the last retry by hand.
    pub attempt: u32,
    pub(super) fence: u32,
    pub max_attempts: u32,
    pub owner: Option<String>,
    /// What the last failed attempt said.
    pub error: Option<String>,
    /// Where in a trace it was added, if anywhere.
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

/// The right to work on an item, until `lease_until` at least.
#[derive(Debug, Clone)]
pub struct Lease {
    pub id: ItemId,
    pub queue: String,
    pub dedup_key: Option<String>,
    pub owner: String,
    /// 1 for the first.
    pub attempt: u32,
    pub(super) fence: u32,
    pub max_attempts: u32,
    pub payload: serde_json::Value,
    pub run_at: Timestamp,
    pub trace: Option<TraceContext>,
    pub lease_until: Timestamp,
}

impl Lease {
    /// The lane of the item, if it is in one.
    #[must_use]
    pub fn lane(&self) -> Option<&str> {
        Some(self.dedup_key.as_deref()?.split_once(LANE_END)?.0)
    }

    /// The payload as a `T`.
    ///
    /// # Errors
    /// `StoreError::Column` when it is none.
    pub fn payload<T: DeserializeOwned>(&self) -> Result<T, StoreError> {
        T::deserialize(&self.payload).map_err(|source| StoreError::Column {
            column: "payload".to_owned(),
            source: ValueError::Json { source: std::sync::Arc::new(source) },
        })
    }
}

/// How many items are in each state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueStats {
    pub pending: u64,
    pub leased: u64,
    pub done: u64,
    pub dead_letter: u64,
}
