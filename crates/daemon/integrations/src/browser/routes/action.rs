//! Acting on a page.

use agentd_browser::{Dialog, DialogAnswer};
use agentd_web::{Answer, ErrorBody, Json};
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::browser::model::{ActionFields, Actor};
use crate::browser::service::{Acted, Browser};

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
    Json(action): Json<ActionFields>,
) -> Answer<ActedView> {
    Ok(Json(browser.act(&Actor::Owner, &action).await?.into()))
}
