//! What a condition of a job sees.

use agentd_base::Timestamp;
use agentd_conditions::{Condition, ConditionError, Given, Values, Variable};
use agentd_schedule::Zone;
use serde_json::{Value, json};

use super::job::Job;
use super::run::{Run, RunDelivery, RunStatus};
use crate::notify::Target;

/// Of a goal or an output, a condition sees the beginning.
const TEXT_CHARACTERS: usize = 2_000;
/// Of a channel, an expression and what went wrong with a delivery, too.
const SHORT_CHARACTERS: usize = 500;

const VARIABLES: &[Variable] = &[
    Variable { name: "now", max_size: 1 },
    Variable { name: "job", max_size: 6_000 },
    Variable { name: "last_run", max_size: 6_000 },
    Variable { name: "run_count", max_size: 1 },
];

fn beginning(text: &str, characters: usize) -> String {
    text.chars().take(characters).collect()
}

/// Fields that the API shows of a job; times are texts that `timestamp(…)` reads. What a condition says of a delivery
/// may end up in an error, so its channel is shown as to a key that may only read. The words for the schedule are
/// English in every interface: what a condition comes to must not hang on a language.
fn job_value(job: &Job) -> Value {
    let delivery = job.delivery.as_ref().map(|rule| {
        let channel = rule.channel.parse::<Target>().map_or_else(|_| "?".to_owned(), |target| target.shown());
        json!({"channel": beginning(&channel, SHORT_CHARACTERS), "format": rule.format})
    });
    let condition = job
        .condition
        .as_ref()
        .map(|rule| json!({"type": rule.kind, "expression": beginning(&rule.expression, SHORT_CHARACTERS)}));
    json!({
        "id": job.id,
        "name": job.name,
        "goal": beginning(&job.goal, TEXT_CHARACTERS),
        "agent_id": job.agent_id,
        "project_id": job.project_id,
        "schedule": job.schedule.spec(),
        "human_readable": beginning(&job.schedule.human_readable("en", &Zone::UTC), SHORT_CHARACTERS),
        "status": job.status,
        "delivery": delivery,
        "condition": condition,
        "retry": job.retry,
        "overlap": job.overlap,
        "misfire": job.misfire,
        "execution_mode": job.execution_mode,
        "time_limit_seconds": job.time_limit_seconds,
        "model": job.model.as_deref().map(|model| beginning(model, SHORT_CHARACTERS)),
        "next_run_at": job.next_run_at,
        "last_run_at": job.last_run_at,
        "run_count": job.run_count,
        "created_at": job.created_at,
        "updated_at": job.updated_at,
    })
}

fn run_value(run: &Run, delivery: Option<&RunDelivery>) -> Value {
    let delivery = delivery.map(|delivery| {
        let error = delivery.error.as_deref().map(|error| beginning(error, SHORT_CHARACTERS));
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
        "output": beginning(run.output.as_deref().unwrap_or_default(), TEXT_CHARACTERS),
        "error": run.error.as_deref().unwrap_or_default(),
        "delivery": delivery,
        "created_at": run.created_at,
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
pub(crate) fn fault(expression: &str, job: &Job) -> Option<String> {
    let condition = match Condition::compile(expression, VARIABLES) {
        Ok(condition) => condition,
        Err(error) => return Some(error.to_string()),
    };
    let (first, later) = examples(job);
    // Behind a term that is true already nobody looks: what is misspelt there would only be found in a run.
    for (variable, fields) in [("job", job_value(job)), ("last_run", example_run(job))] {
        let known: Vec<&str> = fields.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
        if let Some(field) = condition.unknown_field(variable, &known) {
            return Some(format!("there is no field `{field}` in `{variable}`; there are: {}", known.join(", ")));
        }
    }
    if let Err(error) = condition.evaluate(&later) {
        return Some(error.to_string());
    }
    let error = condition.evaluate(&first).err()?;
    // With a last run all the same it tells whether that is what was missing.
    let now = job.created_at;
    let next_run_at = job.schedule.recurs().then_some(now);
    let begun = Job { last_run_at: Some(now), next_run_at, run_count: 0, ..job.clone() };
    if condition.evaluate(&values(&begun, example_run(job), 0, now)).is_err() {
        return Some(format!("cannot be evaluated before the first run, when `run_count` is 0: {error}"));
    }
    Some(format!(
        "cannot be evaluated before the first run, when `last_run` and `job.last_run_at` are null: {error}; begin with \
         `last_run == null || …`"
    ))
}

/// Whether an expression that is kept can be a job's condition: it comes to something at some time.
pub(crate) fn check_kept(expression: &str, job: &Job) -> Result<(), ConditionError> {
    let (first, later) = examples(job);
    Condition::compile(expression, VARIABLES)?.try_with(&[first, later])
}

/// What a condition sees before the first run, and as it looks for most of the job's life.
fn examples(job: &Job) -> (Values, Values) {
    let now = job.created_at;
    // While a job of one date runs, nothing is to come.
    let next_run_at = job.schedule.recurs().then_some(now);
    let first = Job { last_run_at: None, next_run_at, run_count: 0, ..job.clone() };
    let later = Job { last_run_at: Some(now), run_count: 1, ..first.clone() };
    (values(&first, Value::Null, 0, now), values(&later, example_run(job), 1, now))
}

/// A run as a condition sees it when all went well.
fn example_run(job: &Job) -> Value {
    let now = job.created_at;
    let delivery = job.delivery.as_ref().map(|_| json!({"status": "sent", "error": null}));
    json!({
        "id": "run_example", "job_id": job.id, "status": "success", "cause": "schedule", "attempt": 1,
        "scheduled_for": now, "next_attempt_at": null, "session_id": "ses_example", "started_at": now,
        "completed_at": now, "output": "", "error": "", "delivery": delivery, "created_at": now,
    })
}

/// Whether a run may begin. Takes some milliseconds at most.
pub(crate) fn evaluate(
    expression: &str,
    job: &Job,
    last_run: Option<(&Run, Option<&RunDelivery>)>,
    now: Timestamp,
) -> Result<bool, ConditionError> {
    let last_run = last_run.map_or(Value::Null, |(run, delivery)| run_value(run, delivery));
    Condition::compile(expression, VARIABLES)?.evaluate(&values(job, last_run, job.run_count, now))
}
