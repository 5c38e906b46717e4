//! State of a tab, updated only by events.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use utoipa::ToSchema;

use crate::address;
use crate::cdp::SessionId;

pub(crate) type FrameId = Arc<str>;

/// Maximum number of tracked frames; further ones are ignored.
const MAX_FRAMES: usize = 500;
const MAX_REQUESTS: usize = 10_000;
const MAX_DIALOGS: usize = 20;
/// Maximum number of loads that a page may start on its own within [`LOADS_WINDOW`]. Beyond it the tab is closed, since
/// a reload loop starves the other tabs until the browser stops responding.
pub(super) const MAX_LOADS: u32 = 30;
pub(super) const LOADS_WINDOW: Duration = Duration::from_secs(10);

/// Load state to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = WaitUntil)]
pub enum LoadState {
    /// The page and its resources are loaded.
    #[default]
    Load,
    /// The document is parsed.
    #[serde(rename = "domcontentloaded")]
    DomContentLoaded,
    /// No requests for 500 ms.
    NetworkIdle,
}

impl LoadState {
    /// Returns the state for a lifecycle event of the protocol.
    pub(crate) fn from_event(name: &str) -> Option<Self> {
        match name {
            "load" => Some(Self::Load),
            "DOMContentLoaded" => Some(Self::DomContentLoaded),
            "networkIdle" => Some(Self::NetworkIdle),
            _ => None,
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Frame {
    pub(crate) parent: Option<FrameId>,
    pub(crate) session: SessionId,
    pub(crate) url: String,
    /// Position in the order of attachment, in which frames are searched.
    pub(crate) ordinal: u64,
}

/// JavaScript dialog.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Dialog {
    /// `alert`, `confirm`, `prompt` or `beforeunload`.
    pub kind: String,
    pub message: String,
    /// Answer; `None` while the dialog is open.
    pub answer: Option<DialogAnswer>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DialogAnswer {
    Accepted,
    Dismissed,
    /// Dismissed after the time limit.
    DismissedUnanswered,
}

/// Answer for the next dialog.
#[derive(Debug, Clone)]
pub(crate) struct PreparedAnswer {
    pub(crate) accept: bool,
    pub(crate) prompt_text: Option<String>,
}

impl PreparedAnswer {
    pub(crate) fn kind(&self) -> DialogAnswer {
        if self.accept { DialogAnswer::Accepted } else { DialogAnswer::Dismissed }
    }
}

#[derive(Debug)]
pub(crate) struct TabState {
    pub(crate) is_ready: bool,
    pub(crate) is_closed: bool,
    pub(crate) is_crashed: bool,
    /// Reason why the browser ended.
    pub(crate) ended: Option<Arc<str>>,
    pub(crate) title: String,
    pub(crate) main_frame: FrameId,
    pub(crate) frames: HashMap<FrameId, Frame>,
    next_ordinal: u64,
    /// Loader of the current document, and the load states that it has reached.
    pub(crate) loader: String,
    pub(crate) reached: HashSet<LoadState>,
    /// Load states reached by documents before they were shown.
    early: VecDeque<(String, LoadState)>,
    /// Number of completed navigations of the main frame, including same-document ones.
    pub(crate) navigations: u64,
    /// Whether the main frame is navigating to another document.
    pub(crate) is_navigating: bool,
    pub(crate) is_loading: bool,
    /// Start of the current window, and the number of loads in it that no action requested.
    own_loads: (Instant, u32),
    /// Whether the page exceeded [`MAX_LOADS`].
    pub(crate) is_looping: bool,
    pub(crate) requests: HashSet<Arc<str>>,
    pub(crate) quiet_since: Instant,
    pub(crate) prepared_answer: Option<PreparedAnswer>,
    /// Number of dialogs since the tab was opened.
    pub(crate) dialog_count: u64,
    /// Most recent dialogs; the last one may be open.
    pub(crate) dialogs: VecDeque<Dialog>,
    /// Dialog that timed out, to be reported with the next action.
    pub(crate) unreported: Option<Dialog>,
    /// Address of the target if it is refused. Only the target reveals `view-source:`.
    refused_target: Option<Box<str>>,
    /// Address of the main document if it is refused.
    refused_document: Option<Box<str>>,
    /// Number of refused addresses so far.
    pub(crate) refusals: u64,
    /// Most recent refused address.
    last_refused: Box<str>,
    /// Whether the most recent refused address is still to be removed from the tab.
    is_removal_due: bool,
    /// Loader and HTTP status of the last response to a navigation of the main frame.
    response: Option<(String, u16)>,
}

impl TabState {
    pub(crate) fn new(main_frame: FrameId, session: SessionId, url: String) -> Self {
        let frame = Frame { parent: None, session, url, ordinal: 0 };
        Self {
            is_ready: false,
            is_closed: false,
            is_crashed: false,
            ended: None,
            title: String::new(),
            frames: HashMap::from([(Arc::clone(&main_frame), frame)]),
            main_frame,
            next_ordinal: 1,
            loader: String::new(),
            reached: HashSet::new(),
            early: VecDeque::new(),
            navigations: 0,
            is_navigating: false,
            is_loading: false,
            own_loads: (Instant::now(), 0),
            is_looping: false,
            requests: HashSet::new(),
            quiet_since: Instant::now(),
            prepared_answer: None,
            dialog_count: 0,
            dialogs: VecDeque::new(),
            unreported: None,
            refused_target: None,
            refused_document: None,
            refusals: 0,
            last_refused: Box::default(),
            is_removal_due: false,
            response: None,
        }
    }

    pub(crate) fn url(&self) -> &str {
        self.frames.get(&self.main_frame).map_or("", |frame| &frame.url)
    }

    /// Checks the address that the browser reports for the target.
    pub(crate) fn check_target(&mut self, url: &str) {
        let refused: Option<Box<str>> = (!address::is_permitted(url)).then(|| url.into());
        self.record_refusal(refused.as_deref());
        self.refused_target = refused;
    }

    /// Checks the address of the main document.
    pub(crate) fn check_document(&mut self, url: &str) {
        let refused: Option<Box<str>> = (!address::is_permitted(url)).then(|| url.into());
        self.record_refusal(refused.as_deref());
        self.refused_document = refused;
    }

    /// Counts a refused address. One that the target and the document share is counted once.
    fn record_refusal(&mut self, refused: Option<&str>) {
        let Some(url) = refused else { return };
        if ![&self.refused_target, &self.refused_document].into_iter().any(|known| known.as_deref() == refused) {
            self.refusals += 1;
            self.last_refused = url.into();
            self.is_removal_due = true;
        }
    }

    /// Returns the refused address that the tab still shows; its removal is in progress.
    pub(crate) fn refused_address(&self) -> Option<&str> {
        self.refused_document.as_deref().or(self.refused_target.as_deref())
    }

    /// Returns the most recent refused address, if there were more than `count`.
    pub(crate) fn refused_since(&self, count: u64) -> Option<&str> {
        (self.refusals != count).then_some(&*self.last_refused)
    }

    /// Returns the refused address to remove, once for each.
    pub(crate) fn take_removal(&mut self) -> Option<Box<str>> {
        std::mem::take(&mut self.is_removal_due).then(|| self.last_refused.clone())
    }

    /// Records that the main frame started loading.
    pub(crate) fn started_loading(&mut self) {
        self.is_loading = true;
        let (since, count) = &mut self.own_loads;
        if since.elapsed() > LOADS_WINDOW {
            (*since, *count) = (Instant::now(), 0);
        }
        *count += 1;
        self.is_looping |= *count > MAX_LOADS;
    }

    /// Restarts the count of loads when an action begins, since the action may navigate.
    pub(crate) fn reset_own_loads(&mut self) {
        self.own_loads = (Instant::now(), 0);
    }

    pub(crate) fn responded(&mut self, loader: String, status: u16) {
        self.response = Some((loader, status));
    }

    /// HTTP status of the document that the main frame shows.
    pub(crate) fn document_status(&self) -> Option<u16> {
        self.response.as_ref().filter(|(loader, _)| *loader == self.loader).map(|(_, status)| *status)
    }

    pub(crate) fn open_dialog(&self) -> Option<&Dialog> {
        self.dialogs.back().filter(|dialog| dialog.answer.is_none())
    }

    pub(crate) fn dialog_opened(&mut self, dialog: Dialog) {
        if self.dialogs.len() == MAX_DIALOGS {
            self.dialogs.pop_front();
        }
        self.dialogs.push_back(dialog);
        self.dialog_count += 1;
    }

    pub(crate) fn dialog_answered(&mut self, answer: DialogAnswer) {
        if let Some(dialog) = self.dialogs.back_mut().filter(|dialog| dialog.answer.is_none()) {
            dialog.answer = Some(answer);
        }
    }

    /// Adds a frame, or moves a known frame to this session.
    pub(crate) fn frame_attached(&mut self, id: FrameId, parent: Option<FrameId>, session: SessionId) {
        if let Some(frame) = self.frames.get_mut(&id) {
            frame.session = session;
            return;
        }
        if self.frames.len() >= MAX_FRAMES {
            return;
        }
        let ordinal = self.next_ordinal;
        self.next_ordinal += 1;
        self.frames.insert(id, Frame { parent, session, url: String::new(), ordinal });
    }

    pub(crate) fn frame_detached(&mut self, id: &str) {
        self.remove_children(id);
        self.frames.remove(id);
    }

    /// Records that a frame shows another document.
    pub(crate) fn frame_navigated(&mut self, id: &FrameId, url: String, loader: &str) {
        self.remove_children(id);
        if let Some(frame) = self.frames.get_mut(id) {
            frame.url = url;
        }
        if *id == self.main_frame && self.loader != loader {
            self.show(loader);
            self.navigations += 1;
            self.is_navigating = false;
            self.requests.clear();
        }
    }

    /// Records the loader of the main document.
    pub(crate) fn show(&mut self, loader: &str) {
        loader.clone_into(&mut self.loader);
        let early = self.early.drain(..).filter(|(by, _)| by == loader).map(|(_, state)| state);
        self.reached = early.collect();
    }

    pub(crate) fn reached(&mut self, loader: String, state: LoadState) {
        if loader == self.loader {
            self.reached.insert(state);
        } else {
            self.early.truncate(8);
            self.early.push_front((loader, state));
        }
    }

    pub(crate) fn request_started(&mut self, id: Arc<str>) {
        if self.requests.len() < MAX_REQUESTS {
            self.requests.insert(id);
        }
        self.quiet_since = Instant::now();
    }

    pub(crate) fn request_ended(&mut self, id: &str) {
        self.requests.remove(id);
        self.quiet_since = Instant::now();
    }

    /// Removes the frames of a detached session except its root, which may be moving to another process.
    pub(crate) fn session_detached(&mut self, session: &str) {
        let ids: Vec<FrameId> = self.frames_where(|_, frame| &*frame.session == session);
        for id in ids {
            let is_root = self
                .frames
                .get(&id)
                .and_then(|frame| frame.parent.as_ref())
                .is_none_or(|parent| self.frames.get(parent).is_none_or(|parent| &*parent.session != session));
            if !is_root {
                self.frame_detached(&id);
            }
        }
    }

    /// Returns all frames in order of attachment.
    pub(crate) fn frame_ids(&self) -> Vec<FrameId> {
        self.frames_where(|_, _| true)
    }

    pub(crate) fn children(&self, id: &str) -> Vec<FrameId> {
        self.frames_where(|_, frame| frame.parent.as_deref() == Some(id))
    }

    fn frames_where(&self, condition: impl Fn(&FrameId, &Frame) -> bool) -> Vec<FrameId> {
        let mut found: Vec<_> = self.frames.iter().filter(|(id, frame)| condition(id, frame)).collect();
        found.sort_by_key(|(_, frame)| frame.ordinal);
        found.into_iter().map(|(id, _)| Arc::clone(id)).collect()
    }

    fn remove_children(&mut self, id: &str) {
        let mut removed = self.children(id);
        while let Some(child) = removed.pop() {
            removed.extend(self.children(&child));
            self.frames.remove(&child);
        }
    }
}
