//! Storage of `Idempotency-Key` records. A record is written in the transaction of the change.

use std::sync::Arc;

use agentd_store::{Db, Recorder, StoredResponse};
use agentd_web::{ApiError, FoundRecord, IdempotencyKey, IdempotencyLedger, KnownRequest, ReplayedAnswer};
use futures_util::future::BoxFuture;
use http::StatusCode;
use serde::Serialize;

/// Creates a recorder that stores the response, which a repeat receives verbatim.
#[must_use]
pub fn record_once<T, A, F>(once: &IdempotencyKey, status: StatusCode, view: F) -> Recorder<T>
where
    A: Serialize,
    F: Fn(&T) -> A + Send + Sync + 'static,
{
    recorder(once, move |value| StoredResponse::Answer {
        status: status.as_u16(),
        body: serde_json::to_string(&view(value)).unwrap_or_default(),
    })
}

/// Creates a recorder for a response with a secret. It stores only the id of the created resource.
#[must_use]
pub fn record_secret_once<T, F>(once: &IdempotencyKey, id: F) -> Recorder<T>
where
    F: Fn(&T) -> String + Send + Sync + 'static,
{
    recorder(once, move |value| StoredResponse::AlreadyDone { id: id(value) })
}

/// Creates a recorder for a request that starts a stream. A repeat attaches to the existing stream.
#[must_use]
pub fn record_stream_once<T, F>(once: &IdempotencyKey, id: F) -> Recorder<T>
where
    F: Fn(&T) -> String + Send + Sync + 'static,
{
    recorder(once, move |value| StoredResponse::Reattach { id: id(value) })
}

fn recorder<T>(once: &IdempotencyKey, render: impl Fn(&T) -> StoredResponse + Send + Sync + 'static) -> Recorder<T> {
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

/// Looks up stored responses for the HTTP layer.
#[derive(Debug, Clone)]
pub struct StoredLedger(pub Db);

impl IdempotencyLedger for StoredLedger {
    fn find<'a>(&'a self, request: &'a KnownRequest) -> BoxFuture<'a, Result<Option<FoundRecord>, ApiError>> {
        Box::pin(async move {
            let mut read = self.0.read().await?;
            let found = read.find_response(&request.credential_id, &request.key).await?;
            Ok(found.map(|stored| {
                let answer = match stored.answer {
                    StoredResponse::Answer { status, body } => ReplayedAnswer::Answer { status, body },
                    StoredResponse::AlreadyDone { id } => ReplayedAnswer::AlreadyDone { id },
                    StoredResponse::Reattach { id } => ReplayedAnswer::Reattach { id },
                };
                (stored.body_hash, answer)
            }))
        })
    }
}
