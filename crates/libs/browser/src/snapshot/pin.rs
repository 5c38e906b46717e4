//! Pinned elements, to which an action is bound although no snapshot lists them.

use serde_json::json;
use serde_json::value::RawValue;

use super::references::Reference;
use super::tree::{Described, FullTree};
use crate::BrowserError;
use crate::shared::COMMAND_TIMEOUT;
use crate::tab::{Element, Tab};

/// First pin number, above the numbers of any snapshot.
const FIRST_PINNED: u32 = 1_000_000;

/// Number of a pinned element: an action on `@number` reaches this element or fails as stale.
#[derive(Debug)]
pub(crate) struct Pin<'t> {
    tab: &'t Tab,
    pub(crate) number: u32,
    pub(crate) role: String,
    pub(crate) name: String,
}

impl Pin<'_> {
    pub(crate) fn selector(&self) -> String {
        format!("@{}", self.number)
    }
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        self.tab.pinned.lock().references.remove(&self.number);
    }
}

impl Tab {
    /// Pins an element. Returns `None` if it disappeared.
    pub(crate) async fn pin(&self, element: &Element) -> Result<Option<Pin<'_>>, BrowserError> {
        let parameters = json!({"objectId": element.object});
        let described =
            self.call_in::<Described>(&element.session, "DOM.describeNode", parameters, COMMAND_TIMEOUT).await;
        let node = match described {
            Err(BrowserError::Protocol(_)) => return Ok(None),
            other => other?.node.backend_node_id,
        };
        let raw = match self.partial_tree(&element.session, node).await {
            Err(BrowserError::Protocol(_)) => return Ok(None),
            other => other?,
        };
        let tree: FullTree<'_> =
            serde_json::from_str(raw.get()).map_err(|error| BrowserError::Protocol(error.to_string()))?;
        let now = tree.nodes.first().filter(|now| !now.ignored);
        let (role, name) = now.map(|now| (now.role().to_owned(), now.name().to_owned())).unwrap_or_default();
        let frame = element.frame.clone();
        let reference = Reference { frame, node, role: role.clone(), name: name.clone(), text: None };
        let mut pinned = self.pinned.lock();
        let number = FIRST_PINNED + pinned.count;
        pinned.count = (pinned.count + 1) % FIRST_PINNED;
        pinned.references.insert(number, reference);
        Ok(Some(Pin { tab: self, number, role, name }))
    }

    pub(super) async fn partial_tree(&self, session: &str, node: i64) -> Result<Box<RawValue>, BrowserError> {
        let parameters = json!({"backendNodeId": node, "fetchRelatives": false});
        let method = "Accessibility.getPartialAXTree";
        let connection = &self.shared.connection;
        self.guarded(async { Ok(connection.call_raw(Some(session), method, parameters, COMMAND_TIMEOUT).await?) }).await
    }
}
