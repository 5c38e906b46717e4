//! `Idempotency-Key`, the store's half: the record is written in the transaction of the change.

use std::sync::Arc;

use agentd_store::{Db, Recorder, StoredAnswer};
use agentd_web::{ApiError, FoundRecord, IdempotencyKey, IdempotencyLedger, KnownRequest, ReplayedAnswer};
use futures_util::future::BoxFuture;
use http::StatusCode;
use serde::Serialize;

/// A recorder that keeps the answer, to be given again to the letter.
#[must_use]
pub fn record_once<T, A, F>(once: &IdempotencyKey, status: StatusCode, view: F) -> Recorder<T>
where
    A: Serialize,
    F: Fn(&T) -> A + Send + Sync + 'static,
{
    recorder(once, move |value| StoredAnswer::Answer {
        status: status.as_u16(),
        body: serde_json::to_string(&view(value)).unwrap_or_default(),
    })
}

/// A recorder for an answer with a secret: only the id of what was made is kept.
#[must_use]
pub fn record_secret_once<T, F>(once: &IdempotencyKey, id: F) -> Recorder<T>
where
    F: Fn(&T) -> String + Send + Sync + 'static,
{
    recorder(once, move |value| StoredAnswer::AlreadyDone { id: id(value) })
}

/// A recorder for a request that starts a stream: a repeat attaches to the stream again.
#[must_use]
pub fn record_stream_once<T, F>(once: &IdempotencyKey, id: F) -> Recorder<T>
where
    F: Fn(&T) -> String + Send + Sync + 'static,
{
    recorder(once, move |value| StoredAnswer::Reattach { id: id(value) })
}

fn recorder<T>(once: &IdempotencyKey, render: impl Fn(&T) -> StoredAnswer + Send + Sync + 'static) -> Recorder<T> {
    match &once.0 {
        None => Recorder::none(),
        Some(request) => Recorder::new(
            request.credential_id.as_ref(),
            &request.key,
            &request.endpoint,
            request.fingerprint,
            Arc::new(render),
        ),
    }
}

/// Finds stored answers for the HTTP layer.
#[derive(Debug, Clone)]
pub struct StoredLedger(pub Db);

impl IdempotencyLedger for StoredLedger {
    fn find<'a>(&'a self, request: &'a KnownRequest) -> BoxFuture<'a, Result<Option<FoundRecord>, ApiError>> {
        Box::pin(async move {
            let mut read = self.0.read().await?;
            let found = read.find_answer(&request.credential_id, &request.key).await?;
            Ok(found.map(|stored| {
                let answer = match stored.answer {
                    StoredAnswer::Answer { status, body } => ReplayedAnswer::Answer { status, body },
                    StoredAnswer::AlreadyDone { id } => ReplayedAnswer::AlreadyDone { id },
                    StoredAnswer::Reattach { id } => ReplayedAnswer::Reattach { id },
                };
                (stored.body_hash, answer)
            }))
        })
    }
}
