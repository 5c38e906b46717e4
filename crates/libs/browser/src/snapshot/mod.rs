//! What is on a page, as text: a numbered line for each element that something can be done with.
//!
//! A number is bound to the element, not to its place: to a node of a frame, and to what it was
//! called when it was listed. A number whose element is gone, or has become something else, is stale.

mod clickable;
mod pin;
mod references;
mod source;
mod text;
mod tree;

use std::collections::HashMap;
use std::time::Duration;

use futures_util::future::join_all;
use serde::Serialize;
use serde_json::json;
use url::Url;

use crate::BrowserError;
use crate::shared::QUICK;
use crate::tab::{Argument, Deadline, Element, FrameId, Invoked, Tab};
pub(crate) use pin::Pin;
pub use references::MAX_ELEMENTS;
pub(crate) use references::{Pinned, Refs};
use source::RawNodes;
use text::Source;
pub(crate) use text::shown_name;
use tree::{FullTree, Owner};

const LIMIT: Duration = Duration::from_secs(20);

/// A page as text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Snapshot {
    /// `@1 button "Save" (disabled)`, one line an element, in reading order.
    pub snapshot: String,
    pub element_count: usize,
    pub url: String,
    pub truncated: bool,
}

impl Tab {
    /// The elements that something can be done with; `full` adds headings and text. Its numbers
    /// take the place of those of the snapshot before.
    ///
    /// # Errors
    /// When the page does not answer.
    pub async fn snapshot(&self, full: bool) -> Result<Snapshot, BrowserError> {
        let (main, frames, url) = {
            let state = self.state.borrow();
            (state.main_frame.clone(), state.frame_ids(), state.url().to_owned())
        };
        let deadline = Deadline::after(LIMIT);
        let _turn = self.snapshots.lock().await;
        // Large pages are asked for what was found here.
        let clickable = join_all(frames.iter().map(|frame| self.clickable(frame, deadline))).await;
        let clickable = clickable.into_iter().collect::<Result<Vec<_>, _>>()?;
        let raw = join_all(frames.iter().map(|frame| self.frame_nodes(frame, &main, full, deadline))).await;
        self.release_objects(source::OBJECTS, &self.sessions());
        let raw: Vec<_> = raw.into_iter().collect::<Result<_, _>>()?;
        let mut trees = HashMap::new();
        for (frame, raw) in frames.iter().zip(&raw) {
            let Some(raw) = raw else { continue };
            let tree = raw
                .read()
                .map_err(|error| BrowserError::Protocol(format!("the page's tree could not be read: {error}")))?;
            trees.insert(frame.clone(), tree);
        }
        let is_cut = raw.iter().flatten().any(RawNodes::is_cut);
        let owners = join_all(frames.iter().filter(|frame| **frame != main).map(|frame| self.owner(frame))).await;
        let clickable = frames.iter().cloned().zip(clickable).collect();
        let source = Source { trees, owners: owners.into_iter().flatten().collect(), clickable };
        let lines = text::lines(&source, &main, full);
        let element_count = lines.references.len();
        *self.refs.lock() = Refs(lines.references);
        Ok(Snapshot { snapshot: lines.text, element_count, url, truncated: lines.is_truncated || is_cut })
    }

    /// What a person would read on the page; of the main frame.
    ///
    /// # Errors
    /// When the page does not answer.
    pub async fn readable_text(&self) -> Result<agentd_page_text::ReadablePage, BrowserError> {
        let deadline = Deadline::after(LIMIT);
        loop {
            let main = self.main_frame();
            let Invoked::Done(html) = self.invoke::<String>(&main, "html", &[], deadline.remaining()).await? else {
                if deadline.is_over() {
                    return Err(deadline.timeout("a page that can be read"));
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            };
            let base = self.state.borrow().url().to_owned();
            let base = Url::parse(&base).map_err(|error| BrowserError::Protocol(error.to_string()))?;
            // A large page takes a while, and other tabs wait for this thread.
            return tokio::task::spawn_blocking(move || agentd_page_text::readable_text(&html, &base))
                .await
                .map_err(|error| BrowserError::Protocol(error.to_string()));
        }
    }

    /// The element of a number; an error where it is stale.
    pub(crate) async fn referenced(&self, number: u32) -> Result<Element, BrowserError> {
        let selector = format!("@{number}");
        let stale = |what| BrowserError::StaleRef { selector: selector.clone(), what };
        let index = (number as usize).checked_sub(1);
        let reference = index.and_then(|index| self.refs.lock().0.get(index).cloned());
        let reference = reference.or_else(|| self.pinned.lock().get(number));
        let Some(reference) = reference else { return Err(stale("not in the last snapshot of this tab")) };
        let gone = "an element that is gone";
        let mut found = self.resolve(&reference.frame, reference.node).await?;
        if matches!(found, Invoked::Gone) {
            // The world of our scripts may have gone alone.
            found = self.resolve(&reference.frame, reference.node).await?;
        }
        let Invoked::Done(element) = found else { return Err(stale(gone)) };
        let raw = self.partial_tree(&element.session, reference.node).await;
        let raw = match raw {
            Err(BrowserError::Protocol(_)) => return Err(stale(gone)),
            other => other?,
        };
        let tree: FullTree<'_> =
            serde_json::from_str(raw.get()).map_err(|error| BrowserError::Protocol(error.to_string()))?;
        let now = tree.nodes.first();
        match now.filter(|now| !now.ignored) {
            Some(now) if now.role() != reference.role || now.name() != reference.name => {
                Err(stale("an element that has become something else"))
            }
            _ if reference.text.is_some() => {
                let named = [Argument::Element(&element)];
                match self.invoke::<Option<String>>(&element.frame, "clickableName", &named, QUICK).await? {
                    Invoked::Done(text) if text == reference.text => Ok(element),
                    Invoked::Done(Some(_)) => Err(stale("an element that has become something else")),
                    Invoked::Done(None) | Invoked::Gone => Err(stale(gone)),
                }
            }
            Some(_) => Ok(element),
            // What is hidden has no role and may be shown again; what was taken out of the page is gone.
            None => match self.invoke(&element.frame, "isAttached", &[Argument::Element(&element)], QUICK).await? {
                Invoked::Done(true) => Ok(element),
                _ => Err(stale(gone)),
            },
        }
    }

    /// The node that a frame stands in, and the frame of that node.
    async fn owner(&self, frame: &FrameId) -> Option<((FrameId, i64), FrameId)> {
        let parent = self.state.borrow().frames.get(frame)?.parent.clone()?;
        let node = self.frame_owner(frame, &parent).await.ok()?;
        Some(((parent, node), frame.clone()))
    }

    pub(crate) async fn frame_owner(&self, frame: &FrameId, parent: &FrameId) -> Result<i64, BrowserError> {
        let session = self.session_of(parent).ok_or(BrowserError::TabCrashed)?;
        let owner: Owner = self.call_in(&session, "DOM.getFrameOwner", json!({"frameId": frame}), QUICK).await?;
        Ok(owner.backend_node_id)
    }
}
