//! Conversion of a vendor's response into a [`ModelStream`].
//!
//! An answer is complete when its finish reason has arrived and the body ends properly, when the vendor's end marker
//! arrives, or when nothing more arrives for [`TRAILER_LIMIT`] after the finish reason.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use agentd_base::Secret;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{FutureExt, StreamExt, stream};
use sse_stream::{Sse, SseByteStream};
use tokio::time::{Instant, timeout, timeout_at};

use crate::body::{BodyError, TimedBody};
use crate::vendor_error::VendorError;
use crate::wire::{Decoder, Progress};
use crate::{ModelError, ModelErrorCode, ModelEvent, ModelStream, Vendor};

/// Maximum time to drain the connection of a finished answer so that it can be reused.
const DRAIN_LIMIT: Duration = Duration::from_secs(1);
/// Maximum time to wait for usage and an end marker after the finish reason.
const TRAILER_LIMIT: Duration = Duration::from_secs(2);
/// Terminates an event that the server left open at the end of the body.
const END_OF_EVENT: &[u8] = b"\n\n";

/// Context of an error: the vendor it names, and the key that is redacted from it.
#[derive(Clone)]
pub(crate) struct ErrorContext {
    pub(crate) vendor: Vendor,
    pub(crate) key: Option<Secret>,
}

impl ErrorContext {
    pub(crate) fn classify(&self, vendor_error: VendorError) -> ModelError {
        vendor_error.classify(self.vendor, self.key.as_ref())
    }

    pub(crate) fn timed_out(&self) -> ModelError {
        ModelError::new(ModelErrorCode::Timeout, format!("{} did not answer in time", self.vendor))
    }

    fn interrupted(&self) -> ModelError {
        let message = format!("the response of {} was interrupted", self.vendor);
        ModelError::new(ModelErrorCode::ProviderUnavailable, message)
    }

    fn body_failed(&self, error: BodyError) -> ModelError {
        match error {
            BodyError::TimedOut => self.timed_out(),
            error @ BodyError::TooLarge => self.classify(VendorError::broken_format(error.to_string())),
            BodyError::Broken(error) => self.interrupted().with_source(error),
        }
    }
}

struct Answer {
    events: SseByteStream<BoxStream<'static, Result<Bytes, BodyError>>>,
    unread_bytes: Arc<AtomicUsize>,
    has_body_ended: Arc<AtomicBool>,
    decoder: Box<dyn Decoder>,
    context: ErrorContext,
    /// Decoded events that were not yet returned; bounded by one event of the vendor.
    ready: VecDeque<ModelEvent>,
    /// Set once the finish reason has arrived: time at which the answer counts as complete even if the connection stays
    /// open.
    complete_at: Option<Instant>,
    error: Option<ModelError>,
    is_finished: bool,
}

/// Decodes `body` with `decoder`.
pub(crate) fn stream(body: TimedBody, decoder: Box<dyn Decoder>, context: ErrorContext) -> ModelStream {
    let unread_bytes = body.unread();
    let has_body_ended = Arc::<AtomicBool>::default();
    let flag = Arc::clone(&has_body_ended);
    let end = stream::once(async move {
        flag.store(true, Ordering::Relaxed);
        Ok(Bytes::from_static(END_OF_EVENT))
    });
    let answer = Answer {
        events: SseByteStream::new(body.chain(end).boxed()),
        unread_bytes,
        has_body_ended,
        decoder,
        context,
        ready: VecDeque::new(),
        complete_at: None,
        error: None,
        is_finished: false,
    };
    stream::unfold(Some(answer), |answer| async move {
        let mut answer = answer?;
        let item = answer.next().await?;
        let is_last = matches!(item, Err(_) | Ok(ModelEvent::Finished(_)));
        if is_last {
            answer.close(item.is_ok());
            return Some((item, None));
        }
        Some((item, Some(answer)))
    })
    .boxed()
}

impl Answer {
    async fn next(&mut self) -> Option<Result<ModelEvent, ModelError>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            if let Some(error) = self.error.take() {
                return Some(Err(error));
            }
            if self.is_finished {
                return None;
            }
            let read = match self.complete_at {
                Some(at) => timeout_at(at, self.events.next()).await,
                None => Ok(self.events.next().await),
            };
            match read {
                Ok(Some(Ok(event))) => self.handle_event(event),
                Ok(Some(Err(error))) => self.handle_read_error(error),
                Ok(None) | Err(_) => self.finish(),
            }
        }
    }

    fn handle_event(&mut self, event: Sse) {
        self.unread_bytes.store(0, Ordering::Relaxed);
        let Some(data) = event.data else { return };
        match self.decoder.decode(&data, &mut self.ready) {
            Ok(Progress::End) => self.finish(),
            Ok(progress) => {
                // Some servers send a finish reason with each chunk.
                let is_content = progress == Progress::Content;
                if self.decoder.has_finish_reason() && (is_content || self.complete_at.is_none()) {
                    self.complete_at = Some(Instant::now() + TRAILER_LIMIT);
                }
            }
            // The last event was truncated.
            Err(_) if self.has_body_ended.load(Ordering::Relaxed) => self.finish(),
            Err(vendor_error) => self.error = Some(self.context.classify(vendor_error)),
        }
    }

    fn handle_read_error(&mut self, error: sse_stream::Error) {
        let sse_stream::Error::Body(inner) = error else {
            match self.has_body_ended.load(Ordering::Relaxed) {
                true => self.finish(),
                false => {
                    let vendor_error = VendorError::broken_format("an event is not UTF-8");
                    self.error = Some(self.context.classify(vendor_error).with_source(error));
                }
            }
            return;
        };
        match inner.downcast::<BodyError>().map(|body| *body) {
            Ok(BodyError::TimedOut) if self.decoder.has_finish_reason() => self.finish(),
            Ok(error) => self.error = Some(self.context.body_failed(error)),
            Err(_) => self.error = Some(self.context.interrupted()),
        }
    }

    fn finish(&mut self) {
        self.is_finished = true;
        match self.decoder.finish(&mut self.ready) {
            Some(finish) => self.ready.push_back(ModelEvent::Finished(finish)),
            None => self.error = Some(self.context.interrupted()),
        }
    }

    /// Reads the few bytes after the end marker so that the connection can be reused.
    fn close(mut self, is_good: bool) {
        if is_good && self.events.next().now_or_never().is_none() {
            tokio::spawn(timeout(DRAIN_LIMIT, async move { while let Some(Ok(_)) = self.events.next().await {} }));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use serde_json::json;
    use tokio::time::sleep;

    use super::*;
    use crate::{ModelMessage, ModelRequest, wire};

    fn request() -> ModelRequest {
        ModelRequest {
            client: "test".into(),
            model: "m".to_owned(),
            system: None,
            messages: vec![ModelMessage::User { content: "Hello?".to_owned() }],
            tools: [].into(),
            temperature: None,
            max_output_tokens: None,
            is_conversation: false,
            timeout: Duration::from_secs(600),
        }
    }

    /// Some servers send a finish reason with each chunk.
    #[tokio::test(start_paused = true)]
    async fn chunks_after_a_finish_reason_extend_the_trailer_limit() {
        let fragment = |arguments: &str| {
            let call = json!({"index": 0, "id": "a", "function": {"name": "look", "arguments": arguments}});
            let choice = json!({"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"});
            format!("data: {}\n\n", json!({ "choices": [choice] }))
        };
        let usage = "data: {\"choices\":[],\"usage\":{}}\n\n".to_owned();
        let pieces = [fragment("{\"a\""), fragment(":"), fragment("1}"), usage.clone(), usage];
        let chunks = stream::iter(pieces).then(|piece| async {
            sleep(TRAILER_LIMIT * 3 / 4).await;
            Ok::<_, Infallible>(piece)
        });
        let response = reqwest::Response::from(http::Response::new(reqwest::Body::wrap_stream(chunks)));
        let (request, began) = (request(), Instant::now());
        let body = TimedBody::new(response, request.timeout, began + request.timeout);
        let decoder = wire::call(Vendor::Openai, false, &request).decoder;
        let events: Vec<_> = stream(body, decoder, ErrorContext { vendor: Vendor::Openai, key: None }).collect().await;
        match &events[..] {
            [Ok(ModelEvent::ToolCall(call)), Ok(ModelEvent::Finished(_))] => assert_eq!(call.input, json!({"a": 1})),
            other => panic!("{other:?}"),
        }
        // Usage does not extend the limit.
        assert_eq!(began.elapsed(), TRAILER_LIMIT * 9 / 4 + TRAILER_LIMIT);
    }
}
