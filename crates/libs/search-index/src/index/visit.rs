//! Iteration over all vectors, for clustering and consistency checks.

use agentd_base::Timestamp;

use super::Index;
use crate::error::IndexError;
use crate::model::{AgentKey, IndexedDocument, SourceKey};
use crate::row_set::RowNumber;

/// Number of rows visited per acquisition of the lock.
const ROWS_PER_LOCK: usize = 1024;

impl Index {
    /// Returns a number that increases with each change, even one without effect on searches. Meaningless to other
    /// processes.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.state.read().revision
    }

    /// Returns the rows with vectors, ascending: those of one agent, or all.
    #[must_use]
    pub fn rows_with_vectors(&self, agent: Option<AgentKey>) -> Vec<RowNumber> {
        let state = self.state.read();
        let documents = &state.documents;
        let has_vectors = |slot: &u32| documents.is_alive(*slot) && documents.vectors(*slot).count > 0;
        let row = |slot: u32| RowNumber(documents.row(slot));
        let mut rows: Vec<_> = match agent {
            None => documents.alive().iter().filter(has_vectors).map(row).collect(),
            Some(agent) => documents.slots_of_agent(agent.0).filter(has_vectors).map(row).collect(),
        };
        drop(state);
        rows.sort_unstable();
        rows
    }

    /// Returns the indexed data of a row apart from its words and vectors; `None` if it does not exist.
    #[must_use]
    pub fn document(&self, row: RowNumber) -> Option<IndexedDocument> {
        let state = self.state.read();
        let record = state.documents.record(state.documents.slot_of(row.0)?);
        Some(IndexedDocument {
            agent: AgentKey(record.agent),
            source: SourceKey(record.source),
            occurred_at: Timestamp::from_micros(record.occurred_at),
            words: record.length,
        })
    }

    /// Visits the direction of each of `rows`, in order: the sum of its vectors with 8 bits per number, which is the
    /// same in every index with the same contents. Rows that do not exist or have no vectors are skipped. Changes may
    /// occur in between; see [`Self::revision`].
    ///
    /// # Errors
    /// A file is damaged.
    pub fn visit_vectors(
        &self,
        rows: &[RowNumber],
        mut visit: impl FnMut(RowNumber, &[f32]),
    ) -> Result<(), IndexError> {
        let mut direction = vec![0.0_f32; self.options.dimensions];
        let mut codes = Vec::new();
        for rows in rows.chunks(ROWS_PER_LOCK) {
            let state = self.state.read();
            state.vectors.iter().try_for_each(|held| held.part.check())?;
            for row in rows {
                let Some(slot) = state.documents.slot_of(row.0) else { continue };
                let range = state.documents.vectors(slot);
                let Some(held) = state.vector_part(range.part).filter(|_| range.count > 0) else { continue };
                direction.fill(0.0);
                for entry in range.start as usize..(range.start + range.count) as usize {
                    let scale = held.part.scale(entry);
                    held.part.read_codes(entry, &mut codes);
                    for (sum, code) in direction.iter_mut().zip(&codes) {
                        *sum += f32::from(code.cast_signed()) * scale;
                    }
                }
                visit(*row, &direction);
            }
        }
        Ok(())
    }
}
