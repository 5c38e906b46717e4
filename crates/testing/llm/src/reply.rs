//! Replies of the fake vendor.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use agentd_llm::{FinishReason, ToolCall, Usage, Vendor};
use bytes::Bytes;
use parking_lot::Mutex;

use crate::{DocumentedFailure, Gate, RecordedRequest, format};

/// Part of an answer, sent as one event of the vendor (a tool call as several).
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    Text(String),
    Reasoning(String),
    ToolCall(ToolCall),
}

/// End of a response body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ending {
    #[default]
    Proper,
    /// Finish reason and end marker are missing, but the body ends regularly.
    WithoutEndMarker,
    /// The connection is closed abruptly.
    Broken,
    /// Nothing more is sent, and the connection stays open.
    Hang,
}

/// Reply to one request. Cheap to clone; clones share the rendered bytes.
#[derive(Debug, Clone)]
pub struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Body,
    pub(crate) gate: Option<Gate>,
    pub(crate) delay: Option<Duration>,
    pub(crate) ending: Ending,
}

#[derive(Debug, Clone)]
pub(crate) enum Body {
    Answer(Arc<Answer>),
    Chunks(Arc<Vec<Bytes>>),
    Failure(DocumentedFailure),
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) pieces: Vec<Piece>,
    pub(crate) reason: FinishReason,
    pub(crate) usage: Usage,
    rendered: OnceLock<Bytes>,
}

impl Answer {
    /// Returns the whole answer in wire format.
    pub(crate) fn rendered(&self, vendor: Vendor) -> Bytes {
        self.rendered.get_or_init(|| format::frames(vendor, self).concat().into()).clone()
    }
}

impl Reply {
    /// Creates a successful answer of these pieces.
    #[must_use]
    pub fn answer(pieces: Vec<Piece>, reason: FinishReason, usage: Usage) -> Self {
        let answer = Answer { pieces, reason, usage, rendered: OnceLock::new() };
        Self::with_body(200, Body::Answer(Arc::new(answer)))
    }

    /// Creates a successful answer of text pieces, one event each.
    #[must_use]
    pub fn text<'a>(pieces: impl IntoIterator<Item = &'a str>, usage: Usage) -> Self {
        let pieces = pieces.into_iter().map(|text| Piece::Text(text.to_owned())).collect();
        Self::answer(pieces, FinishReason::Stop, usage)
    }

    /// Creates an answer with tool calls, whose arguments are fragmented.
    #[must_use]
    pub fn tool_calls(calls: Vec<ToolCall>, usage: Usage) -> Self {
        Self::answer(calls.into_iter().map(Piece::ToolCall).collect(), FinishReason::ToolUse, usage)
    }

    /// Creates an event stream of these bytes; each chunk is written separately.
    #[must_use]
    pub fn chunks(chunks: Vec<Bytes>) -> Self {
        Self::with_body(200, Body::Chunks(Arc::new(chunks))).header("content-type", "text/event-stream")
    }

    /// Creates a response with any status and a JSON body.
    #[must_use]
    pub fn json(status: u16, body: &str) -> Self {
        let body = Body::Chunks(Arc::new(vec![Bytes::copy_from_slice(body.as_bytes())]));
        Self::with_body(status, body).header("content-type", "application/json")
    }

    /// Creates a documented failure of the vendor.
    #[must_use]
    pub fn failure(failure: DocumentedFailure) -> Self {
        Self::with_body(500, Body::Failure(failure))
    }

    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Makes each piece (or chunk), and the end of the answer, wait for one release of `gate`.
    #[must_use]
    pub fn gated(mut self, gate: &Gate) -> Self {
        self.gate = Some(gate.clone());
        self
    }

    /// Delays each piece (or chunk).
    #[must_use]
    pub fn delayed(mut self, delay: Duration) -> Self {
        self.delay = Some(delay);
        self
    }

    #[must_use]
    pub fn ending(mut self, ending: Ending) -> Self {
        self.ending = ending;
        self
    }

    fn with_body(status: u16, body: Body) -> Self {
        Self { status, headers: Vec::new(), body, gate: None, delay: None, ending: Ending::Proper }
    }
}

/// Selects the reply to a request. Cheap to clone.
#[derive(Clone)]
pub struct Script(Arc<dyn Fn(&RecordedRequest) -> Reply + Send + Sync>);

impl Script {
    /// Sends the same reply to every request.
    #[must_use]
    pub fn always(reply: Reply) -> Self {
        Self::by(move |_| reply.clone())
    }

    /// Sends replies in order; further requests fail with 500, so that a test notices.
    #[must_use]
    pub fn queue(replies: impl IntoIterator<Item = Reply>) -> Self {
        let queue: Mutex<VecDeque<Reply>> = Mutex::new(replies.into_iter().collect());
        Self::by(move |_| {
            let empty = || Reply::json(500, r#"{"error":{"message":"the script has no reply left"}}"#);
            queue.lock().pop_front().unwrap_or_else(empty)
        })
    }

    /// Computes the reply from the request.
    #[must_use]
    pub fn by(choose: impl Fn(&RecordedRequest) -> Reply + Send + Sync + 'static) -> Self {
        Self(Arc::new(choose))
    }

    pub(crate) fn reply(&self, request: &RecordedRequest) -> Reply {
        (self.0)(request)
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Script(…)")
    }
}
