//! What the reading thread hands to the generating thread.
//!
//! Invariants: never more requests than `max_queue` wait; the set of cancelled ids holds only ids
//! that are being worked on, so it is bounded too.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};

use parking_lot::{Condvar, Mutex};

use crate::GenerateRequest;

/// A request with the id that its frames carry.
pub(crate) struct Waiting {
    pub(crate) id: u64,
    pub(crate) request: Box<GenerateRequest>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Waiting>,
    /// Being worked on, and whether it was cancelled meanwhile.
    running: HashMap<u64, bool>,
}

/// Where a cancellation found its request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Cancelled {
    /// It was waiting and is gone: the caller reports its end.
    Queued,
    /// It is being worked on, and its worker will see it.
    Running,
    /// It is over, or never was.
    Unknown,
}

pub(crate) struct Inbox {
    state: Mutex<State>,
    arrived: Condvar,
    max_queue: usize,
}

impl Inbox {
    pub(crate) fn new(max_queue: usize) -> Self {
        Self { state: Mutex::new(State::default()), arrived: Condvar::new(), max_queue }
    }

    /// Takes a request in, or gives it back when the queue is full.
    pub(crate) fn push(&self, waiting: Waiting) -> Result<(), Waiting> {
        let mut state = self.state.lock();
        if state.queue.len() >= self.max_queue {
            return Err(waiting);
        }
        state.queue.push_back(waiting);
        self.arrived.notify_one();
        Ok(())
    }

    pub(crate) fn cancel(&self, id: u64) -> Cancelled {
        let mut state = self.state.lock();
        if let Some(cancelled) = state.running.get_mut(&id) {
            *cancelled = true;
            return Cancelled::Running;
        }
        let Some(at) = state.queue.iter().position(|waiting| waiting.id == id) else {
            return Cancelled::Unknown;
        };
        state.queue.remove(at);
        Cancelled::Queued
    }

    pub(crate) fn is_cancelled(&self, id: u64) -> bool {
        self.state.lock().running.get(&id).copied().unwrap_or(false)
    }

    /// The oldest request, if it asks for `model_path`. It counts as running until [`Self::done`].
    /// A request for another model is not overtaken: that would starve it.
    pub(crate) fn take(&self, model_path: &Path) -> Option<Waiting> {
        let mut state = self.state.lock();
        if state.queue.front()?.request.model_path != model_path {
            return None;
        }
        let waiting = state.queue.pop_front()?;
        state.running.insert(waiting.id, false);
        Some(waiting)
    }

    pub(crate) fn done(&self, id: u64) {
        self.state.lock().running.remove(&id);
    }

    /// Blocks until a request waits, and says which model it asks for.
    pub(crate) fn wait(&self) -> PathBuf {
        let mut state = self.state.lock();
        loop {
            if let Some(waiting) = state.queue.front() {
                return waiting.request.model_path.clone();
            }
            self.arrived.wait(&mut state);
        }
    }
}
