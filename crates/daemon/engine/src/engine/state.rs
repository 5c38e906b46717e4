//! What every part of the engine works with.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use agentd_core::runtime::{AppContext, Slot};
use agentd_core::settings::Settings;

use super::approvals::{Approvals, DecidesApproval};
use super::holder::Holder;
use super::live::LiveTurns;
use super::model::{Marker, Session, SessionStatus};
use super::permits::BackgroundPermits;
use super::recall::Recall;
use super::turn_sink::{TurnObserver, TurnSink};
use crate::agents::Agents;
use crate::providers::Providers;
use crate::tools::Tools;

/// How long a session is held without a sign of life.
pub(super) const LEASE: Duration = Duration::from_secs(30);

/// What is composed after the engine.
#[derive(Debug, Clone)]
pub struct EngineSlots {
    /// Who keeps replies.
    pub sinks: Slot<Vec<Arc<dyn TurnSink>>>,
    /// Who hears of ends.
    pub observers: Slot<Vec<Arc<dyn TurnObserver>>>,
    /// Who acts on answers to approvals.
    pub deciders: Slot<Vec<Arc<dyn DecidesApproval>>>,
    /// What agents remember.
    pub recall: Slot<Arc<dyn Recall>>,
}

pub(super) struct EngineState {
    pub(super) context: AppContext,
    pub(super) settings: Settings,
    pub(super) agents: Agents,
    pub(super) providers: Providers,
    pub(super) tools: Tools,
    pub(super) approvals: Approvals,
    pub(super) live: Arc<LiveTurns>,
    pub(super) holder: Holder,
    pub(super) slots: EngineSlots,
    pub(super) marker: Marker,
    pub(super) background: BackgroundPermits,
    pub(super) is_supervised: AtomicBool,
    /// Held while a waiting turn is claimed.
    pub(super) waking: tokio::sync::Mutex<()>,
}

impl EngineState {
    pub(super) fn recall(&self) -> Option<Arc<dyn Recall>> {
        self.slots.recall.get().cloned()
    }

    /// Tells that a turn's end is stored.
    pub(super) fn ended(&self, session: &Session, status: SessionStatus, reason: Option<&str>) {
        tracing::debug!(session = %session.id, status = status.as_str(), "a turn ended");
        for observer in self.slots.observers.all() {
            observer.turn_ended(session, status, reason);
        }
    }
}
