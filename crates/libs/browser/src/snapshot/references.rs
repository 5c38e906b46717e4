//! Mapping from snapshot numbers to elements.

use std::collections::HashMap;

use crate::tab::FrameId;

/// Maximum number of elements in a snapshot; a larger page is marked as truncated.
pub const MAX_ELEMENTS: usize = 500;

/// Element that a number refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(crate) frame: FrameId,
    pub(crate) node: i64,
    pub(crate) role: String,
    pub(crate) name: String,
    /// Listed name of a clickable element without a role.
    pub(crate) text: Option<String>,
}

/// References of the last snapshot.
#[derive(Debug, Default)]
pub(crate) struct Refs(pub(super) Vec<Reference>);

/// References of pinned elements.
#[derive(Debug, Default)]
pub(crate) struct Pinned {
    pub(super) count: u32,
    pub(super) references: HashMap<u32, Reference>,
}

impl Pinned {
    pub(super) fn get(&self, number: u32) -> Option<Reference> {
        self.references.get(&number).cloned()
    }
}
