//! Bodies and event streams of an HTTP server, read within limits.

use agentd_net::NetError;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use reqwest::Response;
use rmcp::model::ServerJsonRpcMessage;
use rmcp::transport::streamable_http_client::SseError;
use sse_stream_for_rmcp::Sse;

use super::events::EventParser;
use crate::message::{Parsed, number, parse, stand_in};
use crate::session::Session;

/// Why a request brought no usable answer. No text carries an address's path or a header.
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
    #[error("the request is longer than is accepted")]
    RequestTooLarge,
}

/// An answer whose head was read, and what its body may cost.
pub(super) struct Answer {
    pub(super) response: Response,
    pub(super) host: String,
    pub(super) session: Session,
    pub(super) max_message_bytes: usize,
}

impl Answer {
    /// The whole body, if it is not longer than `limit`.
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

    /// The body as one message.
    pub(super) async fn message(self) -> Result<ServerJsonRpcMessage, HttpFault> {
        let limit = self.max_message_bytes;
        let body = self.body(limit).await?;
        match parse(&body) {
            Parsed::Messages(mut messages) if messages.len() == 1 => messages.pop().ok_or(HttpFault::Malformed),
            Parsed::Broken { too_large: true, .. } => Err(HttpFault::TooLarge),
            _ => Err(HttpFault::Malformed),
        }
    }

    /// The body as a stream of messages, what is not one left out. `request` is the id that the
    /// stream answers: an answer that cannot be used becomes an error for it.
    pub(super) fn events(self, request: Option<i64>) -> BoxStream<'static, Result<Sse, SseError>> {
        let reading = Reading {
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

struct Reading {
    parser: EventParser,
    /// `None` once nothing more is to be read.
    response: Option<Response>,
    host: String,
    session: Session,
    request: Option<i64>,
}

impl Reading {
    /// The events of the next piece of the body; `None` at its end.
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
        let taken = self.parser.take_in(&chunk, &mut events);
        let mut events: Vec<_> = events.into_iter().filter_map(|event| self.check(event)).map(Ok).collect();
        if taken.is_err() {
            self.response = None;
            events.extend(self.failed(true).map(Ok));
        }
        Some(events)
    }

    /// The event, if it holds a message or a position to resume from.
    fn check(&self, mut event: Sse) -> Option<Sse> {
        let data = event.data.as_deref().map_or("", str::trim);
        let is_message = matches!(event.event.as_deref(), None | Some("" | "message")) && !data.is_empty();
        if !is_message {
            event.data = None;
            self.session.budget().charge_message(0);
            return (event.id.is_some() || event.retry.is_some()).then_some(event);
        }
        match parse(data.as_bytes()) {
            // The library takes the first answer in a stream for the awaited one.
            Parsed::Messages(messages) if messages.iter().all(|message| self.belongs_here(message)) => Some(event),
            Parsed::Messages(_) => {
                self.session.budget().charge_message(data.len());
                None
            }
            Parsed::Broken { too_large, id } => {
                self.session.budget().charge_message(data.len());
                // What is broken and names nobody is passed over: the answer may still come.
                let answers_this = id == self.request || (id.is_none() && too_large);
                self.failed(too_large).filter(|_| answers_this)
            }
            Parsed::Noise => {
                self.session.budget().charge_message(data.len());
                None
            }
        }
    }

    fn belongs_here(&self, message: &ServerJsonRpcMessage) -> bool {
        let id = match message {
            ServerJsonRpcMessage::Response(response) => Some(&response.id),
            ServerJsonRpcMessage::Error(error) => error.id.as_ref(),
            ServerJsonRpcMessage::Request(_) | ServerJsonRpcMessage::Notification(_) => None,
        };
        self.request.is_none() || id.is_none_or(|id| number(id) == self.request)
    }

    /// An error in the place of the answer.
    fn failed(&self, too_large: bool) -> Option<Sse> {
        let text = serde_json::to_string(&stand_in(self.request?, too_large)).ok()?;
        Some(Sse::default().data(text))
    }
}
