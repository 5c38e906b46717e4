//! What this domain has besides its routes.

use std::sync::Arc;

use super::model::{Session, SessionStatus};
use super::service::Engine;
use super::turn_sink::TurnObserver;
use super::worker::SessionMaintenance;
use crate::runtime::{CountBy, Domain, Family, Metrics, Workers};

const ENDS: &[&str] = &["completed", "failed", "timeout", "cancelled", "interrupted"];

/// Counts the turns of this process, and those that it found cut off, by how they ended.
struct CountEnds(Arc<CountBy>);

impl TurnObserver for CountEnds {
    fn turn_ended(&self, _session: &Session, status: SessionStatus, reason: Option<&str>) {
        self.0.count(match status {
            // A run whose time is up is stopped as if somebody had cancelled it.
            SessionStatus::Cancelled if reason == Some("timeout") => "timeout",
            SessionStatus::Done => "completed",
            SessionStatus::Failed => "failed",
            SessionStatus::Cancelled => "cancelled",
            SessionStatus::Interrupted => "interrupted",
            SessionStatus::Running => return,
        });
    }
}

impl Domain for Engine {
    fn add_workers(&self, workers: &mut Workers) {
        workers.add(SessionMaintenance(self.clone()));
    }

    fn add_metrics(&self, metrics: &Metrics) {
        let help = "Turns of agents by how they ended, since the daemon started.";
        let family = Family::counter("svc_tasks_total", help).by(&["status"]);
        self.observe(Arc::new(CountEnds(metrics.add_counter(family, ENDS))));
    }
}
