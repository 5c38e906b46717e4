//! A vendor's answer as a [`ModelStream`].

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agentd_base::Secret;
use futures_util::{FutureExt, StreamExt, stream};
use sse_stream::SseByteStream;

use crate::body::{BodyError, TimedBody};
use crate::complaint::Complaint;
use crate::wire::{Decoder, Progress};
use crate::{ModelError, ModelErrorCode, ModelEvent, ModelStream, Vendor};

/// How long a finished answer's connection may take to become reusable.
const DRAIN_LIMIT: Duration = Duration::from_secs(1);

/// On whose behalf errors are worded.
#[derive(Clone)]
pub(crate) struct Speaker {
    pub(crate) vendor: Vendor,
    pub(crate) key: Option<Secret>,
}

impl Speaker {
    pub(crate) fn classify(&self, complaint: Complaint) -> ModelError {
        complaint.classify(self.vendor, self.key.as_ref())
    }

    pub(crate) fn timed_out(&self) -> ModelError {
        ModelError::new(ModelErrorCode::Timeout, format!("{} did not answer in time", self.vendor))
    }

    fn cut_off(&self) -> ModelError {
        let message = format!("the answer of {} was cut off before its end", self.vendor);
        ModelError::new(ModelErrorCode::ProviderUnavailable, message)
    }

    fn broken(&self, error: sse_stream::Error) -> ModelError {
        let body = match error {
            sse_stream::Error::Body(inner) => inner.downcast::<BodyError>(),
            other => return self.classify(Complaint::broken_format("an event is not UTF-8")).with_source(other),
        };
        match body.map(|body| *body) {
            Ok(BodyError::TimedOut) => self.timed_out(),
            Ok(error @ BodyError::TooLarge) => self.classify(Complaint::broken_format(error.to_string())),
            Ok(BodyError::Broken(error)) => self.cut_off().with_source(error),
            Err(_) => self.cut_off(),
        }
    }
}

struct Answer {
    events: SseByteStream<TimedBody>,
    unread: Arc<AtomicUsize>,
    decoder: Box<dyn Decoder>,
    speaker: Speaker,
    /// Read, but not yet handed out; bounded by one event of the vendor.
    ready: VecDeque<ModelEvent>,
    end: Option<ModelError>,
    is_over: bool,
}

/// Reads `body` with `decoder`.
pub(crate) fn stream(body: TimedBody, decoder: Box<dyn Decoder>, speaker: Speaker) -> ModelStream {
    let unread = body.unread();
    let events = SseByteStream::new(body);
    let ready = VecDeque::new();
    let answer = Answer { events, unread, decoder, speaker, ready, end: None, is_over: false };
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
            if let Some(error) = self.end.take() {
                return Some(Err(error));
            }
            if self.is_over {
                return None;
            }
            match self.events.next().await {
                Some(Ok(event)) => {
                    self.unread.store(0, Ordering::Relaxed);
                    let Some(data) = event.data else { continue };
                    match self.decoder.decode(&data, &mut self.ready) {
                        Ok(Progress::More) => {}
                        Ok(Progress::End(finish)) => {
                            self.is_over = true;
                            self.ready.push_back(ModelEvent::Finished(finish));
                        }
                        Err(complaint) => self.end = Some(self.speaker.classify(complaint)),
                    }
                }
                Some(Err(error)) => self.end = Some(self.speaker.broken(error)),
                None => {
                    self.is_over = true;
                    match self.decoder.end_of_body() {
                        Some(finish) => self.ready.push_back(ModelEvent::Finished(finish)),
                        None => self.end = Some(self.speaker.cut_off()),
                    }
                }
            }
        }
    }

    /// Reads the few bytes behind the end marker, so that the connection can serve again.
    fn close(mut self, is_good: bool) {
        if is_good && self.events.next().now_or_never().is_none() {
            tokio::spawn(tokio::time::timeout(DRAIN_LIMIT, async move {
                while let Some(Ok(_)) = self.events.next().await {}
            }));
        }
    }
}
