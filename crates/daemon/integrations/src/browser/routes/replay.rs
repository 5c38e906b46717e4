//! Doing again what was recorded.

use std::collections::BTreeMap;

use agentd_base::Secret;
use agentd_browser::{Drift, Tried};
use agentd_web::{Answer, ErrorBody, Json, JsonOrNothing, Path};
use axum::extract::State;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::browser::model::RecordingId;
use crate::browser::service::{Browser, ReplayedStep, Report, StepFailure};

#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = BrowserReplay)]
pub(super) struct ReplayFields {
    /// Those that the recording asks for, by their numbers: `{"1": "…"}`.
    #[serde(default)]
    secrets: BTreeMap<String, Secret>,
}

/// Where another selector had to be used, or an element is called something else.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserReplayDrift)]
struct DriftView {
    /// `selector`, `source` or `target`.
    parameter: String,
    /// The first of the alternatives.
    recorded: String,
    used: String,
    /// What else has changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    change: Option<String>,
}

impl From<Drift> for DriftView {
    fn from(drift: Drift) -> Self {
        Self { parameter: drift.parameter, recorded: drift.recorded, used: drift.used, change: drift.change }
    }
}

/// A way to find the element that was of no use.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserReplayTried)]
struct TriedView {
    selector: String,
    result: String,
}

impl From<Tried> for TriedView {
    fn from(tried: Tried) -> Self {
        Self { selector: tried.selector, result: tried.result }
    }
}

/// Why a step could not be done; nothing was done to another element instead.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserReplayFailure)]
struct FailureView {
    code: String,
    error: String,
    tried: Vec<TriedView>,
    /// The page then: a JPEG in base64, where the page could be drawn.
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

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserReplayStep)]
struct StepView {
    index: usize,
    action: String,
    ok: bool,
    duration_ms: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    drift: Vec<DriftView>,
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

/// What a replay came to.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserReplayReport)]
pub(super) struct ReportView {
    recording_id: String,
    /// Whether every step was done.
    ok: bool,
    /// Those that were done, in order; the last one may have failed.
    steps: Vec<StepView>,
    /// The index of the step that failed; those after it were not done.
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

/// Do again what was recorded
///
/// In the active tab, step by step, each with the waits of its action. An element is found by the alternatives that
/// were kept, and must be the one that was recorded by what it is called and what is beside it; where none is for
/// certain, the step fails, and the replay stops there. A secret goes only to the host that it was recorded on. One
/// replay at a time; it ends when its client leaves.
#[utoipa::path(post, path = "/api/browser/recordings/{id}/replay", tag = "browser", request_body = ReplayFields,
    params(("id" = String, Path, description = "As in the list")),
    responses(
        (status = 200, body = ReportView),
        (status = 400, body = ErrorBody, description = "`invalid_request`: secrets are missing; names each"),
        (status = 404, body = ErrorBody, description = "`recording_not_found`"),
        (status = 409, body = ErrorBody, description = "`replay_running`"),
        (status = 503, body = ErrorBody, description = "`browser_unavailable`: there is no Chromium"),
    ))]
pub(super) async fn replay_browser_recording(
    State(browser): State<Browser>,
    Path(id): Path<RecordingId>,
    JsonOrNothing(fields): JsonOrNothing<ReplayFields>,
) -> Answer<ReportView> {
    Ok(Json(browser.replay(&id, &fields.secrets).await?.into()))
}
