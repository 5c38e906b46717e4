//! `Idempotency-Key`: the same request sent again gets the first answer again.
//!
//! The record is written by the domain in the transaction of the change itself; this layer finds
//! records, replays them, and keeps two requests with one key from running at once.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::hmac::{Context, HMAC_SHA256, Key};
use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, MatchedPath, Request};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::future::BoxFuture;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use parking_lot::Mutex;
use utoipa::IntoParams;
use utoipa::openapi::Required;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{ObjectBuilder, Type};

use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::body_error;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
/// The header as the document writes it.
pub(crate) const PARAMETER: &str = "Idempotency-Key";
const MAX_KEY_CHARACTERS: usize = 255;

/// A request that asked to be done only once. Handlers pass it to the change that they make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownRequest {
    pub credential_id: Arc<str>,
    pub key: String,
    /// `POST /api/agents`: the same key for another endpoint is another request.
    pub endpoint: String,
    /// HMAC-SHA256 over the path, the query and the body.
    pub fingerprint: [u8; 32],
}

/// What the handler sees: the request's key, if it has one.
#[derive(Debug, Clone, Default)]
pub struct IdempotencyKey(pub Option<KnownRequest>);

impl<S: Send + Sync> axum::extract::FromRequestParts<S> for IdempotencyKey {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut http::request::Parts, _state: &S) -> Result<Self, Self::Rejection> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or_default())
    }
}

/// For the operations that keep the header: `params(IdempotencyKey)`.
impl IntoParams for IdempotencyKey {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let key = ObjectBuilder::new()
            .schema_type(Type::String)
            .min_length(Some(1))
            .max_length(Some(MAX_KEY_CHARACTERS))
            .pattern(Some("^[\\x21-\\x7e]+$"))
            .build();
        let description = "Chosen by the caller. What this creates or starts is done once: within 24 hours the same \
                           key and body are answered as the first time, and the same key with another body 409";
        let parameter = ParameterBuilder::new()
            .name(PARAMETER)
            .parameter_in(ParameterIn::Header)
            .required(Required::False)
            .description(Some(description))
            .schema(Some(key));
        vec![parameter.build()]
    }
}

/// A stored first answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplayedAnswer {
    /// The first answer to the letter.
    Answer { status: u16, body: String },
    /// The first answer carried a secret and was not stored.
    AlreadyDone { id: String },
    /// The first request started a stream; the handler attaches to it again.
    Reattach { id: String },
}

/// A record: the fingerprint of the request that made it, and its answer.
pub type FoundRecord = ([u8; 32], ReplayedAnswer);

/// Goes with the answer to a repeat whose first request had come to nothing, so that the work was done now.
#[derive(Debug, Clone, Copy)]
pub struct DoneAnew;

/// Where records are kept.
pub trait IdempotencyLedger: Send + Sync + 'static {
    /// The record of this credential and key, with the fingerprint of the request that made it.
    fn find<'a>(&'a self, request: &'a KnownRequest) -> BoxFuture<'a, Result<Option<FoundRecord>, ApiError>>;
}

/// State of the layer: the ledger, and the keys that this process is working on right now (never
/// more than there are requests).
pub struct IdempotencyGuard {
    ledger: Arc<dyn IdempotencyLedger>,
    fingerprint_key: Key,
    under_way: Mutex<HashSet<(Arc<str>, String)>>,
}

impl std::fmt::Debug for IdempotencyGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IdempotencyGuard").finish_non_exhaustive()
    }
}

impl IdempotencyGuard {
    /// `fingerprint_key` is secret and the same on every replica: a body may hold a password, and its
    /// bare hash in the store would let it be guessed.
    #[must_use]
    pub fn new(ledger: Arc<dyn IdempotencyLedger>, fingerprint_key: [u8; 32]) -> Self {
        Self { ledger, fingerprint_key: Key::new(HMAC_SHA256, &fingerprint_key), under_way: Mutex::default() }
    }

    /// What tells one request from another.
    fn fingerprint(&self, path_and_query: &str, body: &[u8]) -> [u8; 32] {
        let mut mac = Context::with_key(&self.fingerprint_key);
        mac.update(path_and_query.as_bytes());
        mac.update(&[0]);
        mac.update(body);
        let mut fingerprint = [0; 32];
        fingerprint.copy_from_slice(mac.sign().as_ref());
        fingerprint
    }
}

struct UnderWay<'g> {
    guard: &'g IdempotencyGuard,
    entry: (Arc<str>, String),
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.guard.under_way.lock().remove(&self.entry);
    }
}

/// Set by the layer when a stored answer names a stream to attach to again.
#[derive(Debug, Clone)]
pub struct ReattachTo(pub String);

/// Reads the header, for a route whose caller is known only to its handler.
///
/// # Errors
/// 400 for a key that is empty or too long.
pub fn presented_idempotency_key(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let Some(header) = headers.get(&IDEMPOTENCY_KEY) else { return Ok(None) };
    let key = header.to_str().unwrap_or_default();
    if key.is_empty() || key.len() > MAX_KEY_CHARACTERS {
        return Err(ApiError::new(
            StatusCode::BAD_REQUEST,
            "invalid_idempotency_key",
            format!("Idempotency-Key must be 1 to {MAX_KEY_CHARACTERS} visible ASCII characters"),
        ));
    }
    Ok(Some(key.to_owned()))
}

/// Behind the access rule: it needs to know the caller.
///
/// # Errors
/// 400 for a key that is empty or too long, 409 for one that was used for another request or is
/// still being worked on.
pub(crate) async fn check_idempotency(
    guard: &IdempotencyGuard,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    if request.method() != Method::POST {
        return Ok(next.run(request).await);
    }
    let Some(key) = presented_idempotency_key(request.headers())? else { return Ok(next.run(request).await) };
    let Some(caller) = request.extensions().get::<Caller>().cloned() else {
        return Ok(next.run(request).await);
    };
    let (known, mut parts, body) = recognize(guard, caller.credential_id, key, request).await?;
    let entry = (Arc::clone(&known.credential_id), known.key.clone());
    if !guard.under_way.lock().insert(entry.clone()) {
        return Err(still_under_way());
    }
    let _under_way = UnderWay { guard, entry };
    parts.extensions.insert(IdempotencyKey(Some(known.clone())));
    let attach_to = |id| {
        let mut parts = parts.clone();
        parts.extensions.insert(ReattachTo(id));
        Request::from_parts(parts, Body::from(body.clone()))
    };
    if let Some(found) = guard.ledger.find(&known).await? {
        return Ok(match answer_again(&known, found)? {
            Replay::Response(response) => response,
            Replay::Reattach(id) => replayed(next.run(attach_to(id)).await),
        });
    }
    let first = Request::from_parts(parts.clone(), Body::from(body.clone()));
    let response = next.clone().run(first).await;
    // The same key may have been committed in between, by another replica or by an earlier request
    // whose client went away before its answer: our change was then rolled back with a conflict,
    // and the answer is the one that the other gave.
    if response.status() == StatusCode::CONFLICT
        && let Some(found) = guard.ledger.find(&known).await?
    {
        return Ok(match answer_again(&known, found)? {
            Replay::Response(response) => response,
            Replay::Reattach(id) => replayed(next.run(attach_to(id)).await),
        });
    }
    Ok(response)
}

/// In front of what is open until the first key exists. The step that closed them may be sent again by
/// who never saw its answer: that is told what was made, and does not make it twice with a credential that was
/// worth nothing the first time. A repeat to the letter alone is told, and nothing but the id.
///
/// # Errors
/// 409 `already_done`.
pub(crate) async fn refuse_step_done(guard: &IdempotencyGuard, request: Request) -> Result<Request, ApiError> {
    let key = presented_idempotency_key(request.headers()).unwrap_or_default();
    let Some(key) = key.filter(|_| request.method() == Method::POST) else { return Ok(request) };
    let (known, parts, body) = recognize(guard, Caller::anonymous().credential_id, key, request).await?;
    match guard.ledger.find(&known).await? {
        Some((fingerprint, ReplayedAnswer::AlreadyDone { id })) if fingerprint == known.fingerprint => {
            Err(already_done(&id))
        }
        _ => Ok(Request::from_parts(parts, Body::from(body))),
    }
}

/// Reads the body, which tells one request from another.
async fn recognize(
    guard: &IdempotencyGuard,
    credential_id: Arc<str>,
    key: String,
    request: Request,
) -> Result<(KnownRequest, Parts, Bytes), ApiError> {
    let template = request.extensions().get::<MatchedPath>().map_or(String::new(), |path| path.as_str().to_owned());
    let (parts, body) = request.into_parts();
    // As much as the route takes: its limit is in the extensions by now.
    let whole = Request::from_parts(parts.clone(), body);
    let body = Bytes::from_request(whole, &()).await.map_err(|rejection| body_error(&rejection))?;
    let asked = parts.uri.path_and_query().map_or(parts.uri.path(), |asked| asked.as_str());
    let fingerprint = guard.fingerprint(asked, &body);
    let known = KnownRequest { credential_id, key, endpoint: format!("POST {template}"), fingerprint };
    Ok((known, parts, body))
}

enum Replay {
    Response(Response),
    Reattach(String),
}

fn answer_again(known: &KnownRequest, found: FoundRecord) -> Result<Replay, ApiError> {
    let (fingerprint, answer) = found;
    if fingerprint != known.fingerprint {
        return Err(ApiError::new(
            StatusCode::CONFLICT,
            "idempotency_key_reused",
            "This Idempotency-Key was used for another request; take a new key",
        ));
    }
    Ok(match answer {
        ReplayedAnswer::Answer { status, body } => {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
            let mut response = (status, body).into_response();
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            Replay::Response(replayed(response))
        }
        ReplayedAnswer::AlreadyDone { id } => {
            return Err(already_done(&id));
        }
        ReplayedAnswer::Reattach { id } => Replay::Reattach(id),
    })
}

/// Marks a success as the first one's.
fn replayed(mut response: Response) -> Response {
    if response.extensions().get::<DoneAnew>().is_none()
        && !response.status().is_client_error()
        && !response.status().is_server_error()
    {
        response.headers_mut().insert(IDEMPOTENCY_REPLAYED, HeaderValue::from_static("true"));
    }
    response
}

fn already_done(id: &str) -> ApiError {
    ApiError::new(
        StatusCode::CONFLICT,
        "already_done",
        format!("This was done before and made {id}; its secret was shown then and is not kept"),
    )
}

fn still_under_way() -> ApiError {
    ApiError::new(
        StatusCode::CONFLICT,
        "still_under_way",
        "The first request with this Idempotency-Key is still being worked on; ask again shortly",
    )
    .with_retry_after(Duration::from_secs(1))
}
