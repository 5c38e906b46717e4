//! What every session of a tab is told before its page runs.

use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::events::FrameTree;
use super::{QUICK, Tab};
use crate::BrowserError;
use crate::cdp::SessionId;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tree {
    frame_tree: FrameTree,
}

impl Tab {
    /// Prepares the page's own session; then the tab is ready.
    pub(crate) async fn set_up(self: Arc<Self>) {
        let (width, height) = self.shared.viewport;
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        let (session, prepared) = (&self.session, async {
            tokio::try_join!(
                self.tell(&self.session, "Emulation.setDeviceMetricsOverride", metrics),
                // A page behind another one draws and has the focus as if it were in front.
                self.tell(&self.session, "Emulation.setFocusEmulationEnabled", json!({"enabled": true})),
            )
        });
        let (common, own) = tokio::join!(self.prepare(session), prepared);
        if let Err(error) = common.and(own.map(|_| ())) {
            tracing::warn!(%error, "a tab could not be prepared");
        }
        self.state.send_modify(|state| state.is_ready = true);
    }

    /// A frame that got a process of its own.
    pub(crate) async fn set_up_frame(self: Arc<Self>, session: SessionId) {
        if let Err(error) = self.prepare(&session).await {
            // Frames come and go; one that went meanwhile is no loss.
            tracing::debug!(%error, "a frame could not be prepared");
        }
    }

    async fn prepare(&self, session: &SessionId) -> Result<(), BrowserError> {
        let attach = json!({
            "autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true,
            "filter": [{"type": "iframe"}, {"exclude": true}],
        });
        // Sent together; Chromium keeps the order, so that the page runs after all of it.
        let (enabled, _, _, _, tree, _) = tokio::try_join!(
            self.tell(session, "Page.enable", json!({})),
            self.tell(session, "Page.setLifecycleEventsEnabled", json!({"enabled": true})),
            self.tell(session, "Network.enable", json!({"maxTotalBufferSize": 0, "maxResourceBufferSize": 0})),
            self.tell(session, "Target.setAutoAttach", attach),
            async {
                Ok(self.shared.connection.call::<Tree>(Some(session), "Page.getFrameTree", json!({}), QUICK).await?)
            },
            self.tell(session, "Runtime.runIfWaitingForDebugger", json!({})),
        )?;
        let IgnoredAny = enabled;
        self.apply_tree(&tree.frame_tree, session);
        Ok(())
    }

    async fn tell(&self, session: &str, method: &'static str, parameters: Value) -> Result<IgnoredAny, BrowserError> {
        Ok(self.shared.connection.call(Some(session), method, parameters, QUICK).await?)
    }
}
