//! Snapshot of a page as text, with a numbered line for each interactive element.
//!
//! A number refers to the element, not its position: to a node of a frame with its role and name at that time. It is
//! stale if the element is gone or has changed its role or name.

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
use crate::shared::COMMAND_TIMEOUT;
use crate::tab::{Argument, Deadline, Element, FrameId, Invoked, Tab};
pub(crate) use pin::Pin;
pub use references::MAX_ELEMENTS;
pub(crate) use references::{Pinned, Refs};
use source::RawNodes;
use text::Source;
pub(crate) use text::escape_name;
use tree::{FullTree, Owner};

const LIMIT: Duration = Duration::from_secs(20);

/// Snapshot of a page as text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Snapshot {
    /// One line for each element in reading order, for example `@1 button "Save" (disabled)`.
    pub snapshot: String,
    pub element_count: usize,
    pub url: String,
    pub truncated: bool,
}

impl Tab {
    /// Lists the interactive elements; `full` adds headings and text. The numbers replace those of the previous
    /// snapshot.
    ///
    /// # Errors
    /// The page does not respond.
    pub async fn snapshot(&self, full: bool) -> Result<Snapshot, BrowserError> {
        let (main, frames, url) = {
            let state = self.state.borrow();
            (state.main_frame.clone(), state.frame_ids(), state.url().to_owned())
        };
        let deadline = Deadline::after(LIMIT);
        let _turn = self.snapshots.lock().await;
        // Large pages are queried for the elements found here.
        let clickable = join_all(frames.iter().map(|frame| self.clickable(frame, deadline))).await;
        let clickable = clickable.into_iter().collect::<Result<Vec<_>, _>>()?;
        let raw = join_all(frames.iter().map(|frame| self.frame_nodes(frame, &main, full, deadline))).await;
        self.release_objects(source::SNAPSHOT_OBJECT_GROUP, &self.sessions());
        let raw: Vec<_> = raw.into_iter().collect::<Result<_, _>>()?;
        let mut trees = HashMap::new();
        for (frame, raw) in frames.iter().zip(&raw) {
            let Some(raw) = raw else { continue };
            let tree = raw.read().map_err(|error| {
                BrowserError::Protocol(format!("failed to read the accessibility tree of the page: {error}"))
            })?;
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

    /// Extracts the readable text of the main frame.
    ///
    /// # Errors
    /// The page does not respond.
    pub async fn readable_text(&self) -> Result<agentd_page_text::ReadablePage, BrowserError> {
        let deadline = Deadline::after(LIMIT);
        loop {
            let main = self.main_frame();
            let Invoked::Done(html) = self.invoke::<String>(&main, "html", &[], deadline.remaining()).await? else {
                if deadline.is_over() {
                    return Err(deadline.timeout("a readable page"));
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            };
            let base = self.state.borrow().url().to_owned();
            let base = Url::parse(&base).map_err(|error| BrowserError::Protocol(error.to_string()))?;
            // A large page takes time, which must not block other tabs.
            return tokio::task::spawn_blocking(move || agentd_page_text::readable_text(&html, &base))
                .await
                .map_err(|error| BrowserError::Protocol(error.to_string()));
        }
    }

    /// Resolves a snapshot number to its element.
    pub(crate) async fn referenced(&self, number: u32) -> Result<Element, BrowserError> {
        let selector = format!("@{number}");
        let stale = |what| BrowserError::StaleRef { selector: selector.clone(), what };
        let index = (number as usize).checked_sub(1);
        let reference = index.and_then(|index| self.refs.lock().0.get(index).cloned());
        let reference = reference.or_else(|| self.pinned.lock().get(number));
        let Some(reference) = reference else { return Err(stale("is not in the last snapshot of this tab")) };
        let reason_gone = "no longer exists";
        let mut found = self.resolve(&reference.frame, reference.node).await?;
        if matches!(found, Invoked::Gone) {
            // The isolated world may be gone while the element still exists.
            found = self.resolve(&reference.frame, reference.node).await?;
        }
        let Invoked::Done(element) = found else { return Err(stale(reason_gone)) };
        let raw = self.partial_tree(&element.session, reference.node).await;
        let raw = match raw {
            Err(BrowserError::Protocol(_)) => return Err(stale(reason_gone)),
            other => other?,
        };
        let tree: FullTree<'_> =
            serde_json::from_str(raw.get()).map_err(|error| BrowserError::Protocol(error.to_string()))?;
        let now = tree.nodes.first();
        match now.filter(|now| !now.ignored) {
            Some(now) if now.role() != reference.role || now.name() != reference.name => {
                Err(stale("refers to an element that changed since the snapshot"))
            }
            _ if reference.text.is_some() => {
                let named = [Argument::Element(&element)];
                match self.invoke::<Option<String>>(&element.frame, "clickableName", &named, COMMAND_TIMEOUT).await? {
                    Invoked::Done(text) if text == reference.text => Ok(element),
                    Invoked::Done(Some(_)) => Err(stale("refers to an element that changed since the snapshot")),
                    Invoked::Done(None) | Invoked::Gone => Err(stale(reason_gone)),
                }
            }
            Some(_) => Ok(element),
            // A hidden element has no role and may be shown again; a removed one is gone.
            None => {
                match self.invoke(&element.frame, "isAttached", &[Argument::Element(&element)], COMMAND_TIMEOUT).await?
                {
                    Invoked::Done(true) => Ok(element),
                    _ => Err(stale(reason_gone)),
                }
            }
        }
    }

    /// Returns the node that embeds a frame, and the frame.
    async fn owner(&self, frame: &FrameId) -> Option<((FrameId, i64), FrameId)> {
        let parent = self.state.borrow().frames.get(frame)?.parent.clone()?;
        let node = self.frame_owner(frame, &parent).await.ok()?;
        Some(((parent, node), frame.clone()))
    }

    pub(crate) async fn frame_owner(&self, frame: &FrameId, parent: &FrameId) -> Result<i64, BrowserError> {
        let session = self.session_of(parent).ok_or(BrowserError::TabCrashed)?;
        let owner: Owner =
            self.call_in(&session, "DOM.getFrameOwner", json!({"frameId": frame}), COMMAND_TIMEOUT).await?;
        Ok(owner.backend_node_id)
    }
}
