//! Size-limited bodies and event streams of HTTP responses.

use agentd_net::NetError;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use reqwest::Response;
use rmcp::model::ServerJsonRpcMessage;
use rmcp::transport::streamable_http_client::SseError;
use sse_stream_for_rmcp::Sse;

use super::events::EventParser;
use crate::message::{Parsed, numeric_id, parse, substitute_error};
use crate::session::Session;

/// Reason for an unusable response. No text contains a URL path or a header.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpFault {
    #[error("the request failed")]
    Net(#[source] NetError),
    #[error("HTTP {0}")]
    Status(u16),
    #[error("the answer is too large")]
    TooLarge,
    #[error("the answer is not valid")]
    Malformed,
    #[error("the answer is of an unexpected type")]
    ContentType,
    #[error("the request is too large")]
    RequestTooLarge,
}

/// Response whose head was received, and the limits of its body.
pub(super) struct Answer {
    pub(super) response: Response,
    pub(super) host: String,
    pub(super) session: Session,
    pub(super) max_message_bytes: usize,
}

impl Answer {
    /// Reads the whole body, up to `limit` bytes.
    pub(super) async fn body(mut self, limit: usize) -> Result<Vec<u8>, HttpFault> {
        let mut body = Vec::new();
        while let Some(chunk) =
            self.response.chunk().await.map_err(|error| HttpFault::Net(NetError::from_reqwest(&self.host, error)))?
        {
            if body.len() + chunk.len() > limit {
                return Err(HttpFault::TooLarge);
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    /// Parses the body as one message.
    pub(super) async fn message(self) -> Result<ServerJsonRpcMessage, HttpFault> {
        let limit = self.max_message_bytes;
        let body = self.body(limit).await?;
        match parse(&body) {
            Parsed::Messages(mut messages) if messages.len() == 1 => messages.pop().ok_or(HttpFault::Malformed),
            Parsed::Invalid { too_large: true, .. } => Err(HttpFault::TooLarge),
            _ => Err(HttpFault::Malformed),
        }
    }

    /// Returns the messages in the body; other events are dropped. `request` is the id that the stream responds to: an
    /// unusable response becomes an error for that id.
    pub(super) fn events(self, request: Option<i64>) -> BoxStream<'static, Result<Sse, SseError>> {
        let reading = EventStream {
            parser: EventParser::new(self.max_message_bytes),
            response: Some(self.response),
            host: self.host,
            session: self.session,
            request,
        };
        stream::unfold(reading, |mut reading| async {
            let events = reading.next().await?;
            Some((stream::iter(events), reading))
        })
        .flatten()
        .boxed()
    }
}

struct EventStream {
    parser: EventParser,
    /// `None` once the stream has ended.
    response: Option<Response>,
    host: String,
    session: Session,
    request: Option<i64>,
}

impl EventStream {
    /// Returns the events of the next chunk of the body; `None` at its end.
    async fn next(&mut self) -> Option<Vec<Result<Sse, SseError>>> {
        self.session.budget().wait().await;
        let chunk = match self.response.as_mut()?.chunk().await {
            Ok(Some(chunk)) => chunk,
            Ok(None) => return None,
            Err(error) => {
                self.response = None;
                return Some(vec![Err(SseError::Body(Box::new(NetError::from_reqwest(&self.host, error))))]);
            }
        };
        let mut events = Vec::new();
        let parsed = self.parser.feed(&chunk, &mut events);
        let mut events: Vec<_> = events.into_iter().filter_map(|event| self.check(event)).map(Ok).collect();
        if parsed.is_err() {
            self.response = None;
            events.extend(self.error_event(true).map(Ok));
        }
        Some(events)
    }

    /// Returns the event if it contains a message or a position to resume from.
    fn check(&self, mut event: Sse) -> Option<Sse> {
        let data = event.data.as_deref().map_or("", str::trim);
        let is_message = matches!(event.event.as_deref(), None | Some("" | "message")) && !data.is_empty();
        if !is_message {
            event.data = None;
            self.session.budget().charge_message(0);
            return (event.id.is_some() || event.retry.is_some()).then_some(event);
        }
        match parse(data.as_bytes()) {
            // The library takes the first response in a stream for the expected one.
            Parsed::Messages(messages) if messages.iter().all(|message| self.matches_request(message)) => Some(event),
            Parsed::Messages(_) => {
                self.session.budget().charge_message(data.len());
                None
            }
            Parsed::Invalid { too_large, id } => {
                self.session.budget().charge_message(data.len());
                // An invalid message without an id is skipped: the response may still follow.
                let is_response = id == self.request || (id.is_none() && too_large);
                self.error_event(too_large).filter(|_| is_response)
            }
            Parsed::NotJson => {
                self.session.budget().charge_message(data.len());
                None
            }
        }
    }

    fn matches_request(&self, message: &ServerJsonRpcMessage) -> bool {
        let id = match message {
            ServerJsonRpcMessage::Response(response) => Some(&response.id),
            ServerJsonRpcMessage::Error(error) => error.id.as_ref(),
            ServerJsonRpcMessage::Request(_) | ServerJsonRpcMessage::Notification(_) => None,
        };
        self.request.is_none() || id.is_none_or(|id| numeric_id(id) == self.request)
    }

    /// Returns an error event that replaces the response.
    fn error_event(&self, too_large: bool) -> Option<Sse> {
        let text = serde_json::to_string(&substitute_error(self.request?, too_large)).ok()?;
        Some(Sse::default().data(text))
    }
}
