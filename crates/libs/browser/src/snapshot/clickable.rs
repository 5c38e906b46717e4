//! Clickable elements without a role: elements with a listener, a handler, a pointer cursor or keyboard focus.
//!
//! Only the debugger knows listeners; the page script decides which elements count.

use std::collections::{BTreeSet, HashMap};

use futures_util::future::join_all;
use serde::Deserialize;
use serde_json::json;

use super::source::SNAPSHOT_OBJECT_GROUP;
use super::tree::Described;
use crate::BrowserError;
use crate::tab::{Argument, Deadline, Element, FrameId, Invoked, Tab};

/// Maximum number of elements with listeners that are examined in each frame.
const MAX_LISTENING_ELEMENTS: usize = 1_000;
/// Events caused by pressing an element.
const PRESS_EVENTS: [&str; 5] = ["click", "mousedown", "mouseup", "pointerdown", "pointerup"];

/// Names of clickable elements by node ID.
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
    /// Returns the clickable elements of a frame; empty if the frame is gone or does not respond.
    pub(super) async fn clickable(&self, frame: &FrameId, deadline: Deadline) -> Result<Clickable, BrowserError> {
        match self.find_clickable(frame, deadline).await {
            Ok(found) => Ok(found),
            // The snapshot is useful without them.
            Err(BrowserError::Protocol(_) | BrowserError::Timeout { .. } | BrowserError::LimitExceeded(_)) => {
                Ok(Clickable::new())
            }
            Err(error) => Err(error),
        }
    }

    async fn find_clickable(&self, frame: &FrameId, deadline: Deadline) -> Result<Clickable, BrowserError> {
        let listening = self.listening(frame, deadline).await?;
        let arguments: Vec<Argument<'_>> = listening.iter().map(Argument::Element).collect();
        let found =
            self.invoke_list(frame, "clickable", &arguments, SNAPSHOT_OBJECT_GROUP, deadline.remaining()).await?;
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

    /// Returns the elements of a frame with press listeners.
    async fn listening(&self, frame: &FrameId, deadline: Deadline) -> Result<Vec<Element>, BrowserError> {
        let document = self.invoke_list(frame, "documents", &[], SNAPSHOT_OBJECT_GROUP, deadline.remaining()).await?;
        let Invoked::Done((session, documents)) = document else { return Ok(Vec::new()) };
        let Some(document) = documents.first() else { return Ok(Vec::new()) };
        let parameters = json!({"objectId": document, "depth": -1, "pierce": true});
        let limit = deadline.remaining();
        let found: Listeners = self.call_in(&session, "DOMDebugger.getEventListeners", parameters, limit).await?;
        let pressed = found.listeners.into_iter().filter(|listener| PRESS_EVENTS.contains(&&*listener.r#type));
        let nodes: BTreeSet<i64> = pressed.filter_map(|listener| listener.backend_node_id).collect();
        let nodes: Vec<i64> = nodes.into_iter().take(MAX_LISTENING_ELEMENTS).collect();
        self.resolve_all(frame, &nodes, SNAPSHOT_OBJECT_GROUP, limit).await
    }
}
