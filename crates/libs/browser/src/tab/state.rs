//! What is known of a tab, kept up to date by events alone.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use utoipa::ToSchema;

use crate::address;
use crate::cdp::SessionId;

pub(crate) type FrameId = Arc<str>;

/// A page can make any number; the rest is not looked into.
const MAX_FRAMES: usize = 500;
const MAX_REQUESTS: usize = 10_000;
const MAX_DIALOGS: usize = 20;
/// Maximum number of loads that a page may start by itself within [`LOADS_WINDOW`]. Beyond it the tab is closed, since a
/// reload loop starves the other tabs until the browser stops responding.
pub(super) const MAX_LOADS: u32 = 30;
pub(super) const LOADS_WINDOW: Duration = Duration::from_secs(10);

/// When a page counts as there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = WaitUntil)]
pub enum LoadState {
    #[default]
    Load,
    #[serde(rename = "domcontentloaded")]
    DomContentLoaded,
    NetworkIdle,
}

impl LoadState {
    /// From the protocol's name of a lifecycle event.
    pub(crate) fn of_event(name: &str) -> Option<Self> {
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
    /// Counts, so that frames are searched in the order of their coming.
    pub(crate) ordinal: u64,
}

/// A window of the page that asks something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Dialog {
    /// `alert`, `confirm`, `prompt` or `beforeunload`.
    pub kind: String,
    pub message: String,
    /// How it was answered; none while it is open.
    pub answer: Option<DialogAnswer>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DialogAnswer {
    Accepted,
    Dismissed,
    /// Nobody answered in time.
    DismissedUnanswered,
}

/// What the next dialog is to be answered with.
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
    /// Why the browser is gone.
    pub(crate) ended: Option<Arc<str>>,
    pub(crate) title: String,
    pub(crate) main_frame: FrameId,
    pub(crate) frames: HashMap<FrameId, Frame>,
    next_ordinal: u64,
    /// The loader of the document that is shown, and what it has reached.
    pub(crate) loader: String,
    pub(crate) reached: HashSet<LoadState>,
    /// Reached by documents that were not shown at that time.
    early: VecDeque<(String, LoadState)>,
    /// Navigations of the main frame that came to something, those within the document included.
    pub(crate) navigations: u64,
    /// Whether the main frame is on its way to another document.
    pub(crate) is_navigating: bool,
    pub(crate) is_loading: bool,
    /// Start of the current window, and the number of loads in it that no action requested.
    own_loads: (Instant, u32),
    /// Whether the page exceeded [`MAX_LOADS`].
    pub(crate) is_looping: bool,
    pub(crate) requests: HashSet<Arc<str>>,
    pub(crate) quiet_since: Instant,
    pub(crate) prepared_answer: Option<PreparedAnswer>,
    /// Since the tab was opened.
    pub(crate) dialog_count: u64,
    /// The last ones; at the end the one that is open.
    pub(crate) dialogs: VecDeque<Dialog>,
    /// One that nobody answered in time; the next action says so.
    pub(crate) unreported: Option<Dialog>,
    /// Address of the tab by its target, if tabs may not show it. Only the target tells `view-source:`.
    refused_target: Option<Box<str>>,
    /// Address of the main document, if tabs may not show it.
    refused_document: Option<Box<str>>,
    /// Number of refused addresses that the tab went to.
    pub(crate) refusals: u64,
    /// The last of them.
    last_refused: Box<str>,
    /// Whether the last one is yet to be removed from the tab.
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

    /// Judges the address that the browser says the tab has.
    pub(crate) fn judge_target(&mut self, url: &str) {
        let refused: Option<Box<str>> = (!address::is_permitted(url)).then(|| url.into());
        self.note_refusal(refused.as_deref());
        self.refused_target = refused;
    }

    /// Judges the address of the document that the main frame shows.
    pub(crate) fn judge_document(&mut self, url: &str) {
        let refused: Option<Box<str>> = (!address::is_permitted(url)).then(|| url.into());
        self.note_refusal(refused.as_deref());
        self.refused_document = refused;
    }

    /// Counts a refused address; one that both the target and the document have is counted once.
    fn note_refusal(&mut self, refused: Option<&str>) {
        let Some(url) = refused else { return };
        if ![&self.refused_target, &self.refused_document].into_iter().any(|known| known.as_deref() == refused) {
            self.refusals += 1;
            self.last_refused = url.into();
            self.is_removal_due = true;
        }
    }

    /// The address that the tab shows although it may not; its removal is under way.
    pub(crate) fn refused_address(&self) -> Option<&str> {
        self.refused_document.as_deref().or(self.refused_target.as_deref())
    }

    /// The last refused address, if the tab went to one after the first `count`.
    pub(crate) fn refused_since(&self, count: u64) -> Option<&str> {
        (self.refusals != count).then_some(&*self.last_refused)
    }

    /// The refused address that is to be removed; once for each.
    pub(crate) fn take_removal(&mut self) -> Option<Box<str>> {
        std::mem::take(&mut self.is_removal_due).then(|| self.last_refused.clone())
    }

    /// The main frame loads something.
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
    pub(crate) fn forget_own_loads(&mut self) {
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

    /// A frame is there, in this session; a known one has changed its process.
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

    /// A frame shows another document.
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

    /// The main frame shows this loader's document.
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

    /// Everything that came through a session that is gone, but the frame that it was for: that one
    /// may be on its way to another process.
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

    /// All frames, in the order of their coming.
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
        let mut doomed = self.children(id);
        while let Some(child) = doomed.pop() {
            doomed.extend(self.children(&child));
            self.frames.remove(&child);
        }
    }
}
