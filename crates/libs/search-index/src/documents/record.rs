//! What is kept of one document.

/// No slot.
pub(crate) const NONE: u32 = u32::MAX;

/// What is stored of a document beside terms and vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) row: u64,
    pub(crate) agent: u64,
    pub(crate) source: u64,
    pub(crate) occurred_at: i64,
    /// Words in the text.
    pub(crate) length: u32,
    /// The text ends by asking.
    pub(crate) asks: bool,
}

/// Where a document's vectors are: `count` entries from `start` of the part with that number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VectorPlace {
    pub(crate) part: u32,
    pub(crate) start: u32,
    pub(crate) count: u32,
}

impl VectorPlace {
    pub(crate) const NOWHERE: Self = Self { part: NONE, start: 0, count: 0 };
}
