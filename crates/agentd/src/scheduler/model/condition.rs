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

/// Fields that the API shows of a job; times are texts that `timestamp(…)` reads.
fn job_value(job: &Job) -> Value {
    json!({
        "id": job.id,
        "name": job.name,
        "goal": beginning(&job.goal),
        "agent_id": job.agent_id,
        "project_id": job.project_id,
        "schedule": job.schedule,
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

/// Why an expression cannot be a job's condition; `None`: it can. It has to come to something before the first run
/// and after it.
pub(in crate::scheduler) fn fault(expression: &str, job: &Job) -> Option<String> {
    let condition = match Condition::compile(expression, VARIABLES) {
        Ok(condition) => condition,
        Err(error) => return Some(error.to_string()),
    };
    let (first, later) = examples(job);
    if let Err(error) = condition.evaluate(&later) {
        return Some(error.to_string());
    }
    let error = condition.evaluate(&first).err()?;
    Some(format!(
        "cannot be judged before the first run, when `last_run` and `job.last_run_at` are null: {error}; begin with \
         `last_run == null || …`"
    ))
}

/// Whether an expression that is kept can be a job's condition: it comes to something at some time.
pub(in crate::scheduler) fn check_kept(expression: &str, job: &Job) -> Result<(), ConditionError> {
    let (first, later) = examples(job);
    Condition::compile(expression, VARIABLES)?.try_with(&[first, later])
}

/// What a condition sees before the first run, and as it looks for most of the job's life.
fn examples(job: &Job) -> (Values, Values) {
    let now = job.created_at;
    let example = json!({
        "id": "run_example", "status": "success", "cause": "schedule", "attempt": 1, "scheduled_for": now,
        "started_at": now, "completed_at": now, "output": "", "error": "",
    });
    // While a job of one date runs, nothing is to come.
    let next_run_at = job.schedule.recurs().then_some(now);
    let first = Job { last_run_at: None, next_run_at, run_count: 0, ..job.clone() };
    let later = Job { last_run_at: Some(now), run_count: 1, ..first.clone() };
    (values(&first, Value::Null, 0, now), values(&later, example, 1, now))
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
