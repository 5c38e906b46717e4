//! Turns that nobody waits for, each under a permit.

use super::Engine;
use crate::agents::Agent;
use crate::engine::error::EngineError;
use crate::engine::model::SessionId;
use crate::engine::permits::{BackgroundPermit, Permits};
use crate::providers::ModelPreference;

impl Engine {
    /// Waits for a permit at the provider that a turn of `agent` would ask, in turn with other clients.
    ///
    /// # Errors
    /// `Draining`, or why there is no model for it.
    pub async fn background_permit(
        &self,
        client: &str,
        agent: &Agent,
        model: Option<&str>,
    ) -> Result<BackgroundPermit, EngineError> {
        let permits = self.background_permits(agent, model).await?;
        tokio::select! {
            biased;
            () = self.inner().context.draining.cancelled() => Err(EngineError::Draining),
            permit = permits.acquire(client) => Ok(permit),
        }
    }

    /// As [`background_permit`](Self::background_permit), without waiting: `None` when all are taken.
    ///
    /// # Errors
    /// As there.
    pub async fn try_background_permit(
        &self,
        agent: &Agent,
        model: Option<&str>,
    ) -> Result<Option<BackgroundPermit>, EngineError> {
        let permits = self.background_permits(agent, model).await?;
        if self.inner().context.draining.is_cancelled() {
            return Err(EngineError::Draining);
        }
        Ok(permits.try_acquire())
    }

    async fn background_permits(&self, agent: &Agent, model: Option<&str>) -> Result<Permits, EngineError> {
        let inner = self.inner();
        let preference = ModelPreference::parse(model)
            .or(ModelPreference::new(agent.profile.provider.as_deref(), agent.profile.model.as_deref()));
        Ok(inner.background.of(&inner.providers.resolve(preference).await?.provider))
    }

    /// Keeps the permit of a turn that was just started until it lets go.
    pub fn hold_until_let_go(&self, permit: BackgroundPermit, id: SessionId) {
        let engine = self.clone();
        tokio::spawn(async move {
            engine.wait_until_let_go(&id).await;
            drop(permit);
        });
    }

    /// Returns when a turn asks nobody any more in this process: it is over, waits for its owner, or was
    /// never here.
    pub async fn wait_until_let_go(&self, id: &SessionId) {
        if let Some(live) = self.inner().live.find(id) {
            live.ended().await;
        }
    }
}
