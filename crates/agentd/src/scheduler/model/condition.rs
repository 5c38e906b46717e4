//! What a condition of a job sees.

use agentd_base::Timestamp;
use agentd_conditions::{Condition, ConditionError, Given, Values, Variable};
use serde_json::{Value, json};

use super::job::Job;
use super::run::Run;

/// Of a goal or an output, a condition sees the beginning.
const TEXT_CHARACTERS: usize = 2_000;

const VARIABLES: &[Variable] = &[
    Variable { name: "now", max_size: 1 },
    Variable { name: "job", max_size: 3_000 },
    Variable { name: "last_run", max_size: 5_000 },
    Variable { name: "run_count", max_size: 1 },
];

fn beginning(text: &str) -> String {
    text.chars().take(TEXT_CHARACTERS).collect()
}

/// The same fields that the API shows of a job; times are texts that `timestamp(…)` reads.
fn job_value(job: &Job) -> Value {
    json!({
        "id": job.id,
        "name": job.name,
        "goal": beginning(&job.goal),
        "agent_id": job.agent_id,
        "project_id": job.project_id,
        "status": job.status,
        "next_run_at": job.next_run_at,
        "last_run_at": job.last_run_at,
        "run_count": job.run_count,
        "created_at": job.created_at,
    })
}

fn run_value(run: &Run) -> Value {
    json!({
        "id": run.id,
        "status": run.status,
        "cause": run.cause,
        "attempt": run.attempt,
        "scheduled_for": run.scheduled_for,
        "started_at": run.started_at,
        "completed_at": run.completed_at,
        "output": beginning(run.output.as_deref().unwrap_or_default()),
        "error": run.error.as_deref().unwrap_or_default(),
    })
}

fn values(job: &Job, last_run: Value, run_count: u64, now: Timestamp) -> Values {
    Values::new()
        .with("now", Given::Time(now))
        .with("job", Given::Json(job_value(job)))
        .with("last_run", Given::Json(last_run))
        .with("run_count", Given::Json(json!(run_count)))
}

/// Whether an expression can be a job's condition.
pub(in crate::scheduler) fn check(expression: &str, job: &Job) -> Result<(), ConditionError> {
    let now = job.created_at;
    let example = json!({
        "id": "run_example", "status": "success", "cause": "schedule", "attempt": 1, "scheduled_for": now,
        "started_at": now, "completed_at": now, "output": "", "error": "",
    });
    // After its first run, as it looks for most of its life.
    let later = Job { last_run_at: Some(now), next_run_at: Some(now), run_count: 1, ..job.clone() };
    Condition::compile(expression, VARIABLES)?
        .try_with(&[values(job, Value::Null, 0, now), values(&later, example, 1, now)])
}

/// Whether a run may begin. Takes some milliseconds at most.
pub(in crate::scheduler) fn judge(
    expression: &str,
    job: &Job,
    last_run: Option<&Run>,
    now: Timestamp,
) -> Result<bool, ConditionError> {
    let last_run = last_run.map_or(Value::Null, run_value);
    Condition::compile(expression, VARIABLES)?.evaluate(&values(job, last_run, job.run_count, now))
}
