//! What the reading thread hands to the thread that embeds: queries before texts, each in order.

use std::collections::VecDeque;

use parking_lot::{Condvar, Mutex};

/// A text with the id that its answer carries.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) id: u64,
    pub(crate) text: String,
}

#[derive(Default)]
struct State {
    queries: VecDeque<Waiting>,
    texts: VecDeque<Waiting>,
    is_closed: bool,
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
    pub(crate) fn push(&self, waiting: Waiting, is_query: bool) -> bool {
        let mut state = self.state.lock();
        if state.queries.len() + state.texts.len() >= self.max {
            return false;
        }
        if is_query {
            state.queries.push_back(waiting)
        } else {
            state.texts.push_back(waiting)
        }
        self.arrived.notify_one();
        true
    }

    pub(crate) fn take_query(&self) -> Option<Waiting> {
        self.state.lock().queries.pop_front()
    }

    pub(crate) fn take_text(&self) -> Option<Waiting> {
        self.state.lock().texts.pop_front()
    }

    /// Whatever waits, queries first.
    pub(crate) fn take_any(&self) -> Option<Waiting> {
        self.take_query().or_else(|| self.take_text())
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

    /// Nothing more will come. A process ends otherwise; this is for tests.
    #[cfg(test)]
    pub(crate) fn close(&self) {
        self.state.lock().is_closed = true;
        self.arrived.notify_all();
    }
}
