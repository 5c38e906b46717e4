//! The turns that run in this process: their newest events, and how to stop them.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use agentd_base::Timestamp;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::agents::AgentId;
use crate::engine::error::EngineError;
use crate::engine::model::{Purpose, SessionEvent, SessionId};

/// More turns at once are refused.
pub(super) const MAX_TURNS: usize = 2_048;
/// Followers that are further behind read from the store.
const KEPT_EVENTS: usize = 512;

/// Why a turn is to end before the model does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// Somebody asked for it.
    Cancel,
    /// The daemon goes down.
    Interrupt,
}

/// A running turn, as its followers see it.
#[derive(Debug)]
pub(super) struct Live {
    agent_id: AgentId,
    newest: Mutex<VecDeque<SessionEvent>>,
    progress: watch::Sender<Progress>,
    stop: watch::Sender<Option<Stop>>,
    /// What the model is being asked for, and since when.
    calling: Mutex<Option<(Purpose, Timestamp)>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Progress {
    /// How many events were published.
    pub(super) published: u64,
    /// Nothing more is published here. Whether there was a last event is for the store to say.
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

    /// Shows events that are stored.
    pub(super) fn publish(&self, events: impl IntoIterator<Item = SessionEvent>) {
        let published = {
            let mut newest = self.newest.lock();
            for event in events {
                if newest.len() == KEPT_EVENTS {
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

    /// The events after `seen`; `None` when some of them are only in the store by now.
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

    /// Returns when nothing more comes.
    pub(super) async fn ended(&self) {
        // The sender lives as long as this does, so this cannot fail.
        drop(self.progress.subscribe().wait_for(|progress| progress.is_over).await);
    }

    pub(super) fn watch(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// Notes that the model is being asked, or is not any more.
    pub(super) fn note_call(&self, calling: Option<(Purpose, Timestamp)>) {
        *self.calling.lock() = calling;
    }

    pub(super) fn calling(&self) -> Option<(Purpose, Timestamp)> {
        *self.calling.lock()
    }

    /// Asks the turn to end. The first reason counts.
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

/// Every turn that runs here.
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

/// One of the running turns; no longer counted when dropped, however the turn ended.
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
    pub(super) fn enter(self: &Arc<Self>, id: &SessionId, agent_id: &AgentId) -> Result<RunningTurn, EngineError> {
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

    pub(super) fn of_agent(&self, agent_id: &AgentId) -> Vec<Arc<Live>> {
        self.turns.lock().values().filter(|live| live.agent_id == *agent_id).cloned().collect()
    }

    pub(super) fn stop_all(&self, reason: Stop) {
        for live in self.turns.lock().values() {
            live.stop(reason);
        }
    }

    /// Returns when no turn runs.
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
    fn a_follower_that_is_too_far_behind_is_sent_to_the_store() {
        let live = Live::new("agent_1".into());
        assert_eq!(live.after(None), Some(Vec::new()));
        let last = KEPT_EVENTS as u64 + 9;
        live.publish((0..=last).map(|seq| SessionEvent::token(seq, "x")));
        assert_eq!(live.after(None), None);
        assert_eq!(live.after(Some(8)), None);
        assert_eq!(live.after(Some(9)).unwrap().len(), KEPT_EVENTS);
        assert_eq!(live.after(Some(last - 1)).unwrap(), [SessionEvent::token(last, "x")]);
        assert_eq!(live.after(Some(last)), Some(Vec::new()));
        assert_eq!(live.after(Some(u64::MAX)), Some(Vec::new()));
    }

    #[test]
    fn turn_that_goes_on_stays_registered_when_its_parked_part_ends() {
        let turns = Arc::new(LiveTurns::default());
        let (id, agent) = ("sess_1".into(), "agent_1".into());
        let parked = turns.enter(&id, &agent).unwrap();
        let resumed = turns.enter(&id, &agent).unwrap();
        drop(parked);
        assert!(Arc::ptr_eq(&turns.find(&id).unwrap(), &resumed.live));
        assert_eq!(turns.count(), 1);
        drop(resumed);
        assert_eq!(turns.count(), 0);
    }

    #[test]
    fn the_first_reason_to_stop_counts() {
        let live = Live::new("agent_1".into());
        live.stop(Stop::Cancel);
        live.stop(Stop::Interrupt);
        assert_eq!(*live.stops().borrow(), Some(Stop::Cancel));
    }
}
