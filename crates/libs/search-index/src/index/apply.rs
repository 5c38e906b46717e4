//! Application of changes.

use std::collections::HashMap;

use super::Index;
use crate::analysis::{Analyzer, Kind, Purpose};
use crate::documents::{NONE, Record};
use crate::error::IndexError;
use crate::model::{Change, Document};
use crate::row_set::RowNumber;
use crate::state::{Prepared, PreparedVectors};
use crate::text::signals::{SPEAKER_MARK, ends_with_question, speaker_terms};
use crate::vectors::quantize::{normalized, quantize};

/// Maximum number of vectors of one document; the caller omits further ones of longer texts.
pub const MAX_VECTORS: usize = 4096;
/// Number of changes applied per acquisition of the lock.
const CHANGES_PER_LOCK: usize = 64;

enum PreparedChange {
    Add(Prepared),
    Remove(u64),
    SetVectors(u64, PreparedVectors),
}

impl Index {
    /// Applies changes; every search that begins after this returns sees them. Data that exceeds the memory limits is
    /// written immediately, without advancing the cursor.
    ///
    /// # Errors
    /// A vector that cannot be indexed (no change is then applied), or a disk that cannot be written.
    pub fn apply(&self, changes: &[Change<'_>]) -> Result<(), IndexError> {
        let mut analyzer = Analyzer::new(Purpose::Document);
        self.check(changes)?;
        for changes in changes.chunks(CHANGES_PER_LOCK) {
            let prepared =
                changes.iter().map(|change| self.prepare(&mut analyzer, change)).collect::<Result<Vec<_>, _>>()?;
            let mut state = self.state.write();
            if state.documents.slot_count() > NONE - 2 * CHANGES_PER_LOCK as u32 {
                return Err(IndexError::Full);
            }
            for change in &prepared {
                match change {
                    PreparedChange::Add(document) => state.add(document, self.options.dimensions, || self.new_number()),
                    PreparedChange::Remove(row) => state.remove(*row),
                    PreparedChange::SetVectors(row, vectors) => {
                        state.set_vectors(*row, vectors, self.options.dimensions, || self.new_number());
                    }
                }
            }
            let full = state.open_words > self.bounds.words || state.open_vectors > self.bounds.vectors;
            drop(state);
            if full {
                self.spill()?;
            }
        }
        Ok(())
    }

    fn check(&self, changes: &[Change<'_>]) -> Result<(), IndexError> {
        for change in changes {
            let (row, vectors) = match change {
                Change::Add(document) => (document.row, &document.vectors),
                Change::SetVectors(row, vectors) => (*row, vectors),
                Change::Remove(_) => continue,
            };
            if vectors.len() > MAX_VECTORS {
                return Err(IndexError::TooManyVectors { row, found: vectors.len(), most: MAX_VECTORS });
            }
            for vector in vectors {
                if vector.len() != self.options.dimensions {
                    return Err(IndexError::Dimensions { row, expected: self.options.dimensions, found: vector.len() });
                }
                if normalized(vector).is_none() {
                    return Err(IndexError::Vector { row });
                }
            }
        }
        Ok(())
    }

    fn prepare(&self, analyzer: &mut Analyzer, change: &Change<'_>) -> Result<PreparedChange, IndexError> {
        Ok(match change {
            Change::Add(document) => PreparedChange::Add(Prepared {
                vectors: prepare_vectors(document.row, &document.vectors)?,
                ..prepare_text(analyzer, document)
            }),
            Change::Remove(row) => PreparedChange::Remove(row.0),
            Change::SetVectors(row, vectors) => PreparedChange::SetVectors(row.0, prepare_vectors(*row, vectors)?),
        })
    }
}

fn prepare_vectors(row: RowNumber, vectors: &[Vec<f32>]) -> Result<PreparedVectors, IndexError> {
    let mut prepared = PreparedVectors::default();
    for vector in vectors {
        let vector = normalized(vector).ok_or(IndexError::Vector { row })?;
        prepared.scales.push(quantize(&vector, &mut prepared.planes));
    }
    Ok(prepared)
}

fn prepare_text(analyzer: &mut Analyzer, document: &Document<'_>) -> Prepared {
    let mut counts: HashMap<String, u32> = HashMap::new();
    let mut length = 0_u32;
    analyzer.run(document.text, &mut |term, _, kind| {
        length = length.saturating_add(u32::from(kind != Kind::Overlap));
        match counts.get_mut(term) {
            Some(count) => *count = count.saturating_add(1),
            None => {
                counts.insert(term.to_owned(), 1);
            }
        }
        true
    });
    for term in speaker_terms(document.text) {
        counts.insert(format!("{SPEAKER_MARK}{term}"), 1);
    }
    Prepared {
        record: Record {
            row: document.row.0,
            agent: document.agent.0,
            source: document.source.0,
            occurred_at: document.occurred_at.as_micros(),
            length,
            is_question: ends_with_question(document.text),
        },
        terms: counts.into_iter().collect(),
        vectors: PreparedVectors::default(),
    }
}
