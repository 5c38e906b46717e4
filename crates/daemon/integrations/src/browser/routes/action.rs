//! Handler for actions.

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
use crate::browser::service::{Browser, PerformedAction};

/// Action with its parameters. Required parameters depend on the action; others are ignored.
///
/// A selector is CSS, `text=…`, `role=button[name="…"]`, `xpath=…`, or `@N` of the last snapshot of the tab.
/// `point=40%,25.5%` selects the element at that position of the viewport, from the left and the top.
#[derive(ToSchema)]
#[schema(as = BrowserAction)]
#[expect(dead_code, reason = "the schema of `ActionBody`")]
struct ActionFields {
    /// Action to perform; determines the required parameters.
    action: ActionName,
    /// For `goto`, required: a URL with `http`, `https`, `data:`, `blob:`, or `about:blank`. For `wait_for_navigation`:
    /// part of the URL to wait for; any navigation if omitted.
    #[schema(max_length = 65_536, example = "https://example.com")]
    url: Option<String>,
    /// For `goto`: load state to wait for; default `load`.
    wait_until: Option<LoadState>,
    /// Element to act on. Optional for `press_key` (default: the focused element) and `scroll` (default: the center of
    /// the page).
    #[schema(max_length = 4_096)]
    selector: Option<String>,
    /// For `type_text`: text to type, at most 1,000,000 bytes. Without `delay_ms`, a text of more than 2,000 characters
    /// is inserted in one step.
    #[schema(max_length = 1_000_000)]
    text: Option<String>,
    /// For `type_text`: whether to replace the existing text; default false.
    clear: Option<bool>,
    /// For `type_text`: delay between keys in milliseconds, 0 to 1,000; default: no delay.
    #[schema(minimum = 0, maximum = 1_000)]
    delay_ms: Option<u64>,
    /// For `press_key`: key or combination such as `Enter` or `Control+A`.
    #[schema(max_length = 100)]
    key: Option<String>,
    /// For `select_option`: value of the option. Exactly one of `value`, `label` and `index` is required.
    #[schema(max_length = 4_096)]
    value: Option<String>,
    /// For `select_option`: visible text of the option.
    #[schema(max_length = 4_096)]
    label: Option<String>,
    /// For `select_option`: position of the option, starting at 0.
    #[schema(minimum = 0, maximum = 100_000)]
    index: Option<u32>,
    /// For `scroll`: pixels to the right; negative values scroll to the left.
    #[schema(minimum = -1_000_000.0, maximum = 1_000_000.0)]
    x: Option<f64>,
    /// For `scroll`: pixels down; negative values scroll up.
    #[schema(minimum = -1_000_000.0, maximum = 1_000_000.0)]
    y: Option<f64>,
    /// For `drag_and_drop`: selector of the dragged element.
    #[schema(max_length = 4_096)]
    source: Option<String>,
    /// For `drag_and_drop`: selector of the element to drop it on.
    #[schema(max_length = 4_096)]
    target: Option<String>,
    /// For `handle_dialog`: whether to accept the open dialog or, if none is open, the next one.
    accept: Option<bool>,
    /// For `handle_dialog`: text to enter into a `prompt` dialog.
    #[schema(max_length = 100_000)]
    prompt_text: Option<String>,
    /// For `wait_for_selector`: element state to wait for; default `visible`.
    state: Option<ElementState>,
    /// For `wait_for_network_idle`: time without requests to wait for, in milliseconds, 0 to 60,000; default 500.
    #[schema(minimum = 0, maximum = 60_000)]
    idle_ms: Option<u64>,
    /// For `upload_file`: path of the file in the workspace of `agent_id`, or in the downloads folder if that is
    /// omitted.
    #[schema(max_length = 4_096)]
    path: Option<String>,
    /// For `upload_file`: id or svc_name of the agent whose workspace contains the file; default: the downloads folder.
    #[schema(max_length = 64)]
    agent_id: Option<String>,
    /// Tab to act in; default: the active tab.
    #[schema(max_length = 64)]
    tab_id: Option<String>,
    /// Time limit of the action in milliseconds, 1 to 60,000; default 10,000.
    #[schema(minimum = 1, maximum = 60_000)]
    timeout_ms: Option<u64>,
}

/// Request body described by [`ActionFields`].
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

/// Answer to a dialog.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum DialogAnswerView {
    Accepted,
    Dismissed,
    /// Dismissed because it was not answered within 30 seconds.
    DismissedUnanswered,
}

/// Dialog opened by a page.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserDialog)]
struct DialogView {
    /// Kind of dialog: `alert`, `confirm`, `prompt` or `beforeunload`.
    kind: String,
    /// Text that the page shows in the dialog.
    message: String,
    /// Answer to the dialog; null while it is open. Answer it with `handle_dialog` within 30 seconds.
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

/// Result of an action.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserActionResult)]
pub(super) struct ActionResultView {
    /// Always true; failures are returned as errors.
    ok: bool,
    /// URL of the page after the action.
    url: String,
    /// Title of the page after the action; may be empty.
    title: String,
    /// Duration of the action in milliseconds.
    duration_ms: u64,
    /// Tab in which the action was performed.
    tab_id: String,
    /// Whether the page navigated, within the document or to another one.
    navigated: bool,
    /// Numbered list of interactive elements, if `auto_snapshot` is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    snapshot: Option<String>,
    /// Last dialog opened during the action, or an earlier one that was not answered in time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = DialogView, required = false)]
    dialog: Option<DialogView>,
    /// True if the browser had ended and was restarted; its pages and cookies are lost.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    restarted: bool,
}

impl From<PerformedAction> for ActionResultView {
    fn from(performed: PerformedAction) -> Self {
        let outcome = performed.outcome;
        Self {
            ok: outcome.ok,
            url: outcome.url,
            title: outcome.title,
            duration_ms: outcome.duration_ms,
            tab_id: outcome.tab_id,
            navigated: outcome.navigated,
            snapshot: performed.snapshot.map(|snapshot| snapshot.snapshot),
            dialog: outcome.dialog.map(DialogView::from),
            restarted: performed.restarted,
        }
    }
}

/// Perform a browser action
///
/// The first action starts the browser. An action waits up to `timeout_ms` until its element exists and is visible,
/// stable, enabled and not covered, and then sends real mouse and keyboard events. Actions in a tab run in order of
/// arrival. Every request acts; `Idempotency-Key` is ignored.
#[utoipa::path(
    post, path = "/api/browser/action", tag = "browser", request_body = ActionFields,
    responses(
        (status = 200, body = ActionResultView),
        (status = 403, body = ErrorBody, description = "`address_refused`: the address is blocked"),
        (status = 404, body = ErrorBody, description = "`tab_not_found`, `agent_not_found`"),
        (status = 409, body = ErrorBody, description = "`ambiguous` (several elements match), `not_actionable` (the \
            message states the unmet condition), `stale_ref` (the element of an `@N` no longer exists), \
            `dialog_open`, `timeout`, `tab_crashed`, `too_many_tabs`"),
        (status = 502, body = ErrorBody, description = "`navigation_failed`: the page could not be opened; \
            `browser_ended`, `browser_failed`: the browser ended or failed"),
        (status = 503, body = ErrorBody, description = "`browser_unavailable`: Chromium not found; the message \
            states what to install"),
    ),
)]
pub(super) async fn act_in_browser(
    State(browser): State<Browser>,
    Json(ActionBody(fields)): Json<ActionBody>,
) -> Answer<ActionResultView> {
    let action = BrowserAction::parse(fields).map_err(BrowserError::from)?;
    Ok(Json(browser.act(&Actor::Owner, action).await?.into()))
}
