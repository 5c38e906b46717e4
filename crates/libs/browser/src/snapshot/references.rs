//! Numbers of elements, and the elements that they stand for.

use std::collections::HashMap;

use crate::tab::FrameId;

/// Further elements are left out, and the snapshot says so.
pub const MAX_ELEMENTS: usize = 500;

/// What a number of a snapshot stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(crate) frame: FrameId,
    pub(crate) node: i64,
    pub(crate) role: String,
    pub(crate) name: String,
    /// What a clickable element without a role was listed as.
    pub(crate) text: Option<String>,
}

/// The numbers of the last snapshot.
#[derive(Debug, Default)]
pub(crate) struct Refs(pub(super) Vec<Reference>);

/// The numbers, each as long as its pin is held.
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
