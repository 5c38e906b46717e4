//! Two queues of texts to embed: queries and texts.
//!
//! An incomplete text returns to the end of its queue after each chunk, so that a long text does not block short ones.

use std::collections::VecDeque;

use parking_lot::{Condvar, Mutex};

use crate::worker::embed::OpenText;

/// Kind of a text, which determines its threads. Queries have their own thread, so they never wait for texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueueKind {
    Queries,
    Texts,
}

#[derive(Default)]
struct State {
    queries: VecDeque<OpenText>,
    texts: VecDeque<OpenText>,
    is_closed: bool,
}

impl State {
    fn kind(&mut self, kind: QueueKind) -> &mut VecDeque<OpenText> {
        match kind {
            QueueKind::Queries => &mut self.queries,
            QueueKind::Texts => &mut self.texts,
        }
    }
}

pub(crate) struct Queue {
    state: Mutex<State>,
    arrived: Condvar,
    max: usize,
}

impl Queue {
    pub(crate) fn new(max: usize) -> Self {
        Self { state: Mutex::new(State::default()), arrived: Condvar::new(), max }
    }

    /// Queues a text; returns false if the queue is full.
    pub(crate) fn push(&self, text: OpenText, kind: QueueKind) -> bool {
        let mut state = self.state.lock();
        if state.queries.len() + state.texts.len() >= self.max {
            return false;
        }
        state.kind(kind).push_back(text);
        self.arrived.notify_all();
        true
    }

    /// Returns a started text to its queue, regardless of the limit.
    #[cfg(any(feature = "local-model", test))]
    pub(crate) fn put_back(&self, text: OpenText, kind: QueueKind) {
        self.state.lock().kind(kind).push_back(text);
        self.arrived.notify_all();
    }

    /// Blocks until the queue contains a text; `None` once the queue is closed.
    #[cfg(any(feature = "local-model", test))]
    pub(crate) fn take(&self, kind: QueueKind) -> Option<OpenText> {
        let mut state = self.state.lock();
        loop {
            if let Some(text) = state.kind(kind).pop_front() {
                return Some(text);
            }
            if state.is_closed {
                return None;
            }
            self.arrived.wait(&mut state);
        }
    }

    /// Returns any queued text without blocking.
    pub(crate) fn take_any(&self) -> Option<OpenText> {
        let mut state = self.state.lock();
        state.queries.pop_front().or_else(|| state.texts.pop_front())
    }

    /// Blocks until a text is queued; false once the queue is closed.
    pub(crate) fn wait(&self) -> bool {
        let mut state = self.state.lock();
        while state.queries.is_empty() && state.texts.is_empty() {
            if state.is_closed {
                return false;
            }
            self.arrived.wait(&mut state);
        }
        true
    }

    /// Closes the queue. Only used by tests, since the process just exits.
    #[cfg(test)]
    pub(crate) fn close(&self) {
        self.state.lock().is_closed = true;
        self.arrived.notify_all();
    }
}
