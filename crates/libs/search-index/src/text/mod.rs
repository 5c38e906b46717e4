//! Inverted index: terms with the documents that contain them, in parts of consecutive slots.

pub(crate) mod mapped;
pub(crate) mod memory;
pub(crate) mod signals;
pub(crate) mod write;

use std::sync::Arc;

use crate::error::IndexError;
use mapped::MappedText;
pub(crate) use mapped::Posting;
use memory::MemoryText;

/// Terms of the slots from `base`; a document's position in the part is `slot - base`.
#[derive(Clone, Debug)]
pub(crate) struct TextPart {
    pub(crate) base: u32,
    pub(crate) count: u32,
    pub(crate) terms: Terms,
}

#[derive(Clone, Debug)]
pub(crate) enum Terms {
    Memory(Arc<MemoryText>),
    Mapped(Arc<MappedText>),
}

impl TextPart {
    /// Appends the documents that contain the term, ascending.
    pub(crate) fn collect(&self, term: &str, into: &mut Vec<Posting>) -> Result<(), IndexError> {
        match &self.terms {
            Terms::Memory(terms) => {
                into.extend(
                    terms
                        .postings(term)
                        .iter()
                        .map(|(position, count)| Posting { slot: self.base + position, count: *count }),
                );
                Ok(())
            }
            Terms::Mapped(terms) => terms.collect(term, self.base, into),
        }
    }

    /// Verifies the part; must be called before terms are looked up.
    pub(crate) fn check(&self) -> Result<(), IndexError> {
        match &self.terms {
            Terms::Memory(_) => Ok(()),
            Terms::Mapped(terms) => terms.check(),
        }
    }

    /// Requires the checksum to be verified again.
    pub(crate) fn invalidate_verification(&self) {
        if let Terms::Mapped(terms) = &self.terms {
            terms.invalidate_verification();
        }
    }

    pub(crate) fn end(&self) -> u32 {
        self.base + self.count
    }

    pub(crate) fn disk_bytes(&self) -> u64 {
        match &self.terms {
            Terms::Memory(_) => 0,
            Terms::Mapped(terms) => terms.disk_bytes(),
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        match &self.terms {
            Terms::Memory(terms) => terms.memory_bytes(),
            Terms::Mapped(_) => 0,
        }
    }
}
