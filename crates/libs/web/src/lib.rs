//! HTTP serving for all domains: a common error shape, extractors that report every bad field, the middleware stack
//! (headers, CORS, host, authentication), idempotency, and OpenAPI integration.
//!
//! Invariants: every response carries the security headers and `X-Request-Id`; every error has the shape of
//! [`ErrorBody`]; internal causes of errors are logged and never sent to the client. Deliberately absent: domain types,
//! SQL, global state.

mod access;
mod address;
mod caller;
mod content_length;
mod cookie;
mod cors;
mod credential;
mod error;
mod extract;
mod fallback;
mod host;
mod http_stack;
mod idempotency;
mod observe;
mod openapi;
mod pace;
mod request_span;
mod routes;
mod schema;
mod sse;
mod validate;
mod watch;

pub use address::{ClientAddress, TrustedProxies};
pub use caller::{Caller, CallerKind, PasswordProof, Scope};
pub use cookie::{CookieScope, OwnPages, PageCredential, PageOrigin, RequestingPage, session_cookies};
pub use cors::CorsPolicy;
pub use credential::{AccessDenied, Authenticate, Credential, INVALID_CREDENTIAL, read_credential};
pub use error::{ApiError, ApiResult, ErrorBody};
pub use extract::{Answer, Json, OptionalJson, Path, Query, RawBody};
pub use fallback::{catch_panic, method_not_allowed, not_found};
pub use host::HostPolicy;
pub use http_stack::{Gate, GuardedRouter, HttpStack, add_security_headers};
pub use idempotency::{
    FoundRecord, IdempotencyGuard, IdempotencyKey, IdempotencyLedger, KnownRequest, NotReplayed, ReattachTo,
    ReplayedAnswer, presented_idempotency_key,
};
pub use observe::{CompletedRequest, Observation, RequestObserver, RequestSpans};
pub use openapi::complete_document;
pub use request_span::{RequestTrace, trace_request};
pub use routes::{ApiRouter, FindPage, Routes};
pub use schema::{CompiledSchema, check};
pub use sse::event_stream;
pub use validate::{Validate, Validated};
pub use watch::StreamCredential;

#[doc(hidden)]
pub use pastey::paste;

/// Maximum sizes of request bodies, in bytes.
pub mod limits {
    /// JSON requests.
    pub const BODY: usize = 2 * 1024 * 1024;
    /// Avatars and other uploads.
    pub const UPLOAD: usize = 10 * 1024 * 1024;
    /// Settings imports.
    pub const IMPORT: usize = 64 * 1024 * 1024;
}
