//! Tracing span of a request. Everything logged while a request is handled, and while its response is streamed, is
//! recorded in it, so that every line has the request id and the trace id.
//!
//! It contains the ids, the method and the route template: never the path or the query, which may contain a ticket. A
//! request continues the trace of its `traceparent` header; without a valid one it starts a new trace.

use std::pin::Pin;
use std::task::{Context, Poll};

use agentd_base::id::{IdGenerator, ulid_text};
use agentd_base::trace::{self, SpanId, TraceContext, TraceId};
use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body::{Body as HttpBody, Frame, SizeHint};
use tracing::field::Empty;
use tracing::{Instrument, Span};

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Trace context of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestTrace {
    /// Context of the request itself.
    pub context: TraceContext,
    /// Span of the sender, if it sent one.
    pub parent: Option<SpanId>,
}

impl RequestTrace {
    /// Determines the context; `number` is unique for each request.
    fn from_headers(headers: &HeaderMap, number: u128) -> Self {
        let mut given = headers.get_all(&TRACEPARENT).iter();
        // Several headers are invalid according to the W3C Trace Context specification.
        let given = given.next().filter(|_| given.next().is_none());
        let given = given.and_then(|value| TraceContext::parse(value.to_str().ok()?));
        #[allow(clippy::cast_possible_truncation, reason = "the half that differs from request to request")]
        let span_id = SpanId::new(number as u64);
        match given {
            Some(given) => Self { context: given.at(span_id), parent: Some(given.span_id) },
            None => {
                let context = TraceContext { trace_id: TraceId::new(number), span_id, is_sampled: true };
                Self { context, parent: None }
            }
        }
    }
}

/// Handles a request within its span; the response carries the request id.
pub(crate) async fn in_request_span<F>(
    ids: &IdGenerator,
    request: Request,
    answer: impl FnOnce(Request, RequestTrace) -> F,
) -> Response
where
    F: Future<Output = Response>,
{
    let number = ids.next_number();
    let (id, request_trace) =
        (request_id_for(number, request.headers()), RequestTrace::from_headers(request.headers(), number));
    let request_id = id.to_str().unwrap_or_default();
    let trace_id = request_trace.context.trace_id;
    let span = tracing::info_span!("request", request_id, %trace_id, method = %request.method(), route = Empty);
    let answer = trace::with_context(Some(request_trace.context), answer(request, request_trace));
    let mut response = answer.instrument(span.clone()).await;
    response.headers_mut().insert(X_REQUEST_ID, id);
    // A body of known length has been produced already.
    if span.is_disabled() || response.body().size_hint().exact().is_some() {
        return response;
    }
    response.map(|body| Body::new(SpannedBody { body, span }))
}

/// Middleware that only adds the span, for routers without an [`HttpStack`](crate::HttpStack).
pub async fn trace_request(State(ids): State<IdGenerator>, request: Request, next: Next) -> Response {
    let answer = async |request: Request, _place| {
        route_of(&request);
        let response = next.run(request).await;
        tracing::debug!(status = response.status().as_u16(), "request completed");
        response
    };
    in_request_span(&ids, request, answer).await
}

/// Returns the matched route and records it in the span of the request.
pub(crate) fn route_of(request: &Request) -> Option<MatchedPath> {
    let route = request.extensions().get::<MatchedPath>().cloned();
    if let Some(route) = &route {
        Span::current().record("route", route.as_str());
    }
    route
}

/// Returns the id of a request: the client's if it is well-formed, else one generated from `number`.
fn request_id_for(number: u128, headers: &HeaderMap) -> HeaderValue {
    let given = headers.get(&X_REQUEST_ID).filter(|value| is_well_formed(value)).cloned();
    given.unwrap_or_else(|| {
        HeaderValue::try_from(format!("req_{}", ulid_text(number)))
            .unwrap_or_else(|_| HeaderValue::from_static("req_unknown"))
    })
}

fn is_well_formed(value: &HeaderValue) -> bool {
    let bytes = value.as_bytes();
    (1..=128).contains(&bytes.len()) && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

/// Streamed body that is polled within the span of its request.
struct SpannedBody {
    body: Body,
    span: Span,
}

impl HttpBody for SpannedBody {
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

#[cfg(test)]
mod tests {
    use super::*;

    const GIVEN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";

    fn trace_of(values: &[&'static str]) -> RequestTrace {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(TRACEPARENT, HeaderValue::from_static(value));
        }
        RequestTrace::from_headers(&headers, 7)
    }

    #[test]
    fn request_continues_the_trace_of_its_header() {
        let found = trace_of(&[GIVEN]);
        assert_eq!(found.context.to_header(), "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000007-00");
        assert_eq!(found.parent, SpanId::parse("00f067aa0ba902b7"));
    }

    #[test]
    fn request_without_a_valid_header_starts_a_trace() {
        for values in [&[][..], &["nonsense"], &[GIVEN, GIVEN]] {
            let found = trace_of(values);
            assert_eq!((found.context.trace_id, found.parent), (TraceId::new(7), None), "{values:?}");
            assert!(found.context.is_sampled);
        }
    }
}
