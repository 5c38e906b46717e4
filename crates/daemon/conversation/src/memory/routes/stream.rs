//! Streamed JSON responses, written in pieces while the database is read. Memory use is bounded by one page.

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

/// Number of entries written to a list.
pub(super) type EntryCount = Arc<AtomicU64>;

pub(super) fn written_count(written: &EntryCount) -> u64 {
    written.load(Ordering::Relaxed)
}

/// Piece that is computed when it is written.
pub(super) fn text(text: impl FnOnce() -> String + Send + 'static) -> Pieces {
    once(async move { Ok(Bytes::from(text())) }).boxed()
}

/// Serializes pages as the entries of one JSON list, without brackets.
pub(super) fn entries<T, V, S>(pages: S, view: fn(&T) -> V, written: &EntryCount) -> Pieces
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

/// Builds the body. The first piece is computed before the response starts, so that its errors are reported.
pub(super) async fn body(head: String, mut pieces: Pieces) -> Result<Body, ApiError> {
    let first = pieces.next().await.transpose()?;
    let beginning = futures_util::stream::iter([Ok(Bytes::from(head))].into_iter().chain(first.map(Ok)));
    Ok(Body::from_stream(beginning.chain(pieces.map_err(std::io::Error::other))))
}
