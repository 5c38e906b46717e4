//! Conversion of session events to changes to the tab state.

use std::sync::Arc;

use serde::Deserialize;

use super::Tab;
use super::state::{Dialog, FrameId, LoadState, TabState};
use crate::cdp::{Event, SessionId};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Attached {
    frame_id: FrameId,
    parent_frame_id: FrameId,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Detached {
    frame_id: FrameId,
    #[serde(default)]
    reason: String,
}

#[derive(Deserialize)]
struct Navigated {
    frame: FrameTreeFrame,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FrameTreeFrame {
    id: FrameId,
    #[serde(default)]
    parent_id: Option<FrameId>,
    #[serde(default)]
    loader_id: String,
    #[serde(default)]
    url: String,
    #[serde(default)]
    url_fragment: String,
    /// Requested URL, if this is an error page.
    #[serde(default)]
    unreachable_url: String,
}

impl FrameTreeFrame {
    /// Returns the URL as shown in an address bar.
    fn url(&self) -> String {
        if !self.unreachable_url.is_empty() {
            return self.unreachable_url.clone();
        }
        format!("{}{}", self.url, self.url_fragment)
    }
}

/// `Page.getFrameTree`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FrameTree {
    frame: FrameTreeFrame,
    #[serde(default)]
    child_frames: Vec<FrameTree>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FrameEvent {
    frame_id: FrameId,
    #[serde(default)]
    url: String,
    #[serde(default)]
    loader_id: String,
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    request_id: Arc<str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResponseReceived {
    request_id: Arc<str>,
    loader_id: String,
    #[serde(default)]
    frame_id: Option<FrameId>,
    response: Response,
}

#[derive(Deserialize)]
struct Response {
    status: u16,
}

#[derive(Deserialize)]
struct DialogOpening {
    message: String,
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
struct DialogClosed {
    result: bool,
}

impl Tab {
    /// Called in the order of the events, by the task that reads the pipe.
    pub(crate) fn apply(self: &Arc<Self>, event: &Event, session: &SessionId) {
        match &*event.method {
            "Page.frameAttached" => self.with(event, |state, params: Attached| {
                state.frame_attached(params.frame_id, Some(params.parent_frame_id), Arc::clone(session));
            }),
            "Page.frameDetached" => self.with(event, |state, params: Detached| {
                // A frame that moves to another process is attached again through another session.
                if params.reason != "swap" {
                    state.frame_detached(&params.frame_id);
                }
                self.forget_world(&params.frame_id);
            }),
            "Page.frameNavigated" => self.with(event, |state, params: Navigated| {
                let frame = params.frame;
                if let Some(environment) = &self.environment {
                    environment.record_origin(&frame.url);
                }
                self.forget_world(&frame.id);
                if frame.id == state.main_frame {
                    state.check_document(&frame.url);
                }
                state.frame_attached(Arc::clone(&frame.id), frame.parent_id.clone(), Arc::clone(session));
                state.frame_navigated(&frame.id, frame.url(), &frame.loader_id);
            }),
            "Page.navigatedWithinDocument" => self.with(event, |state, params: FrameEvent| {
                if params.frame_id == state.main_frame {
                    state.navigations += 1;
                }
                if let Some(frame) = state.frames.get_mut(&params.frame_id) {
                    frame.url = params.url;
                }
            }),
            "Page.frameRequestedNavigation" | "Page.frameStartedNavigating" => {
                self.with(event, |state, params: FrameEvent| {
                    state.is_navigating |= params.frame_id == state.main_frame;
                })
            }
            "Page.frameStartedLoading" => self.with(event, |state, params: FrameEvent| {
                if params.frame_id == state.main_frame {
                    state.started_loading();
                }
            }),
            "Page.frameStoppedLoading" | "Page.frameClearedScheduledNavigation" => {
                self.with(event, |state, params: FrameEvent| {
                    if params.frame_id == state.main_frame {
                        (state.is_loading, state.is_navigating) = (false, false);
                    }
                });
            }
            "Page.lifecycleEvent" => self.with(event, |state, params: FrameEvent| {
                if params.frame_id == state.main_frame
                    && let Some(reached) = LoadState::from_event(&params.name)
                {
                    state.reached(params.loader_id, reached);
                }
            }),
            "Network.requestWillBeSent" => {
                self.with(event, |state, params: Request| state.request_started(params.request_id))
            }
            "Network.responseReceived" => self.with(event, |state, params: ResponseReceived| {
                // The request of a document has the ID of its loader.
                if params.frame_id.as_ref() == Some(&state.main_frame) && *params.request_id == *params.loader_id {
                    state.responded(params.loader_id, params.response.status);
                }
            }),
            "Network.loadingFinished" | "Network.loadingFailed" => {
                self.with(event, |state, params: Request| state.request_ended(&params.request_id));
            }
            "Page.javascriptDialogOpening" => {
                let Some(opening) = event.read::<DialogOpening>() else { return };
                let dialog = Dialog { kind: opening.kind, message: truncate(opening.message), answer: None };
                self.dialog_opened(dialog, Arc::clone(session));
            }
            "Page.javascriptDialogClosed" => self.with(event, |state, params: DialogClosed| {
                use super::state::DialogAnswer::{Accepted, Dismissed};
                state.dialog_answered(if params.result { Accepted } else { Dismissed });
            }),
            "Inspector.targetCrashed" => {
                self.state.send_modify(|state| {
                    let is_main = state.frames.get(&state.main_frame).is_some_and(|frame| frame.session == *session);
                    state.is_crashed |= is_main;
                });
            }
            _ => {}
        }
    }

    /// Adds the frames that existed before the session.
    pub(super) fn apply_tree(&self, tree: &FrameTree, session: &SessionId) {
        self.state.send_modify(|state| add_tree(state, tree, session));
    }

    fn with<'a, P: Deserialize<'a>>(&self, event: &'a Event, change: impl FnOnce(&mut TabState, P)) {
        if let Some(parameters) = event.read() {
            self.state.send_modify(|state| change(state, parameters));
        }
    }
}

fn add_tree(state: &mut TabState, tree: &FrameTree, session: &SessionId) {
    let frame = &tree.frame;
    let is_known = state.frames.get(&frame.id).is_some_and(|known| !known.url.is_empty());
    if !is_known {
        state.frame_attached(Arc::clone(&frame.id), frame.parent_id.clone(), Arc::clone(session));
        if let Some(known) = state.frames.get_mut(&frame.id) {
            known.url = frame.url();
        }
    }
    if frame.id == state.main_frame && state.loader.is_empty() {
        state.show(&frame.loader_id);
    }
    for child in &tree.child_frames {
        add_tree(state, child, session);
    }
}

/// Truncates the text of a dialog.
fn truncate(mut text: String) -> String {
    const MAX_BYTES: usize = 2_000;
    if text.len() > MAX_BYTES {
        text.truncate(text.floor_char_boundary(MAX_BYTES));
        text.push('…');
    }
    text
}
