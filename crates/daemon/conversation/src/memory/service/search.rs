//! Searching episodes.

use std::collections::HashMap;
use std::sync::Arc;

use agentd_base::{Page, Timestamp};
use agentd_search_index::{AgentKey, Filter, Highlighter, Index, Mode, SearchRequest};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Memory;
use crate::memory::error::MemoryError;
use crate::memory::follower::{agent_key, source_key};
use crate::memory::model::Episode;
use crate::memory::store::episodes;

/// Maximum number of highlights per episode.
const MAX_HIGHLIGHTS: usize = 3;

/// Ranking method of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(default = SearchMode::default)]
pub enum SearchMode {
    /// Combines keyword and semantic ranking.
    #[default]
    Hybrid,
    Keyword,
    Semantic,
}

#[derive(Debug, Clone)]
pub struct Search {
    pub text: String,
    pub mode: SearchMode,
    pub page: Page,
    /// Inclusive.
    pub from: Option<Timestamp>,
    /// Inclusive.
    pub until: Option<Timestamp>,
    pub source: Option<String>,
    /// Id or `svc_name`.
    pub agent: Option<String>,
    /// Whether to include episodes of no agent, which belong to the owner.
    pub and_of_owner: bool,
}

#[derive(Debug)]
pub struct SearchHit {
    pub episode: Episode,
    /// From 0 to 1.
    pub score: f64,
    pub highlights: Vec<String>,
}

#[derive(Debug)]
pub struct SearchPage {
    pub hits: Vec<SearchHit>,
    pub total: u64,
    /// Whether semantic ranking was unavailable or incomplete.
    pub degraded: bool,
}

impl From<SearchMode> for Mode {
    fn from(mode: SearchMode) -> Self {
        match mode {
            SearchMode::Hybrid => Self::Hybrid,
            SearchMode::Keyword => Self::Keyword,
            SearchMode::Semantic => Self::Semantic,
        }
    }
}

impl Memory {
    /// Searches episodes.
    ///
    /// # Errors
    /// The agent is unknown, `NoEmbedder` for a semantic search, or the index or the database fails.
    pub async fn search(&self, search: &Search) -> Result<SearchPage, MemoryError> {
        let agent = match &search.agent {
            Some(agent) => Some(agent_key(self.agent(agent).await?.as_str())),
            None => None,
        };
        let index = self.follower().current().await?;
        let embed_query = match search.mode {
            SearchMode::Keyword => Ok(None),
            SearchMode::Semantic => Ok(self.embed_query(&index, &search.text, agent).await?),
            SearchMode::Hybrid => self.embed_query(&index, &search.text, agent).await,
        };
        // A query without words has no vector with any model, so it matches nothing semantically.
        let is_without_words = search.mode != SearchMode::Keyword && matches!(embed_query, Ok(None));
        if is_without_words && search.mode == SearchMode::Semantic {
            return Ok(SearchPage { hits: Vec::new(), total: 0, degraded: false });
        }
        let vector = embed_query.unwrap_or_default();
        let source = search.source.as_deref().map(source_key);
        let request = SearchRequest {
            mode: search.mode.into(),
            text: &search.text,
            vector: vector.as_deref(),
            filter: Filter {
                agent,
                and_of_none: search.and_of_owner,
                sources: source.as_slice(),
                from: search.from,
                // The index's end is exclusive.
                until: search.until.map(|until| Timestamp::from_micros(until.as_micros().saturating_add(1))),
                ..Filter::default()
            },
            offset: usize::try_from(search.page.offset).unwrap_or(usize::MAX),
            limit: search.page.limit as usize,
        };
        let searched = self.follower().query(&index, |index| index.search(&request)).await?;
        let score: HashMap<i64, f64> = searched
            .hits
            .iter()
            .map(|hit| (i64::try_from(hit.row.0).unwrap_or(0), f64::from(hit.score).clamp(0.0, 1.0)))
            .collect();
        let numbers: Vec<i64> = searched.hits.iter().map(|hit| i64::try_from(hit.row.0).unwrap_or(0)).collect();
        let found = episodes::episodes_by_number(&mut self.context().db.read().await?, &numbers).await?;
        let mut highlighter = Highlighter::new(&search.text);
        let hits = found
            .into_iter()
            .map(|episode| SearchHit {
                score: score.get(&episode.number).copied().unwrap_or_default(),
                highlights: highlighter.fragments(&episode.content, MAX_HIGHLIGHTS),
                episode,
            })
            .collect();
        Ok(SearchPage { hits, total: searched.total as u64, degraded: searched.degraded && !is_without_words })
    }

    /// Returns the vector of a query; `None` if it contains no words.
    pub(super) async fn embed_query(
        &self,
        index: &Arc<Index>,
        text: &str,
        agent: Option<AgentKey>,
    ) -> Result<Option<Vec<f32>>, MemoryError> {
        let text = self.follower().query(index, |index| index.embedding_query(text, agent)).await?;
        self.embedding().embed_query(&text).await
    }
}
