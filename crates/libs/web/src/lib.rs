//! What every domain uses to serve HTTP: one error shape, extractors that name every bad
//! field at once, the middleware in its order (headers, CORS, host, authentication), idempotency,
//! and the OpenAPI glue.
//!
//! Invariants: every response of the daemon carries the security headers and `X-Request-Id`;
//! every error has the shape of [`ErrorBody`]; an error's inside goes to the log, never to the
//! caller. Deliberately absent: any domain, any SQL, any global.

mod access;
mod address;
mod caller;
mod cookie;
mod cors;
mod credential;
mod error;
mod extract;
mod fallback;
mod follow;
mod host;
mod http_stack;
mod idempotency;
mod observe;
mod openapi;
mod pace;
mod routes;
mod schema;
mod sse;
mod validate;
mod watch;
mod weight;

pub use address::{ClientAddress, TrustedProxies};
pub use caller::{Caller, CallerKind, PasswordProof, Scope};
pub use cookie::{CookieScope, OwnPages, PageCredential, PageOrigin, RequestingPage, session_cookies};
pub use cors::CorsPolicy;
pub use credential::{AccessDenied, Authenticate, Credential, INVALID_CREDENTIAL, read_credential};
pub use error::{ApiError, ApiResult, ErrorBody};
pub use extract::{Answer, Json, JsonOrNothing, Path, Query, RawBody};
pub use fallback::{catch_panic, method_not_allowed, not_found};
pub use follow::{RequestTrace, follow_request};
pub use host::HostPolicy;
pub use http_stack::{Gate, Guarded, HttpStack, add_security_headers};
pub use idempotency::{
    DoneAnew, FoundRecord, IdempotencyGuard, IdempotencyKey, IdempotencyLedger, KnownRequest, ReattachTo,
    ReplayedAnswer, presented_idempotency_key,
};
pub use observe::{AnsweredRequest, Observation, RequestObserver, RequestSpans};
pub use openapi::complete_document;
pub use routes::{ApiRouter, FindPage, Routes};
pub use schema::{Checked, check};
pub use sse::event_stream;
pub use validate::{Validate, Validated};
pub use watch::Opener;

#[doc(hidden)]
pub use pastey::paste;

/// What a request body may weigh, in bytes.
pub mod limits {
    /// Any JSON request.
    pub const BODY: usize = 2 * 1024 * 1024;
    /// Avatars and other uploads.
    pub const UPLOAD: usize = 10 * 1024 * 1024;
    /// Settings imports.
    pub const IMPORT: usize = 64 * 1024 * 1024;
}
