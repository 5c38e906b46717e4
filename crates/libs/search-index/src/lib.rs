//! Search index for memory: words and vectors of episodes with common numbering, filtered during scoring and ranked
//! together.
//!
//! Invariants:
//! - A change is visible to every search that begins after [`Index::apply`] returned; it does not wait for a commit.
//! - Filters, `total` and pages are consistent: a vector that the scan considers near enough matches with every filter
//!   and on every page.
//! - The folder opens in the state of a flush, however the process ended. Files that differ from what was written are
//!   never used: the index is then empty and reports the reason. The rows are authoritative; the index can always be
//!   rebuilt.
//! - A deleted document is no longer found immediately, and its bytes are gone after [`Index::maintain`] and
//!   [`Index::flush`] (or immediately after [`Index::reset`]).
//!
//! All functions block. The owner of an [`Index`] calls `flush` every few seconds and `maintain` until it returns
//! false, both in the background, and `warm` once after opening.
//!
//! Deliberately absent: texts of the episodes, the embedder, SQL, async code.

mod analysis;
mod bitmap;
mod bytes;
mod documents;
mod error;
mod files;
mod hashing;
mod highlight;
mod index;
mod manifest;
mod model;
mod ranking;
mod row_set;
mod search;
mod state;
mod text;
mod vectors;

pub use analysis::{MAX_QUERY_TERMS, MAX_TERM_BYTES, Token, analyze};
pub use error::IndexError;
pub use highlight::Highlighter;
pub use index::{Index, IndexOptions, MAX_VECTORS, OpenState, Opened};
pub use manifest::MAX_CURSOR_BYTES;
pub use model::{
    AgentKey, Change, Document, Filter, Hit, IndexSize, IndexedDocument, Mode, SearchHits, SearchRequest, SourceKey,
};
pub use row_set::{RowNumber, RowSet};
pub use search::COSINE_FLOOR;
