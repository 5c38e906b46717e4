//! Handlers for recordings of actions.

use std::time::Duration;

use agentd_base::Timestamp;
use agentd_browser::{AlternativeKind, RecordedTarget};
use agentd_web::{Answer, ApiError, Caller, ErrorBody, Json, Path};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::url_access::{UrlAccess, VisibleUrl};
use crate::browser::model::{RecordingId, RecordingState, RecordingSummary, StoredStep};
use crate::browser::service::Browser;

/// Recording to start.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewBrowserRecording)]
pub(super) struct NewRecording {
    /// Display name, 1 to 200 characters, not blank and without control characters; need not be unique.
    #[schema(min_length = 1, max_length = 200, example = "Log in")]
    name: String,
}

/// Recording without its steps.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserRecording)]
pub(super) struct RecordingView {
    /// Id of the recording: `rec_` and a time-ordered part.
    recording_id: String,
    /// Display name given when the recording was started.
    name: String,
    /// State of the recording.
    state: RecordingState,
    /// Time at which the recording was started.
    started_at: Timestamp,
    /// Time in seconds until the recording was stopped; while it is running, until the end of the last action.
    duration_seconds: f64,
    /// Number of recorded actions, at most 1,000.
    action_count: u32,
    /// Path of the steps file, relative to the data directory; screenshots are in the same folder.
    file_path: String,
    /// Total size of the steps and screenshots in bytes, at most about 100 MiB.
    size_bytes: u64,
    /// Numbers of the secrets that a replay requires; empty if none are required.
    secrets: Vec<u32>,
}

impl RecordingView {
    fn new(browser: &Browser, summary: RecordingSummary) -> Self {
        Self {
            file_path: browser.recording_path(&summary.header.recording_id),
            recording_id: summary.header.recording_id.to_string(),
            name: summary.header.name,
            state: summary.state,
            started_at: summary.header.started_at,
            duration_seconds: Duration::from_millis(summary.duration_ms).as_secs_f64(),
            action_count: summary.action_count,
            size_bytes: summary.size_bytes,
            secrets: summary.secrets,
        }
    }
}

/// Recordings, newest first.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserRecordingList)]
pub(super) struct RecordingList {
    /// All recordings, at most 200.
    recordings: Vec<RecordingView>,
    /// Number of recordings.
    total: usize,
}

/// Kind of a selector. Replays prefer the selector given by the caller, then the most stable kind.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = BrowserSelectorKind)]
enum KindView {
    /// Selector given by the caller.
    Given,
    TestId,
    Role,
    /// Label of the element and adjacent texts.
    Label,
    Attribute,
    Text,
    Id,
    Path,
    Xpath,
}

/// Selector that identifies a recorded element.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserSelectorAlternative)]
struct AlternativeView {
    /// Kind of the selector.
    kind: KindView,
    /// Selector, such as `role=button[name="Save"]`. URLs in it are shortened or hidden for read-only keys.
    selector: String,
}

/// Element that an action was performed on.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserRecordedTarget)]
struct TargetView {
    /// Parameter: `selector`, `source` or `target`.
    parameter: String,
    /// Description such as `button "Save"`.
    element: String,
    /// URL of the element's frame; null for the page itself. Scheme and host only for read-only keys.
    #[schema(required, value_type = Option<String>)]
    frame_url: Option<VisibleUrl>,
    /// Selectors in the order in which a replay tries them. URLs in them are hidden from read-only keys.
    alternatives: Vec<AlternativeView>,
}

impl TargetView {
    fn new(target: RecordedTarget, access: UrlAccess) -> Self {
        let kind = |kind| match kind {
            AlternativeKind::Given => KindView::Given,
            AlternativeKind::TestId => KindView::TestId,
            AlternativeKind::Role => KindView::Role,
            AlternativeKind::Label => KindView::Label,
            AlternativeKind::Attribute => KindView::Attribute,
            AlternativeKind::Text => KindView::Text,
            AlternativeKind::Id => KindView::Id,
            AlternativeKind::Path => KindView::Path,
            AlternativeKind::Xpath => KindView::Xpath,
        };
        let alternatives = target.alternatives.iter();
        Self {
            element: access.text(target.description()),
            alternatives: alternatives
                .map(|found| AlternativeView {
                    kind: kind(found.kind),
                    selector: access.selector(found.selector.clone()),
                })
                .collect(),
            parameter: target.parameter,
            frame_url: target.frame_url.map(|url| access.url(url)),
        }
    }
}

/// Recorded action.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserRecordedStep)]
struct StepView {
    /// Position of the step in the recording, starting at 0.
    index: u32,
    /// Name of the action, such as `click`.
    action: String,
    /// Description in one line, such as `click button "Save"`.
    caption: String,
    /// Parameters as requested; `{{secret:N}}` replaces a secret.
    #[schema(value_type = Object)]
    parameters: Map<String, Value>,
    /// Elements that the action was performed on, one for each selector parameter.
    targets: Vec<TargetView>,
    /// Number of the tab in order of opening.
    tab: u32,
    /// URL of the tab after the step; scheme and host only for read-only keys, as everywhere in the step.
    #[schema(value_type = String)]
    url: VisibleUrl,
    /// Time at which the action was started.
    at: Timestamp,
    /// Duration of the action in milliseconds.
    duration_ms: u64,
    /// Path of a small JPEG of the page after the step, relative to the data directory; null if there is none.
    #[schema(required)]
    picture_path: Option<String>,
}

/// Recording with its steps.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserRecordingSteps)]
pub(super) struct RecordingDetails {
    #[serde(flatten)]
    recording: RecordingView,
    /// Recorded actions in order.
    steps: Vec<StepView>,
}

impl RecordingDetails {
    fn new(browser: &Browser, summary: RecordingSummary, steps: Vec<StoredStep>, access: UrlAccess) -> Self {
        let id = summary.header.recording_id.clone();
        let started_at = summary.header.started_at;
        let view = |(index, kept): (u32, StoredStep)| StepView {
            index,
            caption: access.text(kept.step.caption()),
            picture_path: kept.has_picture.then(|| browser.recorded_picture_path(&id, index)),
            action: kept.step.action,
            parameters: kept
                .step
                .parameters
                .into_iter()
                .map(|(name, value)| {
                    let visible_value = access.parameter(&name, value);
                    (name, visible_value)
                })
                .collect(),
            targets: kept.step.targets.into_iter().map(|target| TargetView::new(target, access)).collect(),
            tab: kept.step.tab,
            url: access.url(kept.step.url),
            at: started_at + Duration::from_millis(kept.step.at_ms),
            duration_ms: kept.step.duration_ms,
        };
        Self { steps: (0..).zip(steps).map(view).collect(), recording: RecordingView::new(browser, summary) }
    }
}

/// Result of deleting a recording.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserRecordingDeleted)]
pub(super) struct RecordingDeleted {
    /// Always true.
    deleted: bool,
}

/// Start a recording
///
/// Records each successful action of the owner and of agents with its parameters, alternative selectors, URL, time and
/// a small screenshot. Text typed into password fields and credentials in URLs are replaced by `{{secret:N}}`. The
/// recording ends with state `cut` after 1,000 actions or 100 MiB. While it runs, actions of all tabs are serialized.
#[utoipa::path(post, path = "/api/browser/recording/start", tag = "browser", request_body = NewRecording,
    responses(
        (status = 200, body = RecordingView),
        (status = 409, body = ErrorBody, description = "`recording_running`: another recording is running; \
            `too_many_recordings`: the limit of 200 is reached"),
    ))]
pub(super) async fn start_browser_recording(
    State(browser): State<Browser>,
    Json(new): Json<NewRecording>,
) -> Answer<RecordingView> {
    let started = browser.start_recording(new.name).await?;
    Ok(Json(RecordingView::new(&browser, started)))
}

/// Stop the recording
#[utoipa::path(post, path = "/api/browser/recording/stop", tag = "browser",
    responses(
        (status = 200, body = RecordingView),
        (status = 409, body = ErrorBody, description = "`not_recording`: no recording is running"),
    ))]
pub(super) async fn stop_browser_recording(State(browser): State<Browser>) -> Answer<RecordingView> {
    let stopped = browser.stop_recording().await?;
    Ok(Json(RecordingView::new(&browser, stopped)))
}

/// List recordings
///
/// Sorted by start time, newest first.
#[utoipa::path(get, path = "/api/browser/recordings", tag = "browser", responses((status = 200, body = RecordingList)))]
pub(super) async fn list_browser_recordings(State(browser): State<Browser>) -> Answer<RecordingList> {
    let all = browser.recordings().await?;
    let recordings: Vec<_> = all.into_iter().map(|one| RecordingView::new(&browser, one)).collect();
    Ok(Json(RecordingList { total: recordings.len(), recordings }))
}

/// Get a recording
///
/// Includes its steps.
#[utoipa::path(get, path = "/api/browser/recordings/{id}", tag = "browser",
    params(("id" = String, Path, description = "Id of the recording")),
    responses(
        (status = 200, body = RecordingDetails),
        (status = 404, body = ErrorBody, description = "`recording_not_found`"),
    ))]
pub(super) async fn get_browser_recording(
    State(browser): State<Browser>,
    caller: Caller,
    Path(id): Path<RecordingId>,
) -> Answer<RecordingDetails> {
    let (summary, steps) = browser.recording(&id).await?;
    Ok(Json(RecordingDetails::new(&browser, summary, steps, UrlAccess::from(&caller))))
}

/// Delete a recording
///
/// Deletes the recording with its screenshots.
#[utoipa::path(delete, path = "/api/browser/recordings/{id}", tag = "browser",
    params(("id" = String, Path, description = "Id of the recording")),
    responses(
        (status = 200, body = RecordingDeleted),
        (status = 404, body = ErrorBody, description = "`recording_not_found`"),
        (status = 409, body = ErrorBody, description = "`recording_running`: stop it first"),
    ))]
pub(super) async fn delete_browser_recording(
    State(browser): State<Browser>,
    Path(id): Path<RecordingId>,
) -> Answer<RecordingDeleted> {
    browser.delete_recording(&id).await?;
    Ok(Json(RecordingDeleted { deleted: true }))
}

/// Get a step screenshot
///
/// Returns the page after a step as JPEG, at most 640 pixels wide. Secrets are not visible.
#[utoipa::path(get, path = "/api/browser/recordings/{id}/pictures/{index}", tag = "browser",
    params(
        ("id" = String, Path, description = "Id of the recording"),
        ("index" = u32, Path, description = "Index of the step, starting at 0"),
    ),
    responses(
        (status = 200, description = "The screenshot", content((Vec<u8> = "image/jpeg"))),
        (status = 404, body = ErrorBody, description = "`recording_not_found`"),
    ))]
pub(super) async fn get_browser_recording_picture(
    State(browser): State<Browser>,
    Path((id, index)): Path<(RecordingId, u32)>,
) -> Result<Response, ApiError> {
    let jpeg = browser.recorded_picture(&id, index).await?;
    Ok(([(CONTENT_TYPE, "image/jpeg"), (CACHE_CONTROL, "no-store")], jpeg).into_response())
}
