//! Shorthands for indexing and searching in tests.

use agentd_base::Timestamp;
use agentd_search_index::{
    AgentKey, Change, Document, Filter, Index, IndexOptions, Mode, Opened, RowNumber, SearchHits, SearchRequest,
    SourceKey,
};

pub(crate) const DIMENSIONS: usize = 8;

pub(crate) fn options() -> IndexOptions {
    IndexOptions { dimensions: DIMENSIONS, embedding_model: "model-a".to_owned() }
}

pub(crate) fn open(folder: &std::path::Path) -> (Index, Opened) {
    Index::open(folder, options()).unwrap()
}

pub(crate) fn minutes(minutes: i64) -> Timestamp {
    Timestamp::from_micros(minutes * 60_000_000)
}

pub(crate) fn document(row: u64, text: &str) -> Document<'_> {
    Document {
        row: RowNumber(row),
        agent: AgentKey(0),
        source: SourceKey(0),
        occurred_at: minutes(row as i64),
        text,
        vectors: Vec::new(),
    }
}

/// Returns a vector that points mostly along one axis.
pub(crate) fn along(axis: usize, lean: f32) -> Vec<f32> {
    let mut vector = vec![0.0; DIMENSIONS];
    vector[axis % DIMENSIONS] = 1.0;
    vector[(axis + 1) % DIMENSIONS] = lean;
    vector
}

pub(crate) fn add(index: &Index, documents: Vec<Document<'_>>) {
    let changes: Vec<_> = documents.into_iter().map(Change::Add).collect();
    index.apply(&changes).unwrap();
}

pub(crate) fn request<'a>(mode: Mode, text: &'a str, vector: Option<&'a [f32]>) -> SearchRequest<'a> {
    SearchRequest { mode, text, vector, filter: Filter::default(), offset: 0, limit: 10 }
}

pub(crate) fn keyword(index: &Index, text: &str) -> SearchHits {
    index.search(&request(Mode::Keyword, text, None)).unwrap()
}

/// Returns the rows of a page.
pub(crate) fn rows(hits: &SearchHits) -> Vec<u64> {
    hits.hits.iter().map(|hit| hit.row.0).collect()
}

/// Returns the rows of a keyword search, ascending.
pub(crate) fn found(index: &Index, text: &str) -> Vec<u64> {
    let mut rows = rows(&keyword(index, text));
    rows.sort_unstable();
    rows
}
