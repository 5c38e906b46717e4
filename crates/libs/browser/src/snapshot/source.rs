//! Where a frame's nodes come from.
//!
//! Chromium takes 30 µs and more to write a node of its accessibility tree, most of it for nodes that a
//! snapshot leaves out. Of a large document only the elements that may be listed are asked for, up to
//! the most that a snapshot has; small ones are asked for whole, which also shows closed shadow roots and
//! the buttons of players.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::value::RawValue;
use serde_json::{Error, json};

use super::references::MAX_ELEMENTS;
use super::tree::{AxNode, FullTree};
use crate::BrowserError;
use crate::cdp::CdpError;
use crate::tab::{Deadline, FrameId, Invoked, Tab};

/// Elements of a document that is asked for as a whole.
const MAX_WHOLE: u64 = 1_500;
/// How many elements are asked for at once, and how often: hidden ones may come first.
const PIECE: usize = 520;
const MAX_PIECES: usize = 4;
/// Elements of a page that a snapshot holds; let go of at its end.
pub(super) const OBJECTS: &str = "agentd-snapshot";
/// One frame that hangs must not keep the others from being shown.
const COUNT_LIMIT: Duration = Duration::from_secs(5);

/// As Chromium wrote them.
pub(super) enum RawNodes {
    Tree(Box<RawValue>),
    /// One tree for each, with that node alone.
    Listed {
        nodes: Vec<Box<RawValue>>,
        is_cut: bool,
    },
}

impl RawNodes {
    pub(super) fn read(&self) -> Result<FullTree<'_>, Error> {
        match self {
            Self::Tree(raw) => serde_json::from_str(raw.get()),
            Self::Listed { nodes, .. } => nodes.iter().map(|raw| read_one(raw)).collect::<Result<_, _>>().map(flat),
        }
    }

    /// Whether elements may be missing.
    pub(super) fn is_cut(&self) -> bool {
        matches!(self, Self::Listed { is_cut: true, .. })
    }
}

fn read_one(raw: &RawValue) -> Result<Option<AxNode<'_>>, Error> {
    let tree: FullTree<'_> = serde_json::from_str(raw.get())?;
    Ok(tree.nodes.into_iter().next())
}

/// A tree whose root has all nodes: what is inside one of them is listed by itself.
fn flat(nodes: Vec<Option<AxNode<'_>>>) -> FullTree<'_> {
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
    /// The nodes of a frame; none where the frame is gone, or hangs inside its page.
    pub(super) async fn frame_nodes(
        &self,
        frame: &FrameId,
        main: &FrameId,
        full: bool,
        deadline: Deadline,
    ) -> Result<Option<RawNodes>, BrowserError> {
        let found = async {
            if !full && self.is_large(frame, deadline).await? {
                self.listed(frame, deadline).await
            } else {
                self.whole_tree(frame, deadline).await
            }
        };
        match found.await {
            Err(BrowserError::Protocol(_) | BrowserError::Timeout { .. } | BrowserError::TooMuch(_))
                if frame != main =>
            {
                Ok(None)
            }
            other => other,
        }
    }

    async fn is_large(&self, frame: &FrameId, deadline: Deadline) -> Result<bool, BrowserError> {
        let limit = COUNT_LIMIT.min(deadline.remaining());
        let counted = self.invoke::<u64>(frame, "elementCount", &[], limit).await?;
        Ok(matches!(counted, Invoked::Done(count) if count > MAX_WHOLE))
    }

    async fn whole_tree(&self, frame: &FrameId, deadline: Deadline) -> Result<Option<RawNodes>, BrowserError> {
        let Some(session) = self.session_of(frame) else { return Ok(None) };
        let (method, parameters) = ("Accessibility.getFullAXTree", json!({"frameId": frame}));
        let call = self.shared.connection.call_raw(Some(&session), method, parameters, deadline.remaining());
        self.guarded(async { Ok(Some(RawNodes::Tree(call.await?))) }).await
    }

    /// Elements that may be listed, until there are more than a snapshot has.
    async fn listed(&self, frame: &FrameId, deadline: Deadline) -> Result<Option<RawNodes>, BrowserError> {
        let (mut nodes, mut interactive, mut is_cut) = (Vec::new(), 0, false);
        for piece in 0..MAX_PIECES {
            let place = [json!(piece * PIECE).into(), json!(PIECE).into()];
            let listed = self.invoke_list(frame, "usable", &place, OBJECTS, deadline.remaining()).await?;
            let Invoked::Done((session, objects)) = listed else { break };
            let is_last = objects.len() < PIECE;
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
                    // It went meanwhile.
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
