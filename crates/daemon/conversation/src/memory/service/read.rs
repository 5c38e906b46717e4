//! Reading episodes, the entity graph and statistics.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use agentd_base::Page;
use agentd_search_index::{Filter, IndexError};
use futures_util::Stream;
use parking_lot::Mutex;

use super::Memory;
use crate::memory::error::MemoryError;
use crate::memory::follower::{agent_key, row_number};
use crate::memory::model::{Entity, Episode, EpisodeId};
use crate::memory::settings::EntityExtraction;
use crate::memory::store::counts::{Figure, count_episodes, figures};
use crate::memory::store::entities::{Relation, RelationPlace};
use crate::memory::store::{entities, episodes};

/// Number of episodes per page of an export.
const EXPORT_PAGE_SIZE: u32 = 200;
/// Number of entities or relations per page of the complete graph.
const GRAPH_PAGE_SIZE: u32 = 1_000;
/// Average number of relations per entity in a graph.
const RELATIONS_PER_ENTITY: u32 = 4;
/// Number of candidates from each source; equals the maximum page size.
const RELATED_CANDIDATES: u32 = 100;

/// Filter of an episode list.
#[derive(Debug, Clone, Default)]
pub struct EpisodeFilter {
    /// Id or `svc_name`.
    pub agent: Option<String>,
    pub cluster: Option<String>,
}

/// Episode related to another one.
#[derive(Debug)]
pub struct Related {
    pub episode: Episode,
    /// From 0 to 1.
    pub score: f64,
    /// Names of the shared entities.
    pub shared_entities: Vec<String>,
}

#[derive(Debug)]
pub struct Graph {
    pub entities: Vec<Entity>,
    pub relations: Vec<Relation>,
    pub total_entities: u64,
    pub total_relations: u64,
}

/// Exact counts, independent of the amount of data.
#[derive(Debug, Default)]
pub struct Statistics {
    pub episodes: u64,
    pub relations: u64,
    pub average_importance: f64,
    pub average_valence: f64,
    /// Number of episodes per tenth of importance.
    pub importance: [u64; 10],
    pub sources: BTreeMap<String, u64>,
    pub entities_of_type: BTreeMap<String, u64>,
    pub recalled: u64,
    pub used: u64,
}

impl Memory {
    /// Returns an episode.
    ///
    /// # Errors
    /// `NotFound`, or the database fails.
    pub async fn get(&self, id: &str) -> Result<Episode, MemoryError> {
        let found = episodes::find_episode(&mut self.context().db.read().await?, &EpisodeId::from(id)).await?;
        found.ok_or_else(|| MemoryError::NotFound { id: id.to_owned() })
    }

    /// Returns a page of episodes, newest first, and their total number.
    ///
    /// # Errors
    /// The agent or cluster is unknown, or the database fails.
    pub async fn list(&self, filter: EpisodeFilter, page: Page) -> Result<(Vec<Episode>, u64), MemoryError> {
        let agent = match &filter.agent {
            Some(agent) => Some(self.agent(agent).await?),
            None => None,
        };
        if let Some(cluster) = &filter.cluster {
            return self.list_cluster(cluster, agent.as_ref(), page).await;
        }
        let agent = agent.as_ref().map(agentd_engine::agents::AgentId::as_str);
        let mut read = self.context().db.read_snapshot().await?;
        let total = count_episodes(&mut read, agent).await?;
        Ok((episodes::list_episodes(&mut read, agent, page).await?, total))
    }

    /// Returns episodes of the same agent that have a similar meaning or mention the same entities.
    ///
    /// # Errors
    /// `NotFound`, or the index or the database fails.
    pub async fn related(&self, id: &str, limit: u32) -> Result<Vec<Related>, MemoryError> {
        let episode = self.get(id).await?;
        let index = self.follower().current().await?;
        let agent = episode.agent_id.as_ref().map(|agent| agent_key(agent.as_str())).unwrap_or_default();
        let row = row_number(episode.number);
        let near = self.follower().query(&index, |index| {
            let filter = Filter { agent: Some(agent), ..Default::default() };
            index.similar(row, &filter, RELATED_CANDIDATES as usize)
        });
        let near = match near.await {
            // Deleted meanwhile.
            Err(MemoryError::Index(IndexError::UnknownRow(_))) => {
                return Err(MemoryError::NotFound { id: id.to_owned() });
            }
            near => near?,
        };
        let mut read = self.context().db.read().await?;
        let sharing = entities::sharing_entities(&mut read, episode.number, RELATED_CANDIDATES).await?;
        // Similarity and the share of common entities have equal weight.
        let entity_count = episode.entities.len().max(1);
        let mut scores: HashMap<i64, f64> = HashMap::new();
        for hit in near {
            let number = i64::try_from(hit.row.0).unwrap_or(0);
            *scores.entry(number).or_default() += 0.5 * f64::from(hit.score);
        }
        #[allow(clippy::cast_precision_loss, reason = "small counts")]
        for (number, shared) in sharing {
            *scores.entry(number).or_default() += 0.5 * (shared as f64 / entity_count as f64).min(1.0);
        }
        let mut ranked: Vec<(i64, f64)> = scores.into_iter().collect();
        ranked.sort_by(|one, other| other.1.total_cmp(&one.1).then(other.0.cmp(&one.0)));
        let numbers: Vec<i64> = ranked.iter().map(|(number, _)| *number).collect();
        let found = episodes::episodes_by_number(&mut read, &numbers).await?;
        let score: HashMap<i64, f64> = ranked.into_iter().collect();
        let related = found.into_iter().filter(|other| other.agent_id == episode.agent_id).take(limit as usize);
        let shared = |other: &Episode| {
            let is_mine = |entity: &&Entity| episode.entities.iter().any(|own| own.number == entity.number);
            other.entities.iter().filter(is_mine).map(|entity| entity.name.clone()).collect()
        };
        Ok(related
            .map(|other| Related {
                score: score.get(&other.number).copied().unwrap_or_default(),
                shared_entities: shared(&other),
                episode: other,
            })
            .collect())
    }

    /// Returns the most mentioned entities and the heaviest relations among them.
    ///
    /// # Errors
    /// The database fails.
    pub async fn graph(&self, limit: u32) -> Result<Graph, MemoryError> {
        let mut read = self.context().db.read_snapshot().await?;
        let (entities, relations) =
            entities::graph(&mut read, limit, limit.saturating_mul(RELATIONS_PER_ENTITY)).await?;
        let figures = figures(&mut read).await?;
        Ok(Graph {
            entities,
            relations,
            total_entities: count(figures.get(Figure::EntitiesOfType)),
            total_relations: count(figures.get(Figure::Relations)),
        })
    }

    /// Streams all entities, oldest first, and then all relations among them, in pages. Relations of entities created
    /// meanwhile are skipped.
    pub fn whole_graph(
        &self,
    ) -> (
        impl Stream<Item = Result<Vec<Entity>, MemoryError>> + Send + use<>,
        impl Stream<Item = Result<Vec<Relation>, MemoryError>> + Send + use<>,
    ) {
        // In ascending order.
        let shown: Arc<Mutex<Vec<i64>>> = Arc::default();
        let (memory, collected) = (self.clone(), Arc::clone(&shown));
        let entities = futures_util::stream::try_unfold(0, move |after| {
            let (memory, collected) = (memory.clone(), Arc::clone(&collected));
            async move {
                let mut read = memory.context().db.read().await?;
                let page = entities::entities_after(&mut read, after, GRAPH_PAGE_SIZE).await?;
                collected.lock().extend(page.iter().map(|entity| entity.number));
                Ok(page.last().map(|last| last.number).map(|last| (page, last)))
            }
        });
        let memory = self.clone();
        let relations = futures_util::stream::try_unfold(RelationPlace::default(), move |after| {
            let (memory, shown) = (memory.clone(), Arc::clone(&shown));
            async move {
                let mut read = memory.context().db.read().await?;
                let mut page = entities::relations_after(&mut read, &after, GRAPH_PAGE_SIZE).await?;
                let Some(last) = page.last().map(|(place, _)| place.clone()) else { return Ok(None) };
                let shown = shown.lock();
                let is_shown = |number: &i64| shown.binary_search(number).is_ok();
                page.retain(|(place, _)| is_shown(&place.source) && is_shown(&place.target));
                Ok(Some((page.into_iter().map(|(_, relation)| relation).collect(), last)))
            }
        });
        (entities, relations)
    }

    /// Returns why no entities are extracted from new episodes; `None` if they are.
    pub async fn entity_extraction_problem(&self) -> Option<String> {
        match self.rules().entity_extraction {
            EntityExtraction::Off => Some(MemoryError::ExtractionOff.to_string()),
            EntityExtraction::Llm => None,
            EntityExtraction::Rules => {
                let reason = self.embedding().tagger_problem().await?;
                Some(MemoryError::NoTagger { reason }.to_string())
            }
        }
    }

    /// Returns statistics about all episodes.
    ///
    /// # Errors
    /// The database fails.
    pub async fn statistics(&self) -> Result<Statistics, MemoryError> {
        let figures = figures(&mut self.context().db.read().await?).await?;
        let episodes = count(figures.get(Figure::Episodes));
        let named = |figure| figures.by_name(figure).map(|(name, amount)| (name.to_owned(), count(amount))).collect();
        let mut importance = [0; 10];
        for (bucket, amount) in figures.by_name(Figure::EpisodesOfImportance) {
            if let Some(part) = bucket.parse().ok().and_then(|bucket: usize| importance.get_mut(bucket)) {
                *part = count(amount);
            }
        }
        Ok(Statistics {
            episodes,
            relations: count(figures.get(Figure::Relations)),
            average_importance: average(figures.get(Figure::ImportanceSum), episodes),
            average_valence: average(figures.get(Figure::ValenceSum), episodes),
            importance,
            sources: named(Figure::EpisodesOfSource),
            entities_of_type: named(Figure::EntitiesOfType),
            recalled: count(figures.get(Figure::Recalled)),
            used: count(figures.get(Figure::RecalledAndUsed)),
        })
    }

    /// Streams all episodes in pages, oldest first.
    pub fn export(&self) -> impl Stream<Item = Result<Vec<Episode>, MemoryError>> + Send + use<> {
        let memory = self.clone();
        futures_util::stream::try_unfold(Some(0), move |after| {
            let memory = memory.clone();
            async move {
                let Some(after) = after else { return Ok(None) };
                let mut read = memory.context().db.read().await?;
                let page = episodes::episodes_after(&mut read, after, EXPORT_PAGE_SIZE).await?;
                let next = page.last().map(|last| last.number);
                Ok(next.map(|next| (page, Some(next))))
            }
        })
    }
}

/// Converts a counter, which is never negative.
fn count(amount: i64) -> u64 {
    u64::try_from(amount).unwrap_or(0)
}

#[allow(clippy::cast_precision_loss, reason = "an average")]
fn average(millionths: i64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { millionths as f64 / 1e6 / of as f64 }
}
