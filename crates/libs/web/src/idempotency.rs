//! `Idempotency-Key`: a repeated request gets the response to the first one.
//!
//! The domain writes the record in the transaction of the change. This layer looks up records, replays them, and
//! prevents concurrent requests with the same key.

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
/// Name of the header in the OpenAPI document.
pub(crate) const PARAMETER: &str = "Idempotency-Key";
const MAX_KEY_CHARACTERS: usize = 255;

/// Request with an idempotency key. Handlers pass it to the change they make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownRequest {
    pub credential_id: Arc<str>,
    pub key: String,
    /// Method and route, such as `POST /api/agents`: the same key on another endpoint is another request.
    pub endpoint: String,
    /// HMAC-SHA256 of the path, the query and the body.
    pub fingerprint: [u8; 32],
}

/// Extractor for the request's key, if it has one.
#[derive(Debug, Clone, Default)]
pub struct IdempotencyKey(pub Option<KnownRequest>);

impl<S: Send + Sync> axum::extract::FromRequestParts<S> for IdempotencyKey {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut http::request::Parts, _state: &S) -> Result<Self, Self::Rejection> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or_default())
    }
}

/// For operations that support the header: `params(IdempotencyKey)`.
impl IntoParams for IdempotencyKey {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let key = ObjectBuilder::new()
            .schema_type(Type::String)
            .min_length(Some(1))
            .max_length(Some(MAX_KEY_CHARACTERS))
            .pattern(Some("^[\\x21-\\x7e]+$"))
            .build();
        let description = "Key chosen by the client. The request is executed once: within 24 hours a repeat with the same \
                           key and body returns the first response, and the same key with another body returns 409";
        let parameter = ParameterBuilder::new()
            .name(PARAMETER)
            .parameter_in(ParameterIn::Header)
            .required(Required::False)
            .description(Some(description))
            .schema(Some(key));
        vec![parameter.build()]
    }
}

/// Stored response to the first request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplayedAnswer {
    /// Exact copy of the first response.
    Answer { status: u16, body: String },
    /// The first response contained a secret and was not stored.
    AlreadyDone { id: String },
    /// The first request started a stream; the handler attaches to it.
    Reattach { id: String },
}

/// Record: the fingerprint of the first request and its response.
pub type FoundRecord = ([u8; 32], ReplayedAnswer);

/// Response extension for a repeat whose first request had no effect, so that the work was done now.
#[derive(Debug, Clone, Copy)]
pub struct NotReplayed;

/// Storage of idempotency records.
pub trait IdempotencyLedger: Send + Sync + 'static {
    /// Returns the record of this credential and key, with the fingerprint of the first request.
    fn find<'a>(&'a self, request: &'a KnownRequest) -> BoxFuture<'a, Result<Option<FoundRecord>, ApiError>>;
}

/// State of the layer: the ledger and the keys of requests in flight in this process.
pub struct IdempotencyGuard {
    ledger: Arc<dyn IdempotencyLedger>,
    fingerprint_key: Key,
    in_flight: Mutex<HashSet<(Arc<str>, String)>>,
}

impl std::fmt::Debug for IdempotencyGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IdempotencyGuard").finish_non_exhaustive()
    }
}

impl IdempotencyGuard {
    /// Creates the guard. `fingerprint_key` must be secret and equal on all replicas: a body may contain a password,
    /// which could be guessed from a plain hash in the store.
    #[must_use]
    pub fn new(ledger: Arc<dyn IdempotencyLedger>, fingerprint_key: [u8; 32]) -> Self {
        Self { ledger, fingerprint_key: Key::new(HMAC_SHA256, &fingerprint_key), in_flight: Mutex::default() }
    }

    /// Computes the fingerprint that identifies a request.
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

struct InFlight<'g> {
    guard: &'g IdempotencyGuard,
    entry: (Arc<str>, String),
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.guard.in_flight.lock().remove(&self.entry);
    }
}

/// Set by the layer if the stored response refers to a stream to attach to.
#[derive(Debug, Clone)]
pub struct ReattachTo(pub String);

/// Reads the header, for routes whose caller is known only to the handler.
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

/// Runs after the access rule, because it needs the caller.
///
/// # Errors
/// 400 for a key that is empty or too long, 409 for one that was used for another request or is still in flight.
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
    let (known, mut parts, body) = identify(guard, caller.credential_id, key, request).await?;
    let entry = (Arc::clone(&known.credential_id), known.key.clone());
    if !guard.in_flight.lock().insert(entry.clone()) {
        return Err(in_progress_error());
    }
    let _in_flight = InFlight { guard, entry };
    parts.extensions.insert(IdempotencyKey(Some(known.clone())));
    let attach_to = |id| {
        let mut parts = parts.clone();
        parts.extensions.insert(ReattachTo(id));
        Request::from_parts(parts, Body::from(body.clone()))
    };
    if let Some(found) = guard.ledger.find(&known).await? {
        return Ok(match replay(&known, found)? {
            Replay::Response(response) => response,
            Replay::Reattach(id) => replayed(next.run(attach_to(id)).await),
        });
    }
    let first = Request::from_parts(parts.clone(), Body::from(body.clone()));
    let response = next.clone().run(first).await;
    // A record for this key may have been committed meanwhile, by another replica or by an earlier request whose client
    // disconnected. The change was then rolled back with a conflict, and the stored response is returned.
    if response.status() == StatusCode::CONFLICT
        && let Some(found) = guard.ledger.find(&known).await?
    {
        return Ok(match replay(&known, found)? {
            Replay::Response(response) => response,
            Replay::Reattach(id) => replayed(next.run(attach_to(id)).await),
        });
    }
    Ok(response)
}

/// Runs before routes that are open until the first key exists. A client that missed the response to the request that
/// closed them may repeat it. An exact repeat gets the id of the created resource, and nothing is created again.
///
/// # Errors
/// 409 `already_done`.
pub(crate) async fn reject_completed_step(guard: &IdempotencyGuard, request: Request) -> Result<Request, ApiError> {
    let key = presented_idempotency_key(request.headers()).unwrap_or_default();
    let Some(key) = key.filter(|_| request.method() == Method::POST) else { return Ok(request) };
    let (known, parts, body) = identify(guard, Caller::anonymous().credential_id, key, request).await?;
    match guard.ledger.find(&known).await? {
        Some((fingerprint, ReplayedAnswer::AlreadyDone { id })) if fingerprint == known.fingerprint => {
            Err(already_done(&id))
        }
        _ => Ok(Request::from_parts(parts, Body::from(body))),
    }
}

/// Reads the body, which is part of the fingerprint.
async fn identify(
    guard: &IdempotencyGuard,
    credential_id: Arc<str>,
    key: String,
    request: Request,
) -> Result<(KnownRequest, Parts, Bytes), ApiError> {
    let template = request.extensions().get::<MatchedPath>().map_or(String::new(), |path| path.as_str().to_owned());
    let (parts, body) = request.into_parts();
    // Limited by the route's body limit, which is in the extensions by now.
    let whole = Request::from_parts(parts.clone(), body);
    let body = Bytes::from_request(whole, &()).await.map_err(|rejection| body_error(&rejection))?;
    let target = parts.uri.path_and_query().map_or(parts.uri.path(), |target| target.as_str());
    let fingerprint = guard.fingerprint(target, &body);
    let known = KnownRequest { credential_id, key, endpoint: format!("POST {template}"), fingerprint };
    Ok((known, parts, body))
}

enum Replay {
    Response(Response),
    Reattach(String),
}

fn replay(known: &KnownRequest, found: FoundRecord) -> Result<Replay, ApiError> {
    let (fingerprint, answer) = found;
    if fingerprint != known.fingerprint {
        return Err(ApiError::new(
            StatusCode::CONFLICT,
            "idempotency_key_reused",
            "This Idempotency-Key was used for another request; use a new key",
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

/// Marks a successful response as replayed.
fn replayed(mut response: Response) -> Response {
    if response.extensions().get::<NotReplayed>().is_none()
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
        format!(
            "An earlier request with this Idempotency-Key created {id}; its secret was returned then and is not stored"
        ),
    )
}

fn in_progress_error() -> ApiError {
    ApiError::new(
        StatusCode::CONFLICT,
        "still_under_way",
        "The first request with this Idempotency-Key is still being processed; retry shortly",
    )
    .with_retry_after(Duration::from_secs(1))
}
