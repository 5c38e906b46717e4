//! What waits to be embedded, in two queues: queries and texts.
//!
//! A text that is not complete goes back to the end of its queue after each chunk, so that a long one
//! does not keep short ones waiting.

use std::collections::VecDeque;

use parking_lot::{Condvar, Mutex};

use crate::worker::embed::Open;

/// Which threads take a text. Queries have one of their own, so they never wait for texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueueKind {
    Queries,
    Texts,
}

#[derive(Default)]
struct State {
    queries: VecDeque<Open>,
    texts: VecDeque<Open>,
    is_closed: bool,
}

impl State {
    fn kind(&mut self, kind: QueueKind) -> &mut VecDeque<Open> {
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

    /// Takes a text in; false when too many wait.
    pub(crate) fn push(&self, text: Open, kind: QueueKind) -> bool {
        let mut state = self.state.lock();
        if state.queries.len() + state.texts.len() >= self.max {
            return false;
        }
        state.kind(kind).push_back(text);
        self.arrived.notify_all();
        true
    }

    /// Takes a text back that was begun. There is always room for it.
    #[cfg(any(feature = "local-model", test))]
    pub(crate) fn put_back(&self, text: Open, kind: QueueKind) {
        self.state.lock().kind(kind).push_back(text);
        self.arrived.notify_all();
    }

    /// Blocks until there is a text in the queue; `None` when there never will be.
    #[cfg(any(feature = "local-model", test))]
    pub(crate) fn take(&self, kind: QueueKind) -> Option<Open> {
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

    /// Whatever waits, without blocking.
    pub(crate) fn take_any(&self) -> Option<Open> {
        let mut state = self.state.lock();
        state.queries.pop_front().or_else(|| state.texts.pop_front())
    }

    /// Blocks until something waits; false when nothing ever will.
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

    /// Nothing more will come. The process just ends; this is for tests.
    #[cfg(test)]
    pub(crate) fn close(&self) {
        self.state.lock().is_closed = true;
        self.arrived.notify_all();
    }
}
