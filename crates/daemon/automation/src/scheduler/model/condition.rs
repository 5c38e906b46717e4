//! Variables and evaluation of job conditions.

use agentd_base::Timestamp;
use agentd_conditions::{Condition, ConditionError, Input, Values, Variable};
use agentd_schedule::Zone;
use serde_json::{Value, json};

use super::job::Job;
use super::run::{Run, RunDelivery, RunStatus};
use crate::notify::Target;

/// Maximum number of characters of a goal or an output in a condition.
const MAX_TEXT_CHARACTERS: usize = 2_000;
/// Maximum number of characters of a channel, an expression or a delivery error in a condition.
const MAX_SHORT_TEXT_CHARACTERS: usize = 500;

const VARIABLES: &[Variable] = &[
    Variable { name: "now", max_size: 1 },
    Variable { name: "job", max_size: 6_000 },
    Variable { name: "last_run", max_size: 6_000 },
    Variable { name: "run_count", max_size: 1 },
];

fn truncate(text: &str, characters: usize) -> String {
    text.chars().take(characters).collect()
}

/// Returns the fields of a job as the API shows them. Times are strings for `timestamp(…)`. A channel may appear in an
/// error message, so it is shown as to a read-only key. The description of the schedule is always English, because the
/// result of a condition must not depend on the interface language.
fn job_value(job: &Job) -> Value {
    let delivery = job.delivery.as_ref().map(|rule| {
        let channel = rule.channel.parse::<Target>().map_or_else(|_| "?".to_owned(), |target| target.redacted());
        json!({"channel": truncate(&channel, MAX_SHORT_TEXT_CHARACTERS), "format": rule.format})
    });
    let condition = job
        .condition
        .as_ref()
        .map(|rule| json!({"type": rule.kind, "expression": truncate(&rule.expression, MAX_SHORT_TEXT_CHARACTERS)}));
    json!({
        "id": job.id,
        "name": job.name,
        "goal": truncate(&job.goal, MAX_TEXT_CHARACTERS),
        "agent_id": job.agent_id,
        "project_id": job.project_id,
        "schedule": job.schedule.spec(),
        "human_readable": truncate(&job.schedule.human_readable("en", &Zone::UTC), MAX_SHORT_TEXT_CHARACTERS),
        "status": job.status,
        "delivery": delivery,
        "condition": condition,
        "retry": job.retry,
        "overlap": job.overlap,
        "misfire": job.misfire,
        "execution_mode": job.execution_mode,
        "time_limit_seconds": job.time_limit_seconds,
        "model": job.model.as_deref().map(|model| truncate(model, MAX_SHORT_TEXT_CHARACTERS)),
        "next_run_at": job.next_run_at,
        "last_run_at": job.last_run_at,
        "run_count": job.run_count,
        "created_at": job.created_at,
        "updated_at": job.updated_at,
    })
}

fn run_value(run: &Run, delivery: Option<&RunDelivery>) -> Value {
    let delivery = delivery.map(|delivery| {
        let error = delivery.error.as_deref().map(|error| truncate(error, MAX_SHORT_TEXT_CHARACTERS));
        json!({"status": delivery.status, "error": error})
    });
    json!({
        "id": run.id,
        "job_id": run.job_id,
        "status": run.status,
        "cause": run.cause,
        "attempt": run.attempt,
        "scheduled_for": run.scheduled_for,
        "next_attempt_at": run.due_at.filter(|_| run.status == RunStatus::Pending),
        "session_id": run.session_id,
        "started_at": run.started_at,
        "completed_at": run.completed_at,
        "output": truncate(run.output.as_deref().unwrap_or_default(), MAX_TEXT_CHARACTERS),
        "error": run.error.as_deref().unwrap_or_default(),
        "delivery": delivery,
        "created_at": run.created_at,
    })
}

fn values(job: &Job, last_run: Value, run_count: u64, now: Timestamp) -> Values {
    Values::new()
        .with("now", Input::Time(now))
        .with("job", Input::Json(job_value(job)))
        .with("last_run", Input::Json(last_run))
        .with("run_count", Input::Json(json!(run_count)))
}

/// Returns why an expression is not a valid condition, or `None` if it is. It must evaluate both before and after the
/// first run.
pub(crate) fn fault(expression: &str, job: &Job) -> Option<String> {
    let condition = match Condition::compile(expression, VARIABLES) {
        Ok(condition) => condition,
        Err(error) => return Some(error.to_string()),
    };
    let (first, later) = examples(job);
    // Short-circuit evaluation hides misspelt fields, so the field names are checked separately.
    for (variable, fields) in [("job", job_value(job)), ("last_run", example_run(job))] {
        let known: Vec<&str> = fields.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
        if let Some(field) = condition.unknown_field(variable, &known) {
            return Some(format!("`{variable}` has no field `{field}`; its fields are {}", known.join(", ")));
        }
    }
    if let Err(error) = condition.evaluate(&later) {
        return Some(error.to_string());
    }
    let error = condition.evaluate(&first).err()?;
    // A second evaluation with a last run shows whether the null values caused the error.
    let now = job.created_at;
    let next_run_at = job.schedule.recurs().then_some(now);
    let begun = Job { last_run_at: Some(now), next_run_at, run_count: 0, ..job.clone() };
    if condition.evaluate(&values(&begun, example_run(job), 0, now)).is_err() {
        return Some(format!("cannot be evaluated before the first run, when `run_count` is 0: {error}"));
    }
    Some(format!(
        "cannot be evaluated before the first run, when `last_run` and `job.last_run_at` are null: {error}; start the \
         expression with `last_run == null || …`"
    ))
}

/// Checks that an unchanged expression compiles and evaluates in at least one state of the job.
pub(crate) fn check_unchanged(expression: &str, job: &Job) -> Result<(), ConditionError> {
    let (first, later) = examples(job);
    Condition::compile(expression, VARIABLES)?.check_with_examples(&[first, later])
}

/// Returns example values before the first run and after a successful run.
fn examples(job: &Job) -> (Values, Values) {
    let now = job.created_at;
    // A one-time job has no next run while it runs.
    let next_run_at = job.schedule.recurs().then_some(now);
    let first = Job { last_run_at: None, next_run_at, run_count: 0, ..job.clone() };
    let later = Job { last_run_at: Some(now), run_count: 1, ..first.clone() };
    (values(&first, Value::Null, 0, now), values(&later, example_run(job), 1, now))
}

/// Returns the value of a successful run.
fn example_run(job: &Job) -> Value {
    let now = job.created_at;
    let delivery = job.delivery.as_ref().map(|_| json!({"status": "sent", "error": null}));
    json!({
        "id": "run_example", "job_id": job.id, "status": "success", "cause": "schedule", "attempt": 1,
        "scheduled_for": now, "next_attempt_at": null, "session_id": "ses_example", "started_at": now,
        "completed_at": now, "output": "", "error": "", "delivery": delivery, "created_at": now,
    })
}

/// Evaluates a condition. Takes at most a few milliseconds.
pub(crate) fn evaluate(
    expression: &str,
    job: &Job,
    last_run: Option<(&Run, Option<&RunDelivery>)>,
    now: Timestamp,
) -> Result<bool, ConditionError> {
    let last_run = last_run.map_or(Value::Null, |(run, delivery)| run_value(run, delivery));
    Condition::compile(expression, VARIABLES)?.evaluate(&values(job, last_run, job.run_count, now))
}
