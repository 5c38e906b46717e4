//! Follows a session's log: from memory while it runs in this process and the follower keeps up, otherwise from the
//! store.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt, stream};
use tokio::sync::watch;

use crate::engine::live::{Live, Progress};
use crate::engine::model::{EventKind, NoAnswer, SessionEvent, SessionId, SessionStatus};
use crate::engine::state::EngineState;
use crate::engine::store;

/// Poll interval for a session that runs in another process.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
const EVENT_BATCH_SIZE: u32 = 256;

struct Follower {
    engine: Arc<EngineState>,
    id: SessionId,
    /// Sequence number of the last event that was returned.
    seen: Option<u64>,
    ready: VecDeque<SessionEvent>,
    live: Option<(Arc<Live>, watch::Receiver<Progress>)>,
    is_over: bool,
}

/// Returns the events after sequence number `after`, or all of them. The stream ends after the last event, when the
/// store cannot be read, or when the daemon drains while the session runs in another process. A client that reconnects
/// with the last number continues where the stream ended.
pub(crate) fn follow(
    engine: Arc<EngineState>,
    id: SessionId,
    after: Option<u64>,
) -> impl Stream<Item = SessionEvent> + Send {
    let live = engine.live.find(&id).map(|live| {
        let progress = live.watch();
        (live, progress)
    });
    let follower = Follower { engine, id, seen: after, ready: VecDeque::new(), live, is_over: false };
    stream::unfold(follower, |mut follower| async move {
        let event = follower.next().await?;
        Some((event, follower))
    })
}

/// Returns the complete text of a session when it has ended.
pub(crate) async fn read_text(mut events: impl Stream<Item = SessionEvent> + Unpin) -> Result<String, NoAnswer> {
    let mut text = String::new();
    while let Some(event) = events.next().await {
        let data = event.value();
        let field = |name: &str| data[name].as_str().unwrap_or_default().to_owned();
        match event.kind {
            EventKind::Token => text.push_str(&field("content")),
            EventKind::Done => return Ok(text.trim().to_owned()),
            EventKind::Error => return Err(NoAnswer { code: field("code"), message: field("message") }),
            EventKind::Start | EventKind::ToolUse | EventKind::ToolResult | EventKind::ApprovalRequest => {}
        }
    }
    Err(NoAnswer { code: "internal".to_owned(), message: "the session ended without a result".to_owned() })
}

enum Step {
    Again,
    Wait,
    End,
}

impl Follower {
    async fn next(&mut self) -> Option<SessionEvent> {
        loop {
            if self.is_over {
                return None;
            }
            if let Some(event) = self.ready.pop_front() {
                self.seen = Some(event.seq);
                self.is_over = event.kind.is_last();
                return Some(event);
            }
            if let Some((live, progress)) = &mut self.live {
                let now = *progress.borrow_and_update();
                match live.after(self.seen) {
                    Some(events) if !events.is_empty() => self.ready.extend(events),
                    Some(_) if now.is_over => self.live = None,
                    Some(_) => {
                        if progress.changed().await.is_err() {
                            self.live = None;
                        }
                    }
                    None => {
                        if matches!(self.read().await, Step::End) {
                            return None;
                        }
                    }
                }
                continue;
            }
            match self.read().await {
                Step::Again => {}
                Step::End => return None,
                Step::Wait => {
                    tokio::select! {
                        () = self.engine.context.draining.cancelled() => return None,
                        () = tokio::time::sleep(POLL_INTERVAL) => {}
                    }
                }
            }
        }
    }

    /// Reads further events from the store.
    async fn read(&mut self) -> Step {
        match self.try_read().await {
            Ok(step) => step,
            Err(error) => {
                tracing::warn!(session = %self.id, %error, "failed to follow a session");
                Step::End
            }
        }
    }

    async fn try_read(&mut self) -> Result<Step, agentd_store::StoreError> {
        let mut read = self.engine.context.db.read().await?;
        // The status is read before the events: if it is final, no event follows those that are read.
        let Some(session) = store::find_session(&mut read, &self.id).await? else {
            // A follower that saw the start must learn that no end will come.
            let Some(seen) = self.seen else { return Ok(Step::End) };
            let message = "the reply no longer exists: it was deleted, or the daemon's data was restored";
            self.ready.push_back(SessionEvent::error(seen.saturating_add(1), "internal", message));
            return Ok(Step::Again);
        };
        let seen = match self.seen {
            Some(seen) => seen,
            None => {
                self.ready.push_back(SessionEvent::start(&session));
                0
            }
        };
        self.ready.extend(store::list_events(&mut read, &self.id, seen, EVENT_BATCH_SIZE).await?);
        Ok(match (self.ready.is_empty(), session.status) {
            (false, _) => Step::Again,
            (true, SessionStatus::Running) => Step::Wait,
            (true, _) => Step::End,
        })
    }
}
