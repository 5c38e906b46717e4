//! Background turns, each under a permit.

use super::Engine;
use crate::agents::Agent;
use crate::engine::error::EngineError;
use crate::engine::model::SessionId;
use crate::engine::permits::{BackgroundPermit, Permits};
use crate::providers::ModelPreference;

impl Engine {
    /// Waits for a permit of the provider that a turn of `agent` would call; fair among clients.
    ///
    /// # Errors
    /// `Draining`, or the reason why no model is available.
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

    /// Variant of [`background_permit`](Self::background_permit) that does not wait: `None` if all permits are taken.
    ///
    /// # Errors
    /// See [`background_permit`](Self::background_permit).
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

    /// Holds the permit of a turn that was just started until the turn no longer runs in this process.
    pub fn hold_until_released(&self, permit: BackgroundPermit, id: SessionId) {
        let engine = self.clone();
        tokio::spawn(async move {
            engine.wait_until_released(&id).await;
            drop(permit);
        });
    }

    /// Resolves when a turn no longer runs in this process: it has ended, is parked, or never ran here.
    pub async fn wait_until_released(&self, id: &SessionId) {
        if let Some(live) = self.inner().live.find(id) {
            live.ended().await;
        }
    }
}
