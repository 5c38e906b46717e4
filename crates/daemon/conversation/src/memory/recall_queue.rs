//! Recalls whose results are not stored yet. They are kept in memory only: each is stored once, or never if the daemon is
//! killed before.

use std::collections::VecDeque;
use std::sync::Arc;

use agentd_engine::engine::{AnsweredTurn, RecalledTurn};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Maximum number of waiting entries; further ones are not counted.
const MAX_ENTRIES: usize = 2_000;
const BATCH_SIZE: usize = 50;

/// What is to be stored about a recall.
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
