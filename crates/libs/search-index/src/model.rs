//! Input and output of the index.

use agentd_base::Timestamp;

use crate::row_set::{RowNumber, RowSet};

/// Caller's number of an agent; 0 for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentKey(pub u64);

/// Caller's number of a source; 0 for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceKey(pub u64);

/// Episode. Only its terms are stored, not the text.
#[derive(Clone, Debug)]
pub struct Document<'a> {
    pub row: RowNumber,
    pub agent: AgentKey,
    pub source: SourceKey,
    pub occurred_at: Timestamp,
    pub text: &'a str,
    /// One vector per chunk, of any length except zero; empty without an embedder.
    pub vectors: Vec<Vec<f32>>,
}

/// Indexed data of a document, for consistency checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexedDocument {
    pub agent: AgentKey,
    pub source: SourceKey,
    pub occurred_at: Timestamp,
    /// Number of words as counted by [`crate::analyze`].
    pub words: u32,
}

/// Idempotent change.
#[derive(Clone, Debug)]
pub enum Change<'a> {
    /// Adds the document, or replaces the one with the same row.
    Add(Document<'a>),
    /// Removes the document if it exists.
    Remove(RowNumber),
    /// Replaces the vectors of a row; ignored if the row does not exist.
    SetVectors(RowNumber, Vec<Vec<f32>>),
}

/// Filter for documents. Applied during scoring, so that `total` and every page are exact.
#[derive(Clone, Copy, Debug, Default)]
pub struct Filter<'a> {
    pub agent: Option<AgentKey>,
    /// Includes documents without an agent, in addition to those of the agent.
    pub and_of_none: bool,
    /// Allowed sources; empty for any.
    pub sources: &'a [SourceKey],
    /// Start, inclusive.
    pub from: Option<Timestamp>,
    /// End, exclusive.
    pub until: Option<Timestamp>,
    /// Allowed rows.
    pub rows: Option<&'a RowSet>,
    /// Excluded rows.
    pub exclude: Option<&'a RowSet>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Keyword,
    Semantic,
    /// Both; without a vector the result is that of keyword search, and `degraded` is set.
    Hybrid,
}

#[derive(Clone, Copy, Debug)]
pub struct SearchRequest<'a> {
    pub mode: Mode,
    pub text: &'a str,
    /// Embedding of [`crate::Index::embedding_query`].
    pub vector: Option<&'a [f32]>,
    pub filter: Filter<'a>,
    pub offset: usize,
    pub limit: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hit {
    pub row: RowNumber,
    /// Score from 0 to 1.
    pub score: f32,
}

/// Page of results, ordered by score, then by later `occurred_at`, then by greater row. Pages of one state of the index
/// never overlap and have no gaps. In semantic modes, results beyond the best 256 keep the approximate score of the
/// scan, limited to the score of the last exact one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SearchHits {
    pub hits: Vec<Hit>,
    /// Number of matching documents, independent of the page.
    pub total: usize,
    /// Whether a hybrid query had no vector, or no document has one yet: the result is based on words only.
    pub degraded: bool,
}

/// Contents of the index, for statistics and consistency checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexSize {
    pub documents: usize,
    /// Number of documents with at least one vector.
    pub with_vectors: usize,
    pub text_parts: usize,
    pub vector_parts: usize,
}
