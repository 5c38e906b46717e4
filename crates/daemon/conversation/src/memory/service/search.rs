//! Finding.

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

/// Of each episode that is found.
const HIGHLIGHTS: usize = 3;

/// What episodes are ranked by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(default = SearchMode::default)]
pub enum SearchMode {
    /// Words and meaning.
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
    /// The id or the `svc_name`.
    pub agent: Option<String>,
    /// Beside those of the agent, those of none, which are the owner's.
    pub and_of_owner: bool,
}

#[derive(Debug)]
pub struct SearchHit {
    pub episode: Episode,
    /// 0 to 1.
    pub score: f64,
    pub highlights: Vec<String>,
}

#[derive(Debug)]
pub struct Found {
    pub hits: Vec<SearchHit>,
    pub total: u64,
    /// Meanings could not be compared, or not all of them.
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
    /// # Errors
    /// An unknown agent, `NoEmbedder` for a search by meaning alone, the index's failure, or the
    /// store's refusal.
    pub async fn search(&self, search: &Search) -> Result<Found, MemoryError> {
        let agent = match &search.agent {
            Some(agent) => Some(agent_key(self.agent(agent).await?.as_str())),
            None => None,
        };
        let index = self.follower().current().await?;
        let meaning = match search.mode {
            SearchMode::Keyword => Ok(None),
            SearchMode::Semantic => Ok(self.meaning(&index, &search.text, agent).await?),
            SearchMode::Hybrid => self.meaning(&index, &search.text, agent).await,
        };
        // A query without a word means nothing, whatever model is there: nothing is near to it.
        let is_without_words = search.mode != SearchMode::Keyword && matches!(meaning, Ok(None));
        if is_without_words && search.mode == SearchMode::Semantic {
            return Ok(Found { hits: Vec::new(), total: 0, degraded: false });
        }
        let vector = meaning.unwrap_or_default();
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
        let searched = self.follower().ask(&index, |index| index.search(&request)).await?;
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
                highlights: highlighter.fragments(&episode.content, HIGHLIGHTS),
                episode,
            })
            .collect();
        Ok(Found { hits, total: searched.total as u64, degraded: searched.degraded && !is_without_words })
    }

    /// The vector of what is asked, as far as it means something.
    pub(super) async fn meaning(
        &self,
        index: &Arc<Index>,
        text: &str,
        agent: Option<AgentKey>,
    ) -> Result<Option<Vec<f32>>, MemoryError> {
        let text = self.follower().ask(index, |index| index.embedding_query(text, agent)).await?;
        self.embedding().query(&text).await
    }
}
