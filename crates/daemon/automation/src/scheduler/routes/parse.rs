//! Parsing and validation of schedules.

use agentd_base::{FieldProblem, Timestamp};
use agentd_schedule::{MAX_TEXT_LENGTH, ScheduleSpec, ScheduleType};
use agentd_web::{Answer, ApiError, Caller, ErrorBody, Json, Query};
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::scheduler::service::{ParseMethod, Scheduler};

/// Text to parse.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct ParseBody {
    /// Description of the schedule in English or German, 1 to 1,000 characters.
    #[schema(min_length = 1, max_length = 1000, example = "every weekday at 9")]
    text: String,
}

/// Parser that understood the text: `regex` (the built-in grammar) or `llm` (the default agent's model).
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum ParseMethodView {
    /// Parsed by the built-in grammar.
    Regex,
    /// Parsed by the default agent's model.
    Llm,
}

/// Schedule parsed from a text.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ParsedView {
    /// Schedule in the format of a job.
    schedule: ScheduleSpec,
    /// Description of the schedule in the interface language.
    human_readable: String,
    /// Confidence from 0 to 1. Ask for confirmation below 0.5 before creating a job.
    confidence: f64,
    /// Parser that understood the text.
    parse_method: ParseMethodView,
    /// Next run times, at most five.
    next_runs: Vec<Timestamp>,
}

/// Parse a schedule
///
/// Parses a description in the profile's time zone. Text that the built-in grammar does not understand is sent to the
/// default agent's model, whose answer must be a valid schedule. Creates nothing.
#[utoipa::path(
    post, path = "/api/scheduler/parse-nl", tag = "scheduler", request_body = ParseBody,
    responses(
        (status = 200, body = ParsedView),
        (status = 400, body = ErrorBody, description = "No schedule was found in the text"),
        (status = 502, body = ErrorBody, description = "The model call failed"),
    ),
)]
pub(super) async fn parse_schedule(
    State(scheduler): State<Scheduler>,
    caller: Caller,
    Json(body): Json<ParseBody>,
) -> Answer<ParsedView> {
    if body.text.trim().is_empty() || body.text.chars().count() > MAX_TEXT_LENGTH {
        let message = format!("must not be blank and must have at most {MAX_TEXT_LENGTH} characters");
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
    /// Type of the schedule: `cron`, `every` or `at`.
    #[serde(rename = "type")]
    #[param(inline)]
    kind: ScheduleType,
    /// Cron expression for `cron`, number of seconds for `every`, or ISO 8601 time for `at`.
    #[param(max_length = 1000, example = "0 9 * * 1-5")]
    value: String,
    /// IANA time zone name. Default: the profile's time zone.
    #[param(max_length = 200)]
    timezone: Option<String>,
}

/// Result of validating a schedule.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ValidationView {
    /// Whether the schedule is valid and has a next run.
    valid: bool,
    /// Next five run times; fewer if the schedule ends earlier, none if it is invalid.
    next_runs: Vec<Timestamp>,
    /// Description of the schedule in the interface language; absent if it is invalid.
    #[serde(skip_serializing_if = "Option::is_none")]
    human_readable: Option<String>,
    /// Reason the schedule is invalid; absent if it is valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Validate a schedule
///
/// Returns whether the schedule is valid, and its next run times.
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
