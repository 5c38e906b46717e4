//! Retrieval of the accessibility nodes of a frame.
//!
//! Chromium takes at least 30 µs to serialize an accessibility node, and a snapshot omits most nodes. For a large
//! document only elements that may be listed are requested, up to the limit of a snapshot. A small document is
//! requested as a whole, which also includes closed shadow roots and the controls of media players.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::value::RawValue;
use serde_json::{Error, json};

use super::references::MAX_ELEMENTS;
use super::tree::{AxNode, FullTree};
use crate::BrowserError;
use crate::cdp::CdpError;
use crate::tab::{Deadline, FrameId, Invoked, Tab};

/// Maximum number of elements of a document that is requested as a whole.
const MAX_FULL_TREE_ELEMENTS: u64 = 1_500;
/// Number of elements requested together. Several batches may be needed, since hidden elements may come first.
const BATCH_SIZE: usize = 520;
const MAX_BATCHES: usize = 4;
/// Object group of the elements held by a snapshot, released at its end.
pub(super) const SNAPSHOT_OBJECT_GROUP: &str = "agentd-snapshot";
/// Time limit for counting elements, so that a hanging frame does not block the others.
const COUNT_TIMEOUT: Duration = Duration::from_secs(5);

/// Nodes as serialized by Chromium.
pub(super) enum RawNodes {
    Tree(Box<RawValue>),
    /// One single-node tree for each element.
    Listed {
        nodes: Vec<Box<RawValue>>,
        is_cut: bool,
    },
}

impl RawNodes {
    pub(super) fn read(&self) -> Result<FullTree<'_>, Error> {
        match self {
            Self::Tree(raw) => serde_json::from_str(raw.get()),
            Self::Listed { nodes, .. } => nodes.iter().map(|raw| read_one(raw)).collect::<Result<_, _>>().map(flatten),
        }
    }

    /// Whether elements may have been omitted.
    pub(super) fn is_cut(&self) -> bool {
        matches!(self, Self::Listed { is_cut: true, .. })
    }
}

fn read_one(raw: &RawValue) -> Result<Option<AxNode<'_>>, Error> {
    let tree: FullTree<'_> = serde_json::from_str(raw.get())?;
    Ok(tree.nodes.into_iter().next())
}

/// Returns a tree whose root contains all nodes, since nested nodes are listed separately.
fn flatten(nodes: Vec<Option<AxNode<'_>>>) -> FullTree<'_> {
    let mut root = AxNode::default();
    let mut all = Vec::with_capacity(nodes.len() + 1);
    for mut node in nodes.into_iter().flatten() {
        node.child_ids.clear();
        if let std::borrow::Cow::Borrowed(id) = node.node_id {
            root.child_ids.push(id);
        }
        all.push(node);
    }
    all.insert(0, root);
    FullTree { nodes: all }
}

impl Tab {
    /// Returns the nodes of a frame; `None` if the frame is gone, or if a subframe does not respond.
    pub(super) async fn frame_nodes(
        &self,
        frame: &FrameId,
        main: &FrameId,
        full: bool,
        deadline: Deadline,
    ) -> Result<Option<RawNodes>, BrowserError> {
        let found = async {
            if !full && self.is_large(frame, deadline).await? {
                self.listed_nodes(frame, deadline).await
            } else {
                self.whole_tree(frame, deadline).await
            }
        };
        match found.await {
            Err(BrowserError::Protocol(_) | BrowserError::Timeout { .. } | BrowserError::LimitExceeded(_))
                if frame != main =>
            {
                Ok(None)
            }
            other => other,
        }
    }

    async fn is_large(&self, frame: &FrameId, deadline: Deadline) -> Result<bool, BrowserError> {
        let limit = COUNT_TIMEOUT.min(deadline.remaining());
        let counted = self.invoke::<u64>(frame, "elementCount", &[], limit).await?;
        Ok(matches!(counted, Invoked::Done(count) if count > MAX_FULL_TREE_ELEMENTS))
    }

    async fn whole_tree(&self, frame: &FrameId, deadline: Deadline) -> Result<Option<RawNodes>, BrowserError> {
        let Some(session) = self.session_of(frame) else { return Ok(None) };
        let (method, parameters) = ("Accessibility.getFullAXTree", json!({"frameId": frame}));
        let call = self.shared.connection.call_raw(Some(&session), method, parameters, deadline.remaining());
        self.guarded(async { Ok(Some(RawNodes::Tree(call.await?))) }).await
    }

    /// Returns elements that may be listed, until they exceed the limit of a snapshot.
    async fn listed_nodes(&self, frame: &FrameId, deadline: Deadline) -> Result<Option<RawNodes>, BrowserError> {
        let (mut nodes, mut interactive, mut is_cut) = (Vec::new(), 0, false);
        for batch in 0..MAX_BATCHES {
            let range = [json!(batch * BATCH_SIZE).into(), json!(BATCH_SIZE).into()];
            let listed = self.invoke_list(frame, "usable", &range, SNAPSHOT_OBJECT_GROUP, deadline.remaining()).await?;
            let Invoked::Done((session, objects)) = listed else { break };
            let is_last = objects.len() < BATCH_SIZE;
            let connection = &self.shared.connection;
            let calls = objects.into_iter().map(|object| {
                let parameters = json!({"objectId": object, "fetchRelatives": false});
                connection.call_raw(Some(&session), "Accessibility.getPartialAXTree", parameters, deadline.remaining())
            });
            for answer in self.guarded(async { Ok(join_all(calls).await) }).await? {
                match answer {
                    Ok(raw) => {
                        interactive +=
                            usize::from(read_one(&raw).is_ok_and(|node| node.is_some_and(|node| node.is_listed())));
                        nodes.push(raw);
                    }
                    // It disappeared in the meantime.
                    Err(CdpError::Refused { .. }) => {}
                    Err(CdpError::TooLong { .. }) => is_cut = true,
                    Err(error) => return Err(error.into()),
                }
            }
            if is_last || interactive > MAX_ELEMENTS {
                return Ok(Some(RawNodes::Listed { nodes, is_cut }));
            }
        }
        Ok(Some(RawNodes::Listed { nodes, is_cut: true }))
    }
}
