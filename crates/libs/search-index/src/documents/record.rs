//! Stored data of one document.

/// Marker for no slot.
pub(crate) const NONE: u32 = u32::MAX;

/// Stored data of a document apart from terms and vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) row: u64,
    pub(crate) agent: u64,
    pub(crate) source: u64,
    pub(crate) occurred_at: i64,
    /// Number of words in the text.
    pub(crate) length: u32,
    /// Whether the text ends with a question.
    pub(crate) is_question: bool,
}

/// Position of a document's vectors: `count` entries from `start` of the part with that number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VectorRange {
    pub(crate) part: u32,
    pub(crate) start: u32,
    pub(crate) count: u32,
}

impl VectorRange {
    pub(crate) const NOWHERE: Self = Self { part: NONE, start: 0, count: 0 };
}
