//! Queue between the reading thread and the generating thread.
//!
//! Invariants: at most `max_queue` requests are queued; the set of cancelled ids contains only running requests, so it
//! is bounded too.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};

use parking_lot::{Condvar, Mutex};

use crate::GenerateRequest;

/// Request with the id of its frames.
pub(crate) struct QueuedRequest {
    pub(crate) id: u64,
    pub(crate) request: Box<GenerateRequest>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<QueuedRequest>,
    /// Running requests, and whether they were cancelled.
    running: HashMap<u64, bool>,
}

/// State of a request when it was cancelled.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Cancelled {
    /// It was queued and has been removed: the caller reports its end.
    Queued,
    /// It is running, and its worker will notice the cancellation.
    Running,
    /// It has finished or never existed.
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

    /// Queues a request, or returns it if the queue is full.
    pub(crate) fn push(&self, waiting: QueuedRequest) -> Result<(), QueuedRequest> {
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

    /// Takes the oldest request, if it is for `model_path`. It counts as running until [`Self::done`]. Requests for
    /// another model are not overtaken, which would starve them.
    pub(crate) fn take(&self, model_path: &Path) -> Option<QueuedRequest> {
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

    /// Blocks until a request is queued, and returns the model it is for.
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
