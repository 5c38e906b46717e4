//! Acting on a page.

use std::borrow::Cow;

use agentd_browser::{Dialog, DialogAnswer, ElementState, LoadState};
use agentd_web::{Answer, ErrorBody, Json};
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::browser::error::BrowserError;
use crate::browser::model::{ActionName, Actor, BrowserAction};
use crate::browser::service::{Acted, Browser};

/// An action and its parameters. Which of them it needs depends on the action; the others are ignored.
///
/// A selector is CSS, `text=…`, `role=button[name="…"]`, `xpath=…`, or `@N` from the last snapshot of the tab.
/// `point=40%,25.5%` is what is there, from the left and from the top of what is shown.
#[derive(ToSchema)]
#[schema(as = BrowserAction)]
#[expect(dead_code, reason = "the schema of `ActionBody`")]
struct ActionFields {
    action: ActionName,
    /// Of `goto`: `http`, `https`, `data:`, `blob:` or `about:blank`. Of `wait_for_navigation`: a part of the address.
    #[schema(max_length = 65_536, example = "https://example.com")]
    url: Option<String>,
    /// Of `goto`; default `load`.
    wait_until: Option<LoadState>,
    #[schema(max_length = 4_096)]
    selector: Option<String>,
    /// Of `type_text`.
    #[schema(max_length = 1_000_000)]
    text: Option<String>,
    /// Of `type_text`: whether it replaces what is there.
    clear: Option<bool>,
    /// Of `type_text`: between two keys.
    #[schema(minimum = 0, maximum = 1_000)]
    delay_ms: Option<u64>,
    /// Of `press_key`: `Enter`, `Control+A`.
    #[schema(max_length = 100)]
    key: Option<String>,
    /// Of `select_option`, one of `value`, `label` and `index`.
    #[schema(max_length = 4_096)]
    value: Option<String>,
    #[schema(max_length = 4_096)]
    label: Option<String>,
    #[schema(minimum = 0, maximum = 100_000)]
    index: Option<u32>,
    /// Of `scroll`, in pixels, to the right.
    #[schema(minimum = -1_000_000.0, maximum = 1_000_000.0)]
    x: Option<f64>,
    /// Of `scroll`, in pixels, down.
    #[schema(minimum = -1_000_000.0, maximum = 1_000_000.0)]
    y: Option<f64>,
    /// Of `drag_and_drop`, a selector.
    #[schema(max_length = 4_096)]
    source: Option<String>,
    #[schema(max_length = 4_096)]
    target: Option<String>,
    /// Of `handle_dialog`: answers the dialog that is open, or the next one.
    accept: Option<bool>,
    #[schema(max_length = 100_000)]
    prompt_text: Option<String>,
    /// Of `wait_for_selector`; default `visible`.
    state: Option<ElementState>,
    /// Of `wait_for_network_idle`: how long nothing is loaded; default 500.
    #[schema(minimum = 0, maximum = 60_000)]
    idle_ms: Option<u64>,
    /// Of `upload_file`: a file of the workspace of `agent_id`, or without one of the folder of downloads.
    #[schema(max_length = 4_096)]
    path: Option<String>,
    /// Of `upload_file`: the agent whose workspace it is, by id or svc_name.
    #[schema(max_length = 64)]
    agent_id: Option<String>,
    /// Where to act; default: the active tab.
    #[schema(max_length = 64)]
    tab_id: Option<String>,
    /// How long the action may wait for what it needs; default 10,000.
    #[schema(minimum = 1, maximum = 60_000)]
    timeout_ms: Option<u64>,
}

/// What [`ActionFields`] describes.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct ActionBody(Map<String, Value>);

impl PartialSchema for ActionBody {
    fn schema() -> RefOr<Schema> {
        ActionFields::schema()
    }
}

impl ToSchema for ActionBody {
    fn name() -> Cow<'static, str> {
        ActionFields::name()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        ActionFields::schemas(schemas);
    }
}

/// How a dialog was answered.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum DialogAnswerView {
    Accepted,
    Dismissed,
    /// Nobody answered within 30 seconds.
    DismissedUnanswered,
}

/// A window of the page that asked something.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserDialog)]
struct DialogView {
    /// `alert`, `confirm`, `prompt` or `beforeunload`.
    kind: String,
    message: String,
    /// Null while it is open: `handle_dialog` answers it.
    #[schema(required)]
    answer: Option<DialogAnswerView>,
}

impl From<Dialog> for DialogView {
    fn from(dialog: Dialog) -> Self {
        let answer = dialog.answer.map(|answer| match answer {
            DialogAnswer::Accepted => DialogAnswerView::Accepted,
            DialogAnswer::Dismissed => DialogAnswerView::Dismissed,
            DialogAnswer::DismissedUnanswered => DialogAnswerView::DismissedUnanswered,
        });
        Self { kind: dialog.kind, message: dialog.message, answer }
    }
}

/// How a page is after an action.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserActionResult)]
pub(super) struct ActedView {
    /// Always true: what could not be done is an error.
    ok: bool,
    url: String,
    title: String,
    duration_ms: u64,
    tab_id: String,
    /// Whether the page went somewhere else.
    navigated: bool,
    /// The numbered list of what something can be done with, with `auto_snapshot`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    snapshot: Option<String>,
    /// The last dialog that came up meanwhile, or one before that nobody answered in time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = DialogView, required = false)]
    dialog: Option<DialogView>,
    /// True where the browser had ended and a new one was started: its pages and cookies are gone.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    restarted: bool,
}

impl From<Acted> for ActedView {
    fn from(acted: Acted) -> Self {
        let outcome = acted.outcome;
        Self {
            ok: outcome.ok,
            url: outcome.url,
            title: outcome.title,
            duration_ms: outcome.duration_ms,
            tab_id: outcome.tab_id,
            navigated: outcome.navigated,
            snapshot: acted.snapshot.map(|snapshot| snapshot.snapshot),
            dialog: outcome.dialog.map(DialogView::from),
            restarted: acted.restarted,
        }
    }
}

/// Do something on a page
///
/// The first action starts the browser. An action waits until its element is there, visible, still, enabled and not
/// covered, for `timeout_ms` at most, and sends real events of the mouse and the keyboard. Actions in one tab follow
/// each other in the order of their arrival. Each request acts: an `Idempotency-Key` is not looked at.
#[utoipa::path(
    post, path = "/api/browser/action", tag = "browser", request_body = ActionFields,
    responses(
        (status = 200, body = ActedView),
        (status = 403, body = ErrorBody, description = "`address_refused`: the address may not be reached or shown"),
        (status = 404, body = ErrorBody, description = "`tab_not_found`, `agent_not_found`"),
        (status = 409, body = ErrorBody, description = "`ambiguous` (several elements match), `not_actionable` (with \
            what was missing), `stale_ref` (the element of an `@N` is gone), `dialog_open`, `timeout`, `tab_crashed`, \
            `too_many_tabs`"),
        (status = 502, body = ErrorBody, description = "`navigation_failed`: the page could not be opened; \
            `browser_ended`, `browser_failed`: the browser ended meanwhile, or did not do it"),
        (status = 503, body = ErrorBody, description = "`browser_unavailable`: no Chromium, with what to install"),
    ),
)]
pub(super) async fn act_in_browser(
    State(browser): State<Browser>,
    Json(ActionBody(fields)): Json<ActionBody>,
) -> Answer<ActedView> {
    let action = BrowserAction::parse(fields).map_err(BrowserError::from)?;
    Ok(Json(browser.act(&Actor::Owner, action).await?.into()))
}
