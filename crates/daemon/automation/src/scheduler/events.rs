//! Events about runs. The engine emits the events about their turns.

use agentd_base::Timestamp;
use agentd_engine::engine::OriginKind;
use agentd_store::NewEvent;
use serde_json::{Value, json};

use super::model::Run;

fn data(run: &Run) -> Value {
    json!({
        "agent_id": run.agent_id,
        "origin": OriginKind::Scheduler.as_str(),
        "job_id": run.job_id,
        "run_id": run.id,
    })
}

fn event(run: &Run, event_type: &str, data: Value) -> NewEvent {
    NewEvent::new(event_type, data).for_agent(run.agent_id.as_str())
}

/// Event for a run that was queued.
pub(super) fn queued(run: &Run) -> NewEvent {
    let mut data = data(run);
    data["session_id"] = Value::Null;
    data["conversation_id"] = Value::Null;
    event(run, "task.queued", data)
}

pub(super) fn skipped(run: &Run, reason: &str) -> NewEvent {
    let mut data = data(run);
    data["reason"] = json!(reason);
    event(run, "task.skipped", data)
}

pub(super) fn retrying(run: &Run, attempt: u32, next: Timestamp, error: &str) -> NewEvent {
    let mut data = data(run);
    data["attempt"] = json!(attempt);
    data["next_attempt_at"] = json!(next);
    data["error"] = json!(error);
    event(run, "task.retrying", data)
}

/// Event for a run that failed permanently before its turn started.
pub(super) fn failed(run: &Run, code: &str, error: &str) -> NewEvent {
    let mut data = data(run);
    data["session_id"] = Value::Null;
    data["conversation_id"] = Value::Null;
    data["reason"] = json!("error");
    data["code"] = json!(code);
    data["error"] = json!(error);
    event(run, "task.failed", data)
}

pub(super) fn ticked(due: usize, runs: &[&Run]) -> NewEvent {
    let ids: Vec<&str> = runs.iter().map(|run| run.id.as_str()).collect();
    NewEvent::new("scheduler.tick", json!({"due": due, "run_ids": ids}))
}

pub(super) fn started(instance: &str, active_jobs: u64) -> NewEvent {
    NewEvent::new("scheduler.started", json!({"instance": instance, "active_jobs": active_jobs}))
}

pub(super) fn stopped(instance: &str) -> NewEvent {
    NewEvent::new("scheduler.stopped", json!({"instance": instance}))
}
