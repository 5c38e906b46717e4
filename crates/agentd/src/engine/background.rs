//! Permits for turns that nobody waits for: a bounded number of them asks one provider at once, so that a
//! thousand jobs of the same second neither run into its rate limit nor keep a person's chat waiting.
//!
//! A permit belongs to this process. Whoever takes one before it starts a turn holds it until the turn is
//! over or waits for its owner.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::error::EngineError;
use super::model::SessionId;
use super::service::Engine;
use crate::agents::Agent;
use crate::providers::{LOCAL, ModelPreference};

/// Turns at once that ask one vendor.
const OF_A_VENDOR: usize = 8;
/// The model inside answers one question after the other.
const OF_THE_MODEL_INSIDE: usize = 1;

/// Bounded by the number of providers.
#[derive(Debug, Default)]
pub(super) struct BackgroundPermits(Mutex<HashMap<String, Arc<Semaphore>>>);

impl BackgroundPermits {
    fn of(&self, provider: &str) -> Arc<Semaphore> {
        let mut places = self.0.lock();
        let places = places.entry(provider.to_owned()).or_insert_with(|| {
            let count = if provider == LOCAL { OF_THE_MODEL_INSIDE } else { OF_A_VENDOR };
            Arc::new(Semaphore::new(count))
        });
        Arc::clone(places)
    }
}

/// A permit to ask a provider; given back when dropped.
#[derive(Debug)]
pub struct BackgroundPermit(#[allow(dead_code, reason = "held, not read")] OwnedSemaphorePermit);

impl Engine {
    /// Waits for a permit at the provider that a turn of `agent` would ask.
    ///
    /// # Errors
    /// `Draining`, or why there is no model for it.
    pub async fn background_permit(&self, agent: &Agent, model: Option<&str>) -> Result<BackgroundPermit, EngineError> {
        let places = self.background_permits(agent, model).await?;
        tokio::select! {
            biased;
            () = self.inner().context.draining.cancelled() => Err(EngineError::Draining),
            place = places.acquire_owned() => place.map(BackgroundPermit).map_err(|_| EngineError::Draining),
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
        let places = self.background_permits(agent, model).await?;
        if self.inner().context.draining.is_cancelled() {
            return Err(EngineError::Draining);
        }
        Ok(places.try_acquire_owned().ok().map(BackgroundPermit))
    }

    async fn background_permits(&self, agent: &Agent, model: Option<&str>) -> Result<Arc<Semaphore>, EngineError> {
        let inner = self.inner();
        let preference = ModelPreference::parse(model)
            .or(ModelPreference::new(agent.profile.provider.as_deref(), agent.profile.model.as_deref()));
        Ok(inner.background.of(&inner.providers.resolve(preference).await?.provider))
    }

    /// Keeps the place of a turn that was just started until it lets go.
    pub fn hold_until_let_go(&self, place: BackgroundPermit, id: SessionId) {
        let engine = self.clone();
        tokio::spawn(async move {
            engine.wait_until_let_go(&id).await;
            drop(place);
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
