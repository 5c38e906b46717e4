//! Elements that a person would click although they have no role: with a listener, a handler or a pointer of their own,
//! or reachable by keyboard.
//!
//! Listeners are known to the debugger alone; which of the elements count is decided in the page.

use std::collections::{BTreeSet, HashMap};

use futures_util::future::join_all;
use serde::Deserialize;
use serde_json::json;

use super::source::OBJECTS;
use super::tree::Described;
use crate::BrowserError;
use crate::tab::{Argument, Deadline, Element, FrameId, Invoked, Tab};

/// Elements with listeners that are looked at, in each frame.
const MAX_LISTENING: usize = 1_000;
/// Events that a press on the element leads to.
const EVENTS: [&str; 5] = ["click", "mousedown", "mouseup", "pointerdown", "pointerup"];

/// Names of clickable elements by their nodes.
pub(super) type Clickable = HashMap<i64, String>;

#[derive(Deserialize)]
struct Listeners {
    listeners: Vec<Listener>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Listener {
    r#type: String,
    #[serde(default)]
    backend_node_id: Option<i64>,
}

impl Tab {
    /// Finds the clickable elements of a frame; none where the frame is gone or does not answer.
    pub(super) async fn clickable(&self, frame: &FrameId, deadline: Deadline) -> Result<Clickable, BrowserError> {
        match self.find_clickable(frame, deadline).await {
            Ok(found) => Ok(found),
            // The page can be listed without them.
            Err(BrowserError::Protocol(_) | BrowserError::Timeout { .. } | BrowserError::TooMuch(_)) => {
                Ok(Clickable::new())
            }
            Err(error) => Err(error),
        }
    }

    async fn find_clickable(&self, frame: &FrameId, deadline: Deadline) -> Result<Clickable, BrowserError> {
        let listening = self.listening(frame, deadline).await?;
        let arguments: Vec<Argument<'_>> = listening.iter().map(Argument::Element).collect();
        let found = self.invoke_list(frame, "clickable", &arguments, OBJECTS, deadline.remaining()).await?;
        let Invoked::Done((session, objects)) = found else { return Ok(Clickable::new()) };
        if objects.is_empty() {
            return Ok(Clickable::new());
        }
        let named = self.invoke::<Vec<String>>(frame, "clickableNames", &[], deadline.remaining()).await?;
        let Invoked::Done(names) = named else { return Ok(Clickable::new()) };
        let described = join_all(objects.iter().map(|object| {
            let parameters = json!({"objectId": object});
            self.call_in::<Described>(&session, "DOM.describeNode", parameters, deadline.remaining())
        }));
        let nodes = described.await.into_iter().map(|described| Some(described.ok()?.node.backend_node_id));
        Ok(nodes.zip(names).filter_map(|(node, name)| Some((node?, name))).collect())
    }

    /// The elements of a frame that listen for a press.
    async fn listening(&self, frame: &FrameId, deadline: Deadline) -> Result<Vec<Element>, BrowserError> {
        let document = self.invoke_list(frame, "documents", &[], OBJECTS, deadline.remaining()).await?;
        let Invoked::Done((session, documents)) = document else { return Ok(Vec::new()) };
        let Some(document) = documents.first() else { return Ok(Vec::new()) };
        let parameters = json!({"objectId": document, "depth": -1, "pierce": true});
        let limit = deadline.remaining();
        let found: Listeners = self.call_in(&session, "DOMDebugger.getEventListeners", parameters, limit).await?;
        let pressed = found.listeners.into_iter().filter(|listener| EVENTS.contains(&&*listener.r#type));
        let nodes: BTreeSet<i64> = pressed.filter_map(|listener| listener.backend_node_id).collect();
        let nodes: Vec<i64> = nodes.into_iter().take(MAX_LISTENING).collect();
        self.resolve_all(frame, &nodes, OBJECTS, limit).await
    }
}
