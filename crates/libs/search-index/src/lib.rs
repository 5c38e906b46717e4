//! The derived indexes of memory: the words and the vectors of episodes, under one numbering, filtered while
//! scoring and ranked together.
//!
//! What always holds:
//! - A change is seen by every search that begins after [`Index::apply`] returned; nothing waits for a commit.
//! - Filters, `total` and pages agree: what the scan of the vectors judges near enough matches, under every filter and
//!   on every page.
//! - The folder opens as of some flush, whatever killed the process; files that are not what was written are never
//!   trusted, and then the index is empty and says why. The rows are the truth, the index can always be built anew.
//! - A deleted document is found no more at once, and its bytes are gone after [`Index::maintain`] and
//!   [`Index::flush`] (or at once with [`Index::reset`]).
//!
//! All functions block. The owner of an [`Index`] calls `flush` every few seconds and `maintain` until it answers
//! false, both in the background, and `warm` once after opening.
//!
//! Deliberately absent: the text of the episodes, the embedder, SQL, async code.

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
    AgentKey, Change, Document, Filter, HeldDocument, Hit, IndexSize, Mode, SearchHits, SearchRequest, SourceKey,
};
pub use row_set::{RowNumber, RowSet};
pub use search::COSINE_FLOOR;
