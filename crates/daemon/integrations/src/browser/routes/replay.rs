//! Handler for replays of recordings.

use std::collections::BTreeMap;

use agentd_base::Secret;
use agentd_browser::{Drift, Tried};
use agentd_web::{Answer, ErrorBody, Json, OptionalJson, Path};
use axum::extract::State;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::browser::model::RecordingId;
use crate::browser::service::{Browser, ReplayedStep, Report, StepFailure};

/// Options of a replay.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = BrowserReplay)]
pub(super) struct ReplayFields {
    /// Secrets required by the recording, by number: `{"1": "…"}`; default: none.
    #[serde(default)]
    secrets: BTreeMap<String, Secret>,
}

/// Deviation from the recording: another selector was used, or the element's description changed.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserReplayDrift)]
struct DriftView {
    /// Parameter of the step: `selector`, `source` or `target`.
    parameter: String,
    /// First alternative selector of the recording.
    recorded: String,
    /// Selector that found the element.
    used: String,
    /// Change of the element's description; absent if it did not change.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    change: Option<String>,
}

impl From<Drift> for DriftView {
    fn from(drift: Drift) -> Self {
        Self { parameter: drift.parameter, recorded: drift.recorded, used: drift.used, change: drift.change }
    }
}

/// Selector that did not find the element.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserReplayTried)]
struct TriedView {
    /// Selector that was tried.
    selector: String,
    /// Reason why the selector did not identify the element.
    result: String,
}

impl From<Tried> for TriedView {
    fn from(tried: Tried) -> Self {
        Self { selector: tried.selector, result: tried.result }
    }
}

/// Reason why a step failed. No other element was used instead.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserReplayFailure)]
struct FailureView {
    /// Error code, such as `not_actionable` or `timeout`.
    code: String,
    /// Error message for the user.
    error: String,
    /// Selectors that did not find the element; empty if the failure had another cause.
    tried: Vec<TriedView>,
    /// JPEG of the page at the failure in base64; null if the page could not be captured.
    #[schema(required)]
    picture: Option<String>,
}

impl From<StepFailure> for FailureView {
    fn from(failure: StepFailure) -> Self {
        Self {
            code: failure.code().to_owned(),
            error: failure.error.to_string(),
            tried: failure.tried.into_iter().map(TriedView::from).collect(),
            picture: failure.picture.map(|jpeg| STANDARD.encode(jpeg)),
        }
    }
}

/// Executed step of a replay.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserReplayStep)]
struct StepView {
    /// Position of the step in the recording, starting at 0.
    index: usize,
    /// Name of the action, such as `click`.
    action: String,
    /// Whether the step succeeded.
    ok: bool,
    /// Duration of the step in milliseconds, including the search for its elements.
    duration_ms: u64,
    /// Deviations from the recording, at most one for each selector parameter; absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    drift: Vec<DriftView>,
    /// Reason for the failure; absent if the step succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = FailureView, required = false)]
    failure: Option<FailureView>,
}

impl From<(usize, ReplayedStep)> for StepView {
    fn from((index, step): (usize, ReplayedStep)) -> Self {
        Self {
            index,
            ok: step.failure.is_none(),
            action: step.action,
            duration_ms: step.duration_ms,
            drift: step.drift.into_iter().map(DriftView::from).collect(),
            failure: step.failure.map(FailureView::from),
        }
    }
}

/// Result of a replay.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserReplayReport)]
pub(super) struct ReportView {
    /// Id of the replayed recording.
    recording_id: String,
    /// Whether all steps succeeded.
    ok: bool,
    /// Executed steps in order; the last one may have failed.
    steps: Vec<StepView>,
    /// Index of the failed step, starting at 0; later steps were not executed. Absent if all steps succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = usize, required = false)]
    failed_step: Option<usize>,
}

impl From<Report> for ReportView {
    fn from(report: Report) -> Self {
        let steps: Vec<StepView> = report.steps.into_iter().enumerate().map(StepView::from).collect();
        let failed_step = steps.iter().position(|step| !step.ok);
        Self { recording_id: report.recording_id.to_string(), ok: failed_step.is_none(), steps, failed_step }
    }
}

/// Replay a recording
///
/// Runs the steps in the active tab, each with the waits of its action. An element is found by its alternative
/// selectors and must match its recorded description and context. If no element matches with certainty, the step fails
/// and the replay stops. Secrets are only sent to the host they were recorded on. Only one replay runs at a time; it is
/// cancelled when the client disconnects.
#[utoipa::path(post, path = "/api/browser/recordings/{id}/replay", tag = "browser", request_body = Option<ReplayFields>,
    params(("id" = String, Path, description = "Id of the recording")),
    responses(
        (status = 200, body = ReportView),
        (status = 400, body = ErrorBody, description = "`invalid_request`: secrets are missing; each is named"),
        (status = 404, body = ErrorBody, description = "`recording_not_found`"),
        (status = 409, body = ErrorBody, description = "`replay_running`"),
        (status = 503, body = ErrorBody, description = "`browser_unavailable`: Chromium not found"),
    ))]
pub(super) async fn replay_browser_recording(
    State(browser): State<Browser>,
    Path(id): Path<RecordingId>,
    OptionalJson(fields): OptionalJson<ReplayFields>,
) -> Answer<ReportView> {
    Ok(Json(browser.replay(&id, &fields.secrets).await?.into()))
}
