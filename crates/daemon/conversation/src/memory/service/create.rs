//! Storing episodes.

use agentd_entities::FactKey;
use agentd_store::{NewEvent, Recorder, StoreError, Tx};
use serde_json::json;

use super::Memory;
use crate::memory::embedding::{Embedded, TAGGER_VERSION};
use crate::memory::error::MemoryError;
use crate::memory::follower::MEMORY;
use crate::memory::model::{CreateEpisode, Episode, EpisodeId, Millionths, NewEpisode};
use crate::memory::settings::EntityExtraction;
use crate::memory::store::counts::CountChanges;
use crate::memory::store::entities::ExtractedEntities;
use crate::memory::store::{entities, episodes, facts};

/// Default source of an episode.
const DEFAULT_SOURCE: &str = "manual";

/// Request of another domain to store an episode once.
#[derive(Debug, Clone)]
pub struct Remember {
    /// Id or `svc_name` of the agent; `None` for an episode of no agent.
    pub agent: Option<String>,
    pub content: String,
    pub source: String,
    /// Identifies what the episode is derived from.
    pub origin: String,
    /// Whether it was derived from untrusted text.
    pub is_untrusted: bool,
    /// Estimated from the text if `None`.
    pub importance: Option<f64>,
    pub topics: Vec<String>,
}

/// Episode that is ready to be written.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) episode: Episode,
    origin: Option<String>,
    embedded: Option<Embedded>,
    found: Option<ExtractedEntities>,
    facts: Vec<FactKey>,
}

impl Memory {
    /// Stores an episode. When it returns, every search finds the episode.
    ///
    /// # Errors
    /// `Invalid` with all invalid fields, `Disabled`, the agent is unknown, or the database fails. Nothing is stored
    /// then.
    pub async fn create(&self, wanted: CreateEpisode, recorder: Recorder<Episode>) -> Result<Episode, MemoryError> {
        let new = self.validate_request(wanted).await?;
        let record = async move |tx: &mut Tx, stored: Option<&Episode>| {
            if let Some(episode) = stored {
                recorder.record(tx, episode).await?;
            }
            Ok(())
        };
        // Only an episode with an origin can exist already.
        self.store(new, record).await?.ok_or_else(|| StoreError::Contended.into())
    }

    /// Stores an episode of an origin at most once. `also` runs in the same transaction and gets the episode's id.
    ///
    /// # Errors
    /// `Invalid` with all invalid fields, `Disabled`, the agent is unknown, `also` fails, or the database fails.
    /// Nothing is stored then.
    pub async fn remember_once<F>(&self, wanted: Remember, also: F) -> Result<(), MemoryError>
    where
        F: AsyncFn(&mut Tx, &str) -> Result<(), MemoryError> + Send + Sync + 'static,
    {
        let origin = wanted.origin;
        let episode = NewEpisode {
            content: wanted.content,
            source: Some(wanted.source),
            origin: Some(origin.clone()),
            topics: wanted.topics,
            is_untrusted: wanted.is_untrusted,
            importance: wanted.importance,
            ..NewEpisode::default()
        };
        let new = self.validate_request(CreateEpisode { agent: wanted.agent, episode, occurred_at: None }).await?;
        let also = async move |tx: &mut Tx, stored: Option<&Episode>| match stored {
            Some(episode) => also(tx, episode.id.as_str()).await,
            None => match episodes::find_by_origin(tx, &origin).await? {
                Some(earlier) => also(tx, earlier.id.as_str()).await,
                None => Err(StoreError::Contended.into()),
            },
        };
        self.store(new, also).await.map(|_| ())
    }

    /// Validates a request and resolves its agent.
    async fn validate_request(&self, wanted: CreateEpisode) -> Result<NewEpisode, MemoryError> {
        if !self.rules().enabled {
            return Err(MemoryError::Disabled);
        }
        let agent = wanted.agent.clone();
        let mut new = wanted.checked().map_err(MemoryError::Invalid)?;
        if let Some(agent) = agent {
            new.agent_id = Some(self.agent(&agent).await?);
        }
        Ok(new)
    }

    /// Stores an episode unless one of the same origin exists; `also` runs in the same transaction.
    async fn store<F>(&self, new: NewEpisode, also: F) -> Result<Option<Episode>, MemoryError>
    where
        F: AsyncFn(&mut Tx, Option<&Episode>) -> Result<(), MemoryError> + Send + 'static,
    {
        // Runs before the transaction because it is slow.
        let embedded = self.embedding().embed_text(&new.content).await;
        let model = embedded.as_ref().map(|embedded| embedded.model.clone());
        let prepared = self.prepare(new, embedded);
        let memory = self.clone();
        let stored = self.context().db.write(async move |tx: &mut Tx| {
            let stored = memory.insert(tx, &prepared).await?;
            also(tx, stored.as_ref()).await?;
            Ok::<_, MemoryError>(stored)
        });
        let stored = stored.await?;
        if stored.is_some() {
            if let Some(model) = model
                && let Err(error) = self.follower().ensure_model(&model).await
            {
                tracing::warn!(%error, "failed to switch memory search index to the current model; retrying later");
            }
            self.sync_index().await;
        }
        Ok(stored)
    }

    /// Computes everything that needs no transaction.
    pub(crate) fn prepare(&self, new: NewEpisode, embedded: Option<Embedded>) -> Prepared {
        if embedded.is_none() {
            self.embed_wake().notify_one();
        }
        let now = self.context().clock.now();
        let evaluated =
            (new.importance.is_none() || new.valence.is_none()).then(|| agentd_entities::evaluate(&new.content));
        let share =
            |given: Option<f64>, evaluated: Option<f64>| Millionths::of(given.or(evaluated).unwrap_or_default());
        // Without a tagger, entities are extracted when the text is embedded, or by a model.
        let found = match self.rules().entity_extraction {
            EntityExtraction::Off => None,
            EntityExtraction::Rules | EntityExtraction::Llm => {
                embedded.as_ref().and_then(|embedded| embedded.find_entities(&new.content))
            }
        };
        let names = embedded.as_ref().and_then(|embedded| embedded.names.as_deref());
        let facts = match &new.agent_id {
            Some(_) => agentd_entities::fact_keys(&new.content, names.unwrap_or_default(), None),
            None => Vec::new(),
        };
        let episode = Episode {
            number: 0,
            id: EpisodeId::generate(&self.context().ids),
            agent_id: new.agent_id,
            source: new.source.unwrap_or_else(|| DEFAULT_SOURCE.to_owned()),
            importance: share(new.importance, evaluated.as_ref().map(|evaluated| evaluated.importance)),
            valence: share(new.valence, evaluated.as_ref().map(|evaluated| evaluated.valence)),
            content: new.content,
            summary: new.summary,
            topics: new.topics,
            access_count: 0,
            superseded_by: None,
            is_untrusted: new.is_untrusted,
            occurred_at: new.occurred_at.unwrap_or(now),
            created_at: now,
            updated_at: now,
            entities: Vec::new(),
        };
        Prepared { episode, origin: new.origin, embedded, found, facts }
    }

    /// Writes the episode with its dependent rows; returns `None` if one of the same origin exists.
    pub(crate) async fn insert(&self, tx: &mut Tx, prepared: &Prepared) -> Result<Option<Episode>, MemoryError> {
        let mut episode = prepared.episode.clone();
        if let Some(agent) = &episode.agent_id
            && !self.0.agents.is_alive(tx, agent).await?
        {
            let name = agent.to_string();
            return Err(MemoryError::Agent(agentd_engine::agents::AgentError::NotFound { name }));
        }
        // Written last, because all transactions change the same few counters.
        let mut counts = CountChanges::default();
        if !episodes::insert_episode(tx, &mut episode, prepared.origin.as_deref(), &mut counts).await? {
            return Ok(None);
        }
        if let Some(Embedded { model, vectors, .. }) = &prepared.embedded {
            episodes::replace_vectors(tx, episode.number, model, vectors).await?;
        }
        if let Some(found) = &prepared.found {
            episode.entities =
                entities::insert_entities(tx, episode.number, TAGGER_VERSION, found, &mut counts).await?;
        }
        facts::insert_facts(tx, &mut episode, &prepared.facts).await?;
        counts.write(tx).await?;
        tx.emit(stored_event(&episode)).await?;
        tx.touch(MEMORY);
        Ok(Some(episode))
    }

    /// Brings the index up to date and wakes the extraction worker, if a model extracts entities. The next search makes
    /// up for a failure.
    pub(crate) async fn sync_index(&self) {
        if self.rules().entity_extraction == EntityExtraction::Llm {
            self.extract_wake().notify_one();
        }
        if let Err(error) = self.follower().current().await {
            tracing::warn!(%error, "failed to update memory search index; retrying later");
        }
    }
}

fn stored_event(episode: &Episode) -> NewEvent {
    let data = json!({
        "episode_id": episode.id,
        "agent_id": episode.agent_id,
        "source": episode.source,
        "importance": episode.importance.as_f64(),
        "topics": episode.topics,
    });
    let event = NewEvent::new("memory.stored", data);
    match &episode.agent_id {
        Some(agent) => event.for_agent(agent.as_str()),
        None => event,
    }
}
