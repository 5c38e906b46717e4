//! The span of a request. What is logged while a request is answered, and while its answer is streamed, stands in
//! it, so that every line carries the ids of the request and of its trace.
//!
//! It holds the ids, the method and the route's template: never the path or the query, which may carry a ticket.
//! A request goes on in the trace that its `traceparent` names; without one, or with one that is not well-formed, it
//! begins a trace.

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

/// A request's place in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestTrace {
    /// The request itself.
    pub context: TraceContext,
    /// What sent it, where that said so.
    pub parent: Option<SpanId>,
}

impl RequestTrace {
    /// `number` is unlike that of any other request.
    fn of(headers: &HeaderMap, number: u128) -> Self {
        let mut given = headers.get_all(&TRACEPARENT).iter();
        // Two of them say nothing, says the standard.
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

/// Answers a request within its span; the answer carries the id.
pub(crate) async fn follow<F>(
    ids: &IdGenerator,
    request: Request,
    answer: impl FnOnce(Request, RequestTrace) -> F,
) -> Response
where
    F: Future<Output = Response>,
{
    let number = ids.next_number();
    let (id, place) = (id_of(number, request.headers()), RequestTrace::of(request.headers(), number));
    let request_id = id.to_str().unwrap_or_default();
    let trace_id = place.context.trace_id;
    let span = tracing::info_span!("request", request_id, %trace_id, method = %request.method(), route = Empty);
    let answer = trace::within(Some(place.context), answer(request, place));
    let mut response = answer.instrument(span.clone()).await;
    response.headers_mut().insert(X_REQUEST_ID, id);
    // A body whose length is known is there already.
    if span.is_disabled() || response.body().size_hint().exact().is_some() {
        return response;
    }
    response.map(|body| Body::new(FollowedBody { body, span }))
}

/// The span alone, for routers that are not behind an [`HttpStack`](crate::HttpStack).
pub async fn follow_request(State(ids): State<IdGenerator>, request: Request, next: Next) -> Response {
    let answer = async |request: Request, _place| {
        route_of(&request);
        let response = next.run(request).await;
        tracing::debug!(status = response.status().as_u16(), "answered");
        response
    };
    follow(&ids, request, answer).await
}

/// The route that was asked for; from here on the request's span names it.
pub(crate) fn route_of(request: &Request) -> Option<MatchedPath> {
    let route = request.extensions().get::<MatchedPath>().cloned();
    if let Some(route) = &route {
        Span::current().record("route", route.as_str());
    }
    route
}

/// The id of a request: the client's when it is well-formed, else one made of the number.
fn id_of(number: u128, headers: &HeaderMap) -> HeaderValue {
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

#[cfg(test)]
mod tests {
    use super::*;

    const GIVEN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";

    fn place(values: &[&'static str]) -> RequestTrace {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(TRACEPARENT, HeaderValue::from_static(value));
        }
        RequestTrace::of(&headers, 7)
    }

    #[test]
    fn a_request_goes_on_in_the_trace_that_it_names() {
        let found = place(&[GIVEN]);
        assert_eq!(found.context.to_header(), "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000007-00");
        assert_eq!(found.parent, SpanId::parse("00f067aa0ba902b7"));
    }

    #[test]
    fn what_names_no_trace_begins_one() {
        for values in [&[][..], &["nonsense"], &[GIVEN, GIVEN]] {
            let found = place(values);
            assert_eq!((found.context.trace_id, found.parent), (TraceId::new(7), None), "{values:?}");
            assert!(found.context.is_sampled);
        }
    }
}
