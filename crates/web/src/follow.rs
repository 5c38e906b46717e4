//! The span of a request. What is logged while a request is answered, and while its answer is streamed, stands in
//! it, so that every line carries the request's id.
//!
//! It holds the id, the method and the route's template: never the path or the query, which may carry a ticket.

use std::pin::Pin;
use std::task::{Context, Poll};

use agentd_base::id::IdGenerator;
use axum::body::Body;
use axum::extract::{MatchedPath, Request};
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body::{Body as HttpBody, Frame, SizeHint};
use tracing::field::Empty;
use tracing::{Instrument, Span};

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Answers a request within its span; the answer carries the id.
pub(crate) async fn follow<F>(ids: &IdGenerator, request: Request, answer: impl FnOnce(Request) -> F) -> Response
where
    F: Future<Output = Response>,
{
    let id = id_of(ids, request.headers());
    let request_id = id.to_str().unwrap_or_default();
    let span = tracing::info_span!("request", request_id, method = %request.method(), route = Empty);
    let mut response = answer(request).instrument(span.clone()).await;
    response.headers_mut().insert(X_REQUEST_ID, id);
    // A body whose length is known is there already.
    if span.is_disabled() || response.body().size_hint().exact().is_some() {
        return response;
    }
    response.map(|body| Body::new(FollowedBody { body, span }))
}

/// The route that was asked for; from here on the request's span names it.
pub(crate) fn route_of(request: &Request) -> Option<MatchedPath> {
    let route = request.extensions().get::<MatchedPath>().cloned();
    if let Some(route) = &route {
        Span::current().record("route", route.as_str());
    }
    route
}

/// The id of a request: the client's when it is well-formed, else a new one.
fn id_of(ids: &IdGenerator, headers: &HeaderMap) -> HeaderValue {
    let given = headers.get(&X_REQUEST_ID).filter(|value| is_well_formed(value)).cloned();
    given.unwrap_or_else(|| {
        HeaderValue::try_from(format!("req_{}", ids.next_ulid()))
            .unwrap_or_else(|_| HeaderValue::from_static("req_unknown"))
    })
}

fn is_well_formed(value: &HeaderValue) -> bool {
    let bytes = value.as_bytes();
    (1..=128).contains(&bytes.len()) && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

/// A streamed body, which is made within the span of its request.
struct FollowedBody {
    body: Body,
    span: Span,
}

impl HttpBody for FollowedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Self { body, span } = &mut *self;
        let _within = span.enter();
        Pin::new(body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
