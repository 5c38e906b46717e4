//! Schedules in plain words, and whether one stands.

use agentd_base::{FieldProblem, Timestamp};
use agentd_schedule::{MAX_TEXT_LENGTH, ScheduleSpec, ScheduleType};
use agentd_web::{Answer, ApiError, Caller, ErrorBody, Json, Query};
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::scheduler::service::{ParseMethod, Scheduler};

#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct ParseBody {
    /// English or German.
    #[schema(min_length = 1, max_length = 1000, example = "every weekday at 9")]
    text: String,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum ParseMethodView {
    /// The daemon's own grammar understood it.
    Regex,
    /// The default agent's model did.
    Llm,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ParsedView {
    /// As a job takes it.
    schedule: ScheduleSpec,
    /// What was understood, in the interface's language.
    human_readable: String,
    /// 0 to 1. Ask before anything is created below 0.5.
    confidence: f64,
    parse_method: ParseMethodView,
    /// The next five times.
    next_runs: Vec<Timestamp>,
}

/// Read a schedule out of a sentence
///
/// In the profile's time zone. What the daemon's grammar does not understand goes to the default agent's model,
/// whose answer counts only if it is a valid schedule. Nothing is created.
#[utoipa::path(
    post, path = "/api/scheduler/parse-nl", tag = "scheduler", request_body = ParseBody,
    responses(
        (status = 200, body = ParsedView),
        (status = 400, body = ErrorBody, description = "No schedule was understood"),
        (status = 502, body = ErrorBody, description = "The model that was asked gave no answer"),
    ),
)]
pub(super) async fn parse_schedule(
    State(scheduler): State<Scheduler>,
    caller: Caller,
    Json(body): Json<ParseBody>,
) -> Answer<ParsedView> {
    if body.text.trim().is_empty() || body.text.chars().count() > MAX_TEXT_LENGTH {
        let message = format!("must hold words, and {MAX_TEXT_LENGTH} characters at most");
        return Err(ApiError::invalid(vec![FieldProblem { field: "text".to_owned(), message }]));
    }
    let parsed = scheduler.parse_plain(&body.text, caller.key_id()).await?;
    Ok(Json(ParsedView {
        schedule: parsed.schedule.spec(),
        human_readable: parsed.human_readable,
        confidence: parsed.confidence,
        parse_method: match parsed.method {
            ParseMethod::Grammar => ParseMethodView::Regex,
            ParseMethod::Model => ParseMethodView::Llm,
        },
        next_runs: parsed.next_runs,
    }))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ValidateQuery {
    #[serde(rename = "type")]
    #[param(inline)]
    kind: ScheduleType,
    /// A cron expression, a number of seconds, or a time.
    #[param(max_length = 1000, example = "0 9 * * 1-5")]
    value: String,
    /// IANA name; left out: the profile's.
    #[param(max_length = 200)]
    timezone: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ValidationView {
    valid: bool,
    /// The next five times; fewer where there are no more, none where it is not valid.
    next_runs: Vec<Timestamp>,
    /// In the interface's language.
    #[serde(skip_serializing_if = "Option::is_none")]
    human_readable: Option<String>,
    /// Why it is not valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Whether a schedule is valid, and when it would be due
#[utoipa::path(
    get, path = "/api/scheduler/validate", tag = "scheduler", params(ValidateQuery),
    responses((status = 200, body = ValidationView)),
)]
pub(super) async fn validate_schedule(
    State(scheduler): State<Scheduler>,
    Query(query): Query<ValidateQuery>,
) -> Answer<ValidationView> {
    let found = scheduler.validate(query.kind, &query.value, query.timezone.as_deref());
    let reasons: Vec<String> =
        found.problems.iter().map(|problem| format!("{} {}", problem.field, problem.message)).collect();
    Ok(Json(ValidationView {
        valid: reasons.is_empty(),
        next_runs: found.next_runs,
        human_readable: found.human_readable,
        error: (!reasons.is_empty()).then(|| reasons.join("; ")),
    }))
}
