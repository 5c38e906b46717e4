//! Configuration of every session of a tab before its page runs.

use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::Tab;
use super::events::FrameTree;
use crate::BrowserError;
use crate::cdp::SessionId;
use crate::emulation::Kind;
use crate::shared::COMMAND_TIMEOUT;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tree {
    frame_tree: FrameTree,
}

impl Tab {
    /// Configures the main session and marks the tab as ready.
    pub(crate) async fn set_up(self: Arc<Self>) {
        if let Err(error) = self.configure(&self.session, Kind::Page).await {
            tracing::warn!(%error, "failed to configure tab");
        }
        self.state.send_modify(|state| state.is_ready = true);
    }

    /// Configures the session of an out-of-process frame.
    pub(crate) async fn set_up_frame(self: Arc<Self>, session: SessionId) {
        if let Err(error) = self.configure(&session, Kind::Frame).await {
            // Harmless if the frame disappeared in the meantime.
            tracing::debug!(%error, "failed to configure frame");
        }
    }

    async fn configure(&self, session: &SessionId, kind: Kind) -> Result<(), BrowserError> {
        let attach = json!({
            "autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true,
            "filter": [{"type": "iframe"}, {"type": "worker"}, {"exclude": true}],
        });
        let environment = self.environment.clone().unwrap_or_default();
        let environment = environment.configure_session(&self.shared, session, kind, true);
        let focus = async {
            if kind == Kind::Page {
                // A background page renders and reports focus as if it were in the foreground.
                self.send(session, "Emulation.setFocusEmulationEnabled", json!({"enabled": true})).await?;
            }
            Ok(())
        };
        // The commands are pipelined; Chromium preserves their order, so the page only runs after all of them.
        let ((), (), enabled, _, _, tree, _) = tokio::try_join!(
            environment,
            focus,
            self.send(session, "Page.enable", json!({})),
            self.send(session, "Page.setLifecycleEventsEnabled", json!({"enabled": true})),
            self.send(session, "Target.setAutoAttach", attach),
            async {
                Ok(self
                    .shared
                    .connection
                    .call::<Tree>(Some(session), "Page.getFrameTree", json!({}), COMMAND_TIMEOUT)
                    .await?)
            },
            self.send(session, "Runtime.runIfWaitingForDebugger", json!({})),
        )?;
        let IgnoredAny = enabled;
        self.apply_tree(&tree.frame_tree, session);
        Ok(())
    }

    async fn send(&self, session: &str, method: &'static str, parameters: Value) -> Result<IgnoredAny, BrowserError> {
        Ok(self.shared.connection.call(Some(session), method, parameters, COMMAND_TIMEOUT).await?)
    }
}
