//! Reading all vectors, for who groups or checks them.

use agentd_base::Timestamp;

use super::Index;
use crate::error::IndexError;
use crate::model::{AgentKey, HeldDocument, SourceKey};
use crate::row_set::RowNumber;

/// Rows that are visited under one hold of the lock.
const ROWS_A_HOLD: usize = 1024;

impl Index {
    /// Grows with each change, also with those that no search can tell. Means nothing to another process.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.state.read().revision
    }

    /// The rows that have vectors, ascending: of one agent, or all.
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

    /// What is held of a row beside its words and vectors; `None` if it is not there.
    #[must_use]
    pub fn document(&self, row: RowNumber) -> Option<HeldDocument> {
        let state = self.state.read();
        let record = state.documents.record(state.documents.slot_of(row.0)?);
        Some(HeldDocument {
            agent: AgentKey(record.agent),
            source: SourceKey(record.source),
            occurred_at: Timestamp::from_micros(record.occurred_at),
            words: record.length,
        })
    }

    /// Shows the direction of each of `rows`, in their order: the sum of its vectors, 8 bits a number, the same in
    /// every index that was fed the same. Rows without vectors, or not there any more, are passed over. Changes may
    /// come between; [`Self::revision`] tells.
    ///
    /// # Errors
    /// A damaged file.
    pub fn visit_vectors(
        &self,
        rows: &[RowNumber],
        mut visit: impl FnMut(RowNumber, &[f32]),
    ) -> Result<(), IndexError> {
        let mut direction = vec![0.0_f32; self.options.dimensions];
        let mut codes = Vec::new();
        for rows in rows.chunks(ROWS_A_HOLD) {
            let state = self.state.read();
            state.vectors.iter().try_for_each(|held| held.part.check())?;
            for row in rows {
                let Some(slot) = state.documents.slot_of(row.0) else { continue };
                let place = state.documents.vectors(slot);
                let Some(held) = state.vector_part(place.part).filter(|_| place.count > 0) else { continue };
                direction.fill(0.0);
                for entry in place.start as usize..(place.start + place.count) as usize {
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
