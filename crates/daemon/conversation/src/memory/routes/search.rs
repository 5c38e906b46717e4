//! Handler for searches.

use agentd_base::{Edge, FieldProblem, Page, PageLimits, Problems, Timestamp};
use agentd_web::{Answer, ApiError, ErrorBody, Json, Query, Validate, Validated};
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::views::EpisodeView;
use crate::memory::service::SearchHit;
use crate::memory::service::{Memory, Search, SearchMode};

const LIMITS: PageLimits = PageLimits { default: 10, maximum: 100 };

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct SearchQuery {
    /// Search text: plain words in any order, without operators.
    #[param(min_length = 1)]
    q: String,
    /// Ranking method: `hybrid`, `keyword` or `semantic`.
    #[param(inline)]
    mode: Option<SearchMode>,
    /// Maximum number of results to return.
    #[param(minimum = 1, maximum = 100, default = json!(LIMITS.default))]
    limit: Option<i64>,
    /// Number of results to skip, counted from the best.
    #[param(minimum = 0, default = 0)]
    offset: Option<i64>,
    /// Only episodes that happened at or after this ISO 8601 date or time; UTC unless it has an offset.
    start_date: Option<String>,
    /// Only episodes that happened at or before this ISO 8601 time, or on or before this date. Must not be before
    /// `start_date`.
    end_date: Option<String>,
    /// Only episodes with exactly this `source`, such as `manual` or `conversation`.
    source: Option<String>,
    /// Only episodes of this agent (id or svc_name).
    agent_id: Option<String>,
}

impl SearchQuery {
    fn checked(self) -> Result<Search, Vec<FieldProblem>> {
        let mut problems = Problems::new();
        let page = Page::checked(self.limit, self.offset, LIMITS, &mut problems);
        problems.require(!self.q.trim().is_empty(), "q", "must not be blank");
        let from = Timestamp::read_field("start_date", self.start_date.as_deref(), Edge::First, &mut problems);
        let until = Timestamp::read_field("end_date", self.end_date.as_deref(), Edge::Last, &mut problems);
        if let (Some(from), Some(until)) = (from, until) {
            problems.require(from <= until, "end_date", "must not be before start_date");
        }
        problems.into_result()?;
        let mode = self.mode.unwrap_or_default();
        Ok(Search {
            text: self.q,
            mode,
            page,
            from,
            until,
            source: self.source,
            agent: self.agent_id,
            and_of_owner: false,
        })
    }
}

impl Validate<Memory> for SearchQuery {
    async fn validate(self, _: &Memory) -> Vec<FieldProblem> {
        self.checked().err().unwrap_or_default()
    }
}

/// Episode that matches a search.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SearchResult {
    episode: EpisodeView,
    /// Score from 0 to 1; comparable only within one response.
    score: f64,
    /// Origin of the episode, same as `episode.source`.
    source: String,
    /// Up to 3 excerpts of the content with matches in `<mark>`; everything else is HTML-escaped.
    highlights: Vec<String>,
}

/// Page of search results.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SearchAnswer {
    /// Search text of the request.
    query: String,
    #[schema(inline)]
    mode: SearchMode,
    /// Page size that was applied.
    limit: u32,
    /// Number of skipped results.
    offset: u64,
    /// Results of this page, the best first.
    results: Vec<SearchResult>,
    /// Number of matching episodes on all pages.
    total: u64,
    /// Whether semantic ranking was unavailable or incomplete, because the embedding model is missing or some episodes
    /// are not embedded yet.
    degraded: bool,
}

impl From<SearchHit> for SearchResult {
    fn from(hit: SearchHit) -> Self {
        Self {
            score: hit.score,
            source: hit.episode.source.clone(),
            highlights: hit.highlights,
            episode: EpisodeView::from(&hit.episode),
        }
    }
}

/// Search memory
///
/// `keyword` ranks by words (BM25, stemmed and folded), `semantic` by meaning, and `hybrid` by both. Ties are ordered
/// by date, newest first.
#[utoipa::path(
    get, path = "/api/memory/search", tag = "memory", params(SearchQuery),
    responses(
        (status = 200, body = SearchAnswer),
        (status = 404, body = ErrorBody, description = "Agent not found"),
        (status = 503, body = ErrorBody, description = "Semantic search needs an embedding model"),
    ),
)]
pub(super) async fn search_memory(
    State(memory): State<Memory>,
    Validated(Query(query)): Validated<Query<SearchQuery>>,
) -> Answer<SearchAnswer> {
    let search = query.checked().map_err(ApiError::invalid)?;
    let (mode, page) = (search.mode, search.page);
    let found = memory.search(&search).await?;
    Ok(Json(SearchAnswer {
        query: search.text,
        mode,
        limit: page.limit,
        offset: page.offset,
        results: found.hits.into_iter().map(SearchResult::from).collect(),
        total: found.total,
        degraded: found.degraded,
    }))
}
