//! Recordings of actions.

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
use crate::browser::model::{KeptStep, RecordingId, RecordingState, RecordingSummary};
use crate::browser::service::Browser;

#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewBrowserRecording)]
pub(super) struct NewRecording {
    #[schema(min_length = 1, max_length = 200, example = "Log in")]
    name: String,
}

/// A recording without its steps.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserRecording)]
pub(super) struct RecordingView {
    recording_id: String,
    name: String,
    state: RecordingState,
    started_at: Timestamp,
    duration_seconds: f64,
    action_count: u32,
    /// The file with its steps, below the data directory; their pictures are beside it.
    file_path: String,
    size_bytes: u64,
    /// The numbers of the secrets that a replay asks for.
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

/// The newest first.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserRecordingList)]
pub(super) struct RecordingList {
    recordings: Vec<RecordingView>,
    total: usize,
}

/// From what changes least to what changes most, after what the caller named.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = BrowserSelectorKind)]
enum KindView {
    Given,
    TestId,
    Role,
    /// By what it is called, and the texts beside it.
    Label,
    Attribute,
    Text,
    Id,
    Path,
    Xpath,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserSelectorAlternative)]
struct AlternativeView {
    kind: KindView,
    selector: String,
}

/// An element that something was done to.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserRecordedTarget)]
struct TargetView {
    /// `selector`, `source` or `target`.
    parameter: String,
    /// `button "Save"`
    element: String,
    /// The frame that it was in; null where that was the page itself. To a key that may only read: scheme and host.
    #[schema(required, value_type = Option<String>)]
    frame_url: Option<VisibleUrl>,
    /// How it can be found, in the order in which a replay tries. A key that may only read sees no URLs in selectors.
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

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserRecordedStep)]
struct StepView {
    index: u32,
    action: String,
    /// In one line: `click button "Save"`.
    caption: String,
    /// As they were asked for; `{{secret:N}}` stands for a secret.
    #[schema(value_type = Object)]
    parameters: Map<String, Value>,
    targets: Vec<TargetView>,
    /// The tab, counted in the order of their opening.
    tab: u32,
    /// What the tab showed after it. To a key that may only read: scheme and host, as everywhere in the step.
    #[schema(value_type = String)]
    url: VisibleUrl,
    at: Timestamp,
    duration_ms: u64,
    /// A small JPEG of the page after it, below the data directory; null where there is none.
    #[schema(required)]
    picture_path: Option<String>,
}

/// A recording and its steps.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserRecordingSteps)]
pub(super) struct WholeRecording {
    #[serde(flatten)]
    recording: RecordingView,
    steps: Vec<StepView>,
}

impl WholeRecording {
    fn new(browser: &Browser, summary: RecordingSummary, steps: Vec<KeptStep>, access: UrlAccess) -> Self {
        let id = summary.header.recording_id.clone();
        let started_at = summary.header.started_at;
        let view = |(index, kept): (u32, KeptStep)| StepView {
            index,
            caption: access.text(kept.step.caption()),
            picture_path: kept.has_picture.then(|| browser.recorded_picture_path(&id, index)),
            action: kept.step.action,
            parameters: kept
                .step
                .parameters
                .into_iter()
                .map(|(name, value)| {
                    let shown = access.parameter(&name, value);
                    (name, shown)
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

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserRecordingDeleted)]
pub(super) struct RecordingDeleted {
    /// Always true.
    deleted: bool,
}

/// Record what is done in the browser
///
/// Each action, of people and of agents, is in the recording when it is answered: with its parameters, several ways to
/// find its element again, the address, the time, and a small picture. What is typed into fields for passwords, and
/// credentials in addresses, are kept as `{{secret:N}}`. An action that failed is not kept. A recording ends by itself
/// after 1,000 actions or 100 MiB, as `cut`. While it runs, actions of all tabs follow each other.
#[utoipa::path(post, path = "/api/browser/recording/start", tag = "browser", request_body = NewRecording,
    responses(
        (status = 200, body = RecordingView),
        (status = 409, body = ErrorBody, description = "`recording_running`: one at a time; `too_many_recordings`: 200"),
    ))]
pub(super) async fn start_browser_recording(
    State(browser): State<Browser>,
    Json(new): Json<NewRecording>,
) -> Answer<RecordingView> {
    let started = browser.start_recording(new.name).await?;
    Ok(Json(RecordingView::new(&browser, started)))
}

/// End the recording
#[utoipa::path(post, path = "/api/browser/recording/stop", tag = "browser",
    responses(
        (status = 200, body = RecordingView),
        (status = 409, body = ErrorBody, description = "`not_recording`: none runs"),
    ))]
pub(super) async fn stop_browser_recording(State(browser): State<Browser>) -> Answer<RecordingView> {
    let stopped = browser.stop_recording().await?;
    Ok(Json(RecordingView::new(&browser, stopped)))
}

/// Recordings, the newest first
#[utoipa::path(get, path = "/api/browser/recordings", tag = "browser", responses((status = 200, body = RecordingList)))]
pub(super) async fn list_browser_recordings(State(browser): State<Browser>) -> Answer<RecordingList> {
    let all = browser.recordings().await?;
    let recordings: Vec<_> = all.into_iter().map(|one| RecordingView::new(&browser, one)).collect();
    Ok(Json(RecordingList { total: recordings.len(), recordings }))
}

/// One recording, with its steps
#[utoipa::path(get, path = "/api/browser/recordings/{id}", tag = "browser",
    params(("id" = String, Path, description = "As in the list")),
    responses(
        (status = 200, body = WholeRecording),
        (status = 404, body = ErrorBody, description = "`recording_not_found`"),
    ))]
pub(super) async fn get_browser_recording(
    State(browser): State<Browser>,
    caller: Caller,
    Path(id): Path<RecordingId>,
) -> Answer<WholeRecording> {
    let (summary, steps) = browser.recording(&id).await?;
    Ok(Json(WholeRecording::new(&browser, summary, steps, UrlAccess::from(&caller))))
}

/// Delete a recording, with its pictures
#[utoipa::path(delete, path = "/api/browser/recordings/{id}", tag = "browser",
    params(("id" = String, Path, description = "As in the list")),
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

/// What the page looked like after a step, as JPEG
///
/// 640 pixels wide at most. Secrets are not to be seen in it.
#[utoipa::path(get, path = "/api/browser/recordings/{id}/pictures/{index}", tag = "browser",
    params(
        ("id" = String, Path, description = "As in the list"),
        ("index" = u32, Path, description = "Of the step, from 0"),
    ),
    responses(
        (status = 200, description = "The picture", content((Vec<u8> = "image/jpeg"))),
        (status = 404, body = ErrorBody, description = "`recording_not_found`"),
    ))]
pub(super) async fn get_browser_recording_picture(
    State(browser): State<Browser>,
    Path((id, index)): Path<(RecordingId, u32)>,
) -> Result<Response, ApiError> {
    let jpeg = browser.recorded_picture(&id, index).await?;
    Ok(([(CONTENT_TYPE, "image/jpeg"), (CACHE_CONTROL, "no-store")], jpeg).into_response())
}
