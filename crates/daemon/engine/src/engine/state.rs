//! Shared state of the engine.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use agentd_core::runtime::{AppContext, Slot};
use agentd_core::settings::Settings;

use super::approvals::Approvals;
use super::holder::Holder;
use super::live::LiveTurns;
use super::model::{Marker, Session, SessionStatus};
use super::permits::BackgroundPermits;
use super::recall::Recall;
use super::turn_sink::{TurnObserver, TurnSink};
use crate::agents::Agents;
use crate::providers::Providers;
use crate::tools::Tools;

/// Lease duration of a session; renewed by heartbeats.
pub(super) const LEASE_DURATION: Duration = Duration::from_secs(30);

pub(super) struct EngineState {
    pub(super) context: AppContext,
    pub(super) settings: Settings,
    pub(super) agents: Agents,
    pub(super) providers: Providers,
    pub(super) tools: Tools,
    pub(super) approvals: Approvals,
    pub(super) live: Arc<LiveTurns>,
    pub(super) holder: Holder,
    pub(super) sinks: Slot<dyn TurnSink>,
    pub(super) observers: Slot<dyn TurnObserver>,
    pub(super) recall: Slot<dyn Recall>,
    pub(super) marker: Marker,
    pub(super) background: BackgroundPermits,
    pub(super) is_supervised: AtomicBool,
    /// Locked while a parked turn is claimed.
    pub(super) waking: tokio::sync::Mutex<()>,
}

impl EngineState {
    pub(super) fn recall(&self) -> Option<Arc<dyn Recall>> {
        self.recall.get().cloned()
    }

    /// Notifies the observers that the end of a turn is stored.
    pub(super) fn ended(&self, session: &Session, status: SessionStatus, reason: Option<&str>) {
        tracing::debug!(session = %session.id, status = status.as_str(), "turn ended");
        for observer in self.observers.all() {
            observer.turn_ended(session, status, reason);
        }
    }
}
