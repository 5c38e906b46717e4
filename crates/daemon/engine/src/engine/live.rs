//! Turns that run in this process: their newest events and their stop signals.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use agentd_base::Timestamp;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::agents::AgentId;
use crate::engine::error::EngineError;
use crate::engine::model::{Purpose, SessionEvent, SessionId};

/// Maximum number of concurrent turns in this process.
pub(super) const MAX_TURNS: usize = 2_048;
/// Number of events buffered per turn. Followers that lag further behind read from the store.
const MAX_BUFFERED_EVENTS: usize = 512;

/// Reason to stop a turn early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// The turn was cancelled.
    Cancel,
    /// The daemon shuts down.
    Interrupt,
}

/// A running turn as seen by its followers.
#[derive(Debug)]
pub(super) struct Live {
    agent_id: AgentId,
    newest: Mutex<VecDeque<SessionEvent>>,
    progress: watch::Sender<Progress>,
    stop: watch::Sender<Option<Stop>>,
    /// Purpose and start of the model call in progress.
    calling: Mutex<Option<(Purpose, Timestamp)>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Progress {
    /// Number of published events.
    pub(super) published: u64,
    /// No further events are published here. The store tells whether the log is complete.
    pub(super) is_over: bool,
}

impl Live {
    fn new(agent_id: AgentId) -> Self {
        Self {
            agent_id,
            newest: Mutex::default(),
            progress: watch::Sender::new(Progress { published: 0, is_over: false }),
            stop: watch::Sender::new(None),
            calling: Mutex::default(),
        }
    }

    /// Publishes events that are stored.
    pub(super) fn publish(&self, events: impl IntoIterator<Item = SessionEvent>) {
        let published = {
            let mut newest = self.newest.lock();
            for event in events {
                if newest.len() == MAX_BUFFERED_EVENTS {
                    newest.pop_front();
                }
                newest.push_back(event);
            }
            newest.back().map_or(0, |event| event.seq + 1)
        };
        self.progress.send_modify(|progress| progress.published = published);
    }

    fn end(&self) {
        self.progress.send_modify(|progress| progress.is_over = true);
    }

    /// Returns the events after `seen`, or `None` if some of them are no longer buffered.
    pub(super) fn after(&self, seen: Option<u64>) -> Option<Vec<SessionEvent>> {
        let next = seen.map_or(0, |seen| seen.saturating_add(1));
        let newest = self.newest.lock();
        let Some(oldest) = newest.front().map(|event| event.seq) else { return Some(Vec::new()) };
        if next < oldest {
            return None;
        }
        let skipped = usize::try_from(next - oldest).unwrap_or(usize::MAX);
        Some(newest.iter().skip(skipped).cloned().collect())
    }

    /// Resolves when no further events are published.
    pub(super) async fn ended(&self) {
        // The sender lives as long as `self`, so this cannot fail.
        drop(self.progress.subscribe().wait_for(|progress| progress.is_over).await);
    }

    pub(super) fn watch(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// Records the model call in progress, or its end.
    pub(super) fn note_call(&self, calling: Option<(Purpose, Timestamp)>) {
        *self.calling.lock() = calling;
    }

    pub(super) fn calling(&self) -> Option<(Purpose, Timestamp)> {
        *self.calling.lock()
    }

    /// Asks the turn to stop. The first reason wins.
    pub(super) fn stop(&self, reason: Stop) {
        self.stop.send_if_modified(|stop| {
            let is_first = stop.is_none();
            stop.get_or_insert(reason);
            is_first
        });
    }

    pub(super) fn stops(&self) -> watch::Receiver<Option<Stop>> {
        self.stop.subscribe()
    }
}

/// All turns that run in this process.
#[derive(Debug)]
pub(super) struct LiveTurns {
    turns: Mutex<HashMap<SessionId, Arc<Live>>>,
    count: watch::Sender<usize>,
}

impl Default for LiveTurns {
    fn default() -> Self {
        Self { turns: Mutex::default(), count: watch::Sender::new(0) }
    }
}

/// Registration of a running turn; removed on drop.
#[derive(Debug)]
pub(super) struct RunningTurn {
    turns: Arc<LiveTurns>,
    id: SessionId,
    pub(super) live: Arc<Live>,
}

impl Drop for RunningTurn {
    fn drop(&mut self) {
        let left = {
            let mut turns = self.turns.turns.lock();
            // A parked turn may resume under the same id before the task that parked it has ended.
            if turns.get(&self.id).is_some_and(|live| Arc::ptr_eq(live, &self.live)) {
                turns.remove(&self.id);
            }
            turns.len()
        };
        self.live.end();
        self.turns.count.send_replace(left);
    }
}

impl LiveTurns {
    /// Registers a turn. Replaces the entry of the task that parked it, which is about to end.
    ///
    /// # Errors
    /// `TooManyTurns`.
    pub(super) fn register(self: &Arc<Self>, id: &SessionId, agent_id: &AgentId) -> Result<RunningTurn, EngineError> {
        let mut turns = self.turns.lock();
        if turns.len() >= MAX_TURNS {
            return Err(EngineError::TooManyTurns { limit: MAX_TURNS });
        }
        let live = Arc::new(Live::new(agent_id.clone()));
        turns.insert(id.clone(), Arc::clone(&live));
        let count = turns.len();
        drop(turns);
        self.count.send_replace(count);
        Ok(RunningTurn { turns: Arc::clone(self), id: id.clone(), live })
    }

    pub(super) fn find(&self, id: &SessionId) -> Option<Arc<Live>> {
        self.turns.lock().get(id).cloned()
    }

    pub(super) fn count(&self) -> usize {
        self.turns.lock().len()
    }

    pub(super) fn list_of_agent(&self, agent_id: &AgentId) -> Vec<Arc<Live>> {
        self.turns.lock().values().filter(|live| live.agent_id == *agent_id).cloned().collect()
    }

    pub(super) fn stop_all(&self, reason: Stop) {
        for live in self.turns.lock().values() {
            live.stop(reason);
        }
    }

    /// Resolves when no turn runs.
    pub(super) async fn wait_until_empty(&self) {
        let mut count = self.count.subscribe();
        while self.count() > 0 {
            if count.changed().await.is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lagging_follower_reads_from_the_store() {
        let live = Live::new("agent_1".into());
        assert_eq!(live.after(None), Some(Vec::new()));
        let last = MAX_BUFFERED_EVENTS as u64 + 9;
        live.publish((0..=last).map(|seq| SessionEvent::token(seq, "x")));
        assert_eq!(live.after(None), None);
        assert_eq!(live.after(Some(8)), None);
        assert_eq!(live.after(Some(9)).unwrap().len(), MAX_BUFFERED_EVENTS);
        assert_eq!(live.after(Some(last - 1)).unwrap(), [SessionEvent::token(last, "x")]);
        assert_eq!(live.after(Some(last)), Some(Vec::new()));
        assert_eq!(live.after(Some(u64::MAX)), Some(Vec::new()));
    }

    #[test]
    fn resumed_turn_stays_registered_when_its_parked_task_ends() {
        let turns = Arc::new(LiveTurns::default());
        let (id, agent) = ("sess_1".into(), "agent_1".into());
        let parked = turns.register(&id, &agent).unwrap();
        let resumed = turns.register(&id, &agent).unwrap();
        drop(parked);
        assert!(Arc::ptr_eq(&turns.find(&id).unwrap(), &resumed.live));
        assert_eq!(turns.count(), 1);
        drop(resumed);
        assert_eq!(turns.count(), 0);
    }

    #[test]
    fn first_stop_reason_wins() {
        let live = Live::new("agent_1".into());
        live.stop(Stop::Cancel);
        live.stop(Stop::Interrupt);
        assert_eq!(*live.stops().borrow(), Some(Stop::Cancel));
    }
}
