//! What this domain has besides its routes.

use std::sync::Arc;

use agentd_base::Clock;

use super::model::{OriginKind, Session, SessionStatus};
use super::service::Engine;
use super::turn_sink::TurnObserver;
use super::worker::SessionMaintenance;
use crate::runtime::{CountBy, Domain, Family, Metrics, Recorder, Sample, Series, Workers};

const ENDS: &[&str] = &["completed", "failed", "timeout", "cancelled", "interrupted"];

/// Counts the turns of this process, and those that it found cut off, by how they ended, and measures them.
struct MeasureTurns {
    ends: Arc<CountBy>,
    recorder: Recorder,
    clock: Clock,
}

impl TurnObserver for MeasureTurns {
    fn turn_ended(&self, session: &Session, status: SessionStatus, reason: Option<&str>) {
        if session.origin.kind != OriginKind::Aside && status != SessionStatus::Running {
            let elapsed = self.clock.now().since(session.started_at);
            let is_error = matches!(status, SessionStatus::Failed | SessionStatus::Interrupted);
            self.recorder.record(Series::Turn, "", elapsed, is_error);
        }
        self.ends.count(match status {
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
        let (recorder, clock) = (self.inner().context.recorder.clone(), self.inner().context.clock.clone());
        metrics.read(Family::gauge("svc_turns_running", "Turns that run in this daemon now."), self, async |engine| {
            Ok(Sample::one(u64::try_from(engine.running_turns())?))
        });
        self.observe(Arc::new(MeasureTurns { ends: metrics.add_counter(family, ENDS), recorder, clock }));
    }
}
