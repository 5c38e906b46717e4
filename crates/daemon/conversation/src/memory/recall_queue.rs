//! Queue of recalls whose results are not stored yet. It is not persisted: each result is stored at most once, and lost
//! if the daemon is killed first.

use std::collections::VecDeque;
use std::sync::Arc;

use agentd_engine::engine::{AnsweredTurn, RecalledTurn};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Maximum number of waiting entries; further ones are not counted.
const MAX_ENTRIES: usize = 2_000;
const BATCH_SIZE: usize = 50;

/// Result of a recall that is to be stored.
#[derive(Debug)]
pub(super) enum RecallOutcome {
    Recalled(RecalledTurn),
    Answered(AnsweredTurn),
}

#[derive(Debug, Default)]
pub(super) struct RecallQueue {
    waiting: Mutex<VecDeque<RecallOutcome>>,
    wake: Arc<Notify>,
}

impl RecallQueue {
    pub(super) fn push(&self, outcome: RecallOutcome) {
        let mut waiting = self.waiting.lock();
        if waiting.len() < MAX_ENTRIES {
            waiting.push_back(outcome);
            self.wake.notify_one();
        }
    }

    pub(super) fn take_batch(&self) -> Vec<RecallOutcome> {
        let mut waiting = self.waiting.lock();
        let count = waiting.len().min(BATCH_SIZE);
        waiting.drain(..count).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.lock().is_empty()
    }

    /// Wakes the worker that stores the entries.
    pub(super) fn wake(&self) -> Arc<Notify> {
        Arc::clone(&self.wake)
    }
}
