//! Answers that may be long: written piece by piece while the store is read, so that they need no more memory than a
//! page of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use agentd_web::ApiError;
use axum::body::{Body, Bytes};
use futures_util::stream::{BoxStream, once};
use futures_util::{Stream, StreamExt, TryStreamExt};
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use serde::Serialize;

use crate::memory::error::MemoryError;

pub(super) const JSON: (http::HeaderName, HeaderValue) = (CONTENT_TYPE, HeaderValue::from_static("application/json"));

pub(super) type Pieces = BoxStream<'static, Result<Bytes, MemoryError>>;

/// How many entries a list has got so far.
pub(super) type Written = Arc<AtomicU64>;

pub(super) fn so_far(written: &Written) -> u64 {
    written.load(Ordering::Relaxed)
}

/// What is written when it is its turn.
pub(super) fn text(text: impl FnOnce() -> String + Send + 'static) -> Pieces {
    once(async move { Ok(Bytes::from(text())) }).boxed()
}

/// Pages as the entries of one JSON list, without its brackets.
pub(super) fn entries<T, V, S>(pages: S, view: fn(&T) -> V, written: &Written) -> Pieces
where
    T: 'static,
    V: Serialize + 'static,
    S: Stream<Item = Result<Vec<T>, MemoryError>> + Send + 'static,
{
    let written = Arc::clone(written);
    let piece = move |page: Vec<T>| {
        let mut piece = Vec::new();
        for entry in &page {
            if written.fetch_add(1, Ordering::Relaxed) > 0 {
                piece.extend_from_slice(b",\n");
            }
            piece.extend(serde_json::to_vec(&view(entry)).unwrap_or_default());
        }
        Bytes::from(piece)
    };
    pages.map_ok(piece).boxed()
}

/// The first piece is made before the answer begins, so that what goes wrong is still said.
pub(super) async fn body(head: String, mut pieces: Pieces) -> Result<Body, ApiError> {
    let first = pieces.next().await.transpose()?;
    let begun = futures_util::stream::iter([Ok(Bytes::from(head))].into_iter().chain(first.map(Ok)));
    Ok(Body::from_stream(begun.chain(pieces.map_err(std::io::Error::other))))
}
