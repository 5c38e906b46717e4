//! Terms of the latest documents, in memory until they are written.

use std::collections::HashMap;

#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryText {
    terms: HashMap<Box<str>, Vec<(u32, u32)>>,
    postings: usize,
    term_bytes: usize,
}

impl MemoryText {
    /// Adds a document's terms with their counts. Positions must ascend.
    pub(crate) fn add(&mut self, position: u32, terms: &[(String, u32)]) {
        for (term, count) in terms {
            match self.terms.get_mut(term.as_str()) {
                Some(postings) => postings.push((position, *count)),
                None => {
                    self.term_bytes += term.len();
                    self.terms.insert(term.as_str().into(), vec![(position, *count)]);
                }
            }
        }
        self.postings += terms.len();
    }

    pub(crate) fn postings(&self, term: &str) -> &[(u32, u32)] {
        self.terms.get(term).map_or(&[], Vec::as_slice)
    }

    /// Returns all terms, ascending.
    pub(crate) fn sorted(&self) -> Vec<(&str, &[(u32, u32)])> {
        let mut terms: Vec<_> =
            self.terms.iter().map(|(term, postings)| (term.as_ref(), postings.as_slice())).collect();
        terms.sort_unstable_by_key(|(term, _)| *term);
        terms
    }

    /// Returns an estimate that is never far below the actual size.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.postings * 12 + self.terms.capacity() * 48 + self.terms.len() * 48 + self.term_bytes
    }
}
