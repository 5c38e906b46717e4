//! What goes into the index and what is asked of it.

use agentd_base::Timestamp;

use crate::row_set::{RowNumber, RowSet};

/// The caller's number of an agent; 0: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentKey(pub u64);

/// The caller's number of a source; 0: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceKey(pub u64);

/// One episode. The text itself is not kept, only its terms.
#[derive(Clone, Debug)]
pub struct Document<'a> {
    pub row: RowNumber,
    pub agent: AgentKey,
    pub source: SourceKey,
    pub occurred_at: Timestamp,
    pub text: &'a str,
    /// One a chunk, of any length but zero; empty while there is no embedder.
    pub vectors: Vec<Vec<f32>>,
}

/// What the index knows of a document, for the checker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldDocument {
    pub agent: AgentKey,
    pub source: SourceKey,
    pub occurred_at: Timestamp,
    /// As many as [`crate::analyze`] counts.
    pub words: u32,
}

/// One change. Each is idempotent.
#[derive(Clone, Debug)]
pub enum Change<'a> {
    /// Adds the document, or replaces the one of the same row.
    Add(Document<'a>),
    /// No matter if it is not there.
    Remove(RowNumber),
    /// Replaces the vectors of a row; no matter if it is not there (it was removed meanwhile).
    SetVectors(RowNumber, Vec<Vec<f32>>),
}

/// Which documents count. Applied while scoring, so that `total` and every page are exact.
#[derive(Clone, Copy, Debug, Default)]
pub struct Filter<'a> {
    pub agent: Option<AgentKey>,
    /// Beside those of the agent, those of none.
    pub and_of_none: bool,
    /// One of these; empty: any.
    pub sources: &'a [SourceKey],
    /// Inclusive.
    pub from: Option<Timestamp>,
    /// Exclusive.
    pub until: Option<Timestamp>,
    /// Only these.
    pub rows: Option<&'a RowSet>,
    /// Not these.
    pub exclude: Option<&'a RowSet>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Keyword,
    Semantic,
    /// Both; without a vector the answer is the keyword one and `degraded`.
    Hybrid,
}

#[derive(Clone, Copy, Debug)]
pub struct SearchRequest<'a> {
    pub mode: Mode,
    pub text: &'a str,
    /// The embedding of [`crate::Index::embedding_query`].
    pub vector: Option<&'a [f32]>,
    pub filter: Filter<'a>,
    pub offset: usize,
    pub limit: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hit {
    pub row: RowNumber,
    /// 0 to 1.
    pub score: f32,
}

/// A page. Order: score, then the later `occurred_at`, then the greater row; so pages of one state of the index
/// never overlap and never leave anything out. Where meaning counts, those behind the best 256 stand as the scan of four
/// bits a number found them, and their scores are at most that of the last before them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SearchHits {
    pub hits: Vec<Hit>,
    /// How many documents match, whatever the page.
    pub total: usize,
    /// A hybrid query came without a vector, or no document has one yet: the answer is by words alone.
    pub degraded: bool,
}

/// What is held, for statistics and for the checker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexSize {
    pub documents: usize,
    /// Documents that have at least one vector.
    pub with_vectors: usize,
    pub text_parts: usize,
    pub vector_parts: usize,
}
