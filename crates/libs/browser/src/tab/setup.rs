//! What every session of a tab is told before its page runs.

use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::Tab;
use super::events::FrameTree;
use crate::BrowserError;
use crate::cdp::SessionId;
use crate::emulation::Kind;
use crate::shared::QUICK;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tree {
    frame_tree: FrameTree,
}

impl Tab {
    /// Prepares the page's own session; then the tab is ready.
    pub(crate) async fn set_up(self: Arc<Self>) {
        if let Err(error) = self.prepare(&self.session, Kind::Page).await {
            tracing::warn!(%error, "a tab could not be prepared");
        }
        self.state.send_modify(|state| state.is_ready = true);
    }

    /// A frame that got a process of its own.
    pub(crate) async fn set_up_frame(self: Arc<Self>, session: SessionId) {
        if let Err(error) = self.prepare(&session, Kind::Frame).await {
            // Frames come and go; one that went meanwhile is no loss.
            tracing::debug!(%error, "a frame could not be prepared");
        }
    }

    async fn prepare(&self, session: &SessionId, kind: Kind) -> Result<(), BrowserError> {
        let attach = json!({
            "autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true,
            "filter": [{"type": "iframe"}, {"type": "worker"}, {"exclude": true}],
        });
        let environment = self.environment.clone().unwrap_or_default();
        let environment = environment.tell(&self.shared, session, kind, true);
        let focus = async {
            if kind == Kind::Page {
                // A page behind another one draws and has the focus as if it were in front.
                self.tell(session, "Emulation.setFocusEmulationEnabled", json!({"enabled": true})).await?;
            }
            Ok(())
        };
        // Sent together; Chromium keeps the order, so that the page runs after all of it.
        let ((), (), enabled, _, _, tree, _) = tokio::try_join!(
            environment,
            focus,
            self.tell(session, "Page.enable", json!({})),
            self.tell(session, "Page.setLifecycleEventsEnabled", json!({"enabled": true})),
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
