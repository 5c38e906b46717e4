//! Responses to requests with an `Idempotency-Key`, stored in the transaction of the change.
//!
//! Two requests with the same key may both run, but only one can commit: the transaction of the other is rolled back
//! with `StoreError::IdempotencyConflict`.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use agentd_base::Timestamp;

use crate::read::Read;
use crate::{StoreError, Tx, args};

/// Retention of a stored response.
pub const IDEMPOTENCY_RETENTION: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum number of stored responses per credential, exceeded by at most one trim interval; the oldest are deleted.
pub const MAX_RESPONSES_PER_CREDENTIAL: u32 = 10_000;
/// Number of records between two trims, because counting is expensive.
const TRIM_INTERVAL: u64 = 64;

/// Response to a repeated request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredResponse {
    /// The first response is sent again.
    Answer { status: u16, body: String },
    /// The response contained a secret and was not stored; the repeat only receives the id of the created resource.
    AlreadyDone { id: String },
    /// The request started a stream; the repeat attaches to it.
    Reattach { id: String },
}

/// Recorded request, for comparison with a repeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRequest {
    pub method_and_path: String,
    pub body_hash: [u8; 32],
    pub answer: StoredResponse,
    pub created_at: Timestamp,
}

type Render<T> = Arc<dyn Fn(&T) -> StoredResponse + Send + Sync>;

struct Request<T: ?Sized> {
    credential: String,
    key: String,
    method_and_path: String,
    body_hash: [u8; 32],
    render: Render<T>,
}

/// Records the response to a change if its request has an idempotency key. Cheap to clone.
pub struct Recorder<T: ?Sized>(Option<Arc<Request<T>>>);

impl<T: ?Sized> Clone for Recorder<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: ?Sized> fmt::Debug for Recorder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Recorder").field(&self.0.is_some()).finish()
    }
}

impl<T: ?Sized> Recorder<T> {
    /// Returns a recorder for requests without a key, which records nothing.
    #[must_use]
    pub fn none() -> Self {
        Self(None)
    }

    /// Creates a recorder. `render` builds the response from the result of the change and may run more than once.
    /// `credential` is the id of the caller's credential, never the secret itself.
    #[must_use]
    pub fn new(
        credential: impl Into<String>,
        key: impl Into<String>,
        method_and_path: impl Into<String>,
        body_hash: [u8; 32],
        render: Render<T>,
    ) -> Self {
        Self(Some(Arc::new(Request {
            credential: credential.into(),
            key: key.into(),
            method_and_path: method_and_path.into(),
            body_hash,
            render,
        })))
    }

    /// Records the response together with the change. Call it inside the transaction, after everything else.
    ///
    /// # Errors
    /// `StoreError::IdempotencyConflict` if the key was used: return it to roll back the transaction.
    pub async fn record(&self, tx: &mut Tx, value: &T) -> Result<(), StoreError> {
        self.write(tx, value, None).await
    }

    /// Like [`record`](Self::record), but replaces an existing record for `id`, whose request had no effect.
    ///
    /// # Errors
    /// Errors of [`record`](Self::record), also if another request replaced the record first.
    pub async fn record_instead_of(&self, tx: &mut Tx, value: &T, id: &str) -> Result<(), StoreError> {
        self.write(tx, value, Some(id)).await
    }

    async fn write(&self, tx: &mut Tx, value: &T, instead_of: Option<&str>) -> Result<(), StoreError> {
        let Some(request) = &self.0 else { return Ok(()) };
        let (status, body, resource_id) = match (request.render)(value) {
            StoredResponse::Answer { status, body } => (Some(status), Some(body), None),
            StoredResponse::AlreadyDone { id } => (None, None, Some(id)),
            // A body without a status marks a stream.
            StoredResponse::Reattach { id } => (None, Some(String::new()), Some(id)),
        };
        let now = tx.clock().now();
        // An expired record that is not purged yet is replaced.
        let recorded = tx
            .execute(
                "INSERT INTO idempotency \
                 (credential, idempotency_key, request, body_hash, status, body, resource_id, created_at) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8) \
                 ON CONFLICT (credential, idempotency_key) DO UPDATE \
                 SET request = excluded.request, body_hash = excluded.body_hash, status = excluded.status, \
                 body = excluded.body, resource_id = excluded.resource_id, created_at = excluded.created_at \
                 WHERE idempotency.created_at < $9 OR idempotency.resource_id = $10",
                args![
                    &request.credential,
                    &request.key,
                    &request.method_and_path,
                    request.body_hash,
                    status,
                    body,
                    resource_id,
                    now,
                    now - IDEMPOTENCY_RETENTION,
                    instead_of
                ],
            )
            .await?;
        if recorded == 0 {
            return Err(StoreError::IdempotencyConflict);
        }
        if tx.shared.idempotency_records.fetch_add(1, Ordering::Relaxed).is_multiple_of(TRIM_INTERVAL) {
            tx.trim_responses(&request.credential, MAX_RESPONSES_PER_CREDENTIAL).await?;
        }
        Ok(())
    }
}

impl Read {
    /// Returns the record of a key, if it is at most 24 hours old.
    pub async fn find_response(&mut self, credential: &str, key: &str) -> Result<Option<StoredRequest>, StoreError> {
        let oldest = self.clock().now() - IDEMPOTENCY_RETENTION;
        let row = self
            .fetch_optional(
                "SELECT request, body_hash, status, body, resource_id, created_at FROM idempotency \
                 WHERE credential = $1 AND idempotency_key = $2 AND created_at >= $3",
                args![credential, key, oldest],
            )
            .await?;
        let Some(row) = row else { return Ok(None) };
        let answer = match (row.get("status")?, row.get("body")?, row.get::<Option<String>>("resource_id")?) {
            (Some(status), Some(body), _) => StoredResponse::Answer { status, body },
            (None, Some(_), Some(id)) => StoredResponse::Reattach { id },
            (_, _, id) => StoredResponse::AlreadyDone { id: id.unwrap_or_default() },
        };
        Ok(Some(StoredRequest {
            method_and_path: row.get("request")?,
            body_hash: row.get("body_hash")?,
            answer,
            created_at: row.get("created_at")?,
        }))
    }
}

impl Tx {
    /// Deletes all but the newest `keep` responses of a credential.
    pub async fn trim_responses(&mut self, credential: &str, keep: u32) -> Result<u64, StoreError> {
        self.execute(
            "DELETE FROM idempotency WHERE credential = $1 AND idempotency_key IN \
             (SELECT idempotency_key FROM idempotency WHERE credential = $1 \
             ORDER BY created_at DESC, idempotency_key LIMIT 1000 OFFSET $2)",
            args![credential, keep],
        )
        .await
    }

    /// Deletes up to `limit` responses older than 24 hours and returns their number. Call until the number is below
    /// `limit`.
    pub async fn purge_responses(&mut self, limit: u32) -> Result<u64, StoreError> {
        let before = self.clock().now() - IDEMPOTENCY_RETENTION;
        self.execute(
            "DELETE FROM idempotency WHERE (credential, idempotency_key) IN \
             (SELECT credential, idempotency_key FROM idempotency WHERE created_at < $1 ORDER BY created_at LIMIT $2)",
            args![before, limit],
        )
        .await
    }
}
