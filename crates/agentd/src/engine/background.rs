//! Places for turns that nobody waits for: a bounded number of them asks one provider at once, so that a
//! thousand jobs of the same second neither run into its rate limit nor keep a person's chat waiting.
//!
//! A place belongs to this process. Whoever takes one before it starts a turn holds it until the turn is
//! over or waits for its owner.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::error::EngineError;
use super::model::SessionId;
use super::service::Engine;
use crate::agents::Agent;
use crate::providers::{LOCAL, ModelWish};

/// Turns at once that ask one vendor.
const OF_A_VENDOR: usize = 8;
/// The model inside answers one question after the other.
const OF_THE_MODEL_INSIDE: usize = 1;

/// Bounded by the number of providers.
#[derive(Debug, Default)]
pub(super) struct BackgroundPlaces(Mutex<HashMap<String, Arc<Semaphore>>>);

impl BackgroundPlaces {
    fn of(&self, provider: &str) -> Arc<Semaphore> {
        let mut places = self.0.lock();
        let places = places.entry(provider.to_owned()).or_insert_with(|| {
            let count = if provider == LOCAL { OF_THE_MODEL_INSIDE } else { OF_A_VENDOR };
            Arc::new(Semaphore::new(count))
        });
        Arc::clone(places)
    }
}

/// A place among the turns of a provider; free again when dropped.
#[derive(Debug)]
pub struct BackgroundPlace(#[allow(dead_code, reason = "held, not read")] OwnedSemaphorePermit);

impl Engine {
    /// Waits for a place at the provider that a turn of `agent` would ask.
    ///
    /// # Errors
    /// `Draining`, or why there is no model for it.
    pub async fn background_place(&self, agent: &Agent, model: Option<&str>) -> Result<BackgroundPlace, EngineError> {
        let places = self.background_places(agent, model).await?;
        tokio::select! {
            biased;
            () = self.inner().ground.draining.cancelled() => Err(EngineError::Draining),
            place = places.acquire_owned() => place.map(BackgroundPlace).map_err(|_| EngineError::Draining),
        }
    }

    /// As [`background_place`](Self::background_place), without waiting: `None` when all are taken.
    ///
    /// # Errors
    /// As there.
    pub async fn try_background_place(
        &self,
        agent: &Agent,
        model: Option<&str>,
    ) -> Result<Option<BackgroundPlace>, EngineError> {
        let places = self.background_places(agent, model).await?;
        if self.inner().ground.draining.is_cancelled() {
            return Err(EngineError::Draining);
        }
        Ok(places.try_acquire_owned().ok().map(BackgroundPlace))
    }

    async fn background_places(&self, agent: &Agent, model: Option<&str>) -> Result<Arc<Semaphore>, EngineError> {
        let inner = self.inner();
        let wish = ModelWish::parse(model)
            .or(ModelWish::new(agent.profile.provider.as_deref(), agent.profile.model.as_deref()));
        Ok(inner.background.of(&inner.providers.resolve(wish).await?.provider))
    }

    /// Keeps the place of a turn that was just started until it lets go.
    pub fn hold_until_let_go(&self, place: BackgroundPlace, id: SessionId) {
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
