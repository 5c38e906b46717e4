//! Merging of parts, which keeps searches fast and removes deleted data.

use std::ops::Range;
use std::sync::Arc;

use super::{Index, Upkeep};
use crate::bitmap::Bitmap;
use crate::documents::{NONE, VectorRange};
use crate::error::IndexError;
use crate::state::{State, VectorSlots};
use crate::text::mapped::{MappedText, path as text_path};
use crate::text::write::{Merged, write_merged};
use crate::text::{Terms, TextPart};
use crate::vectors::part::{Entry, VectorPart, write_part};

/// Number of neighbouring parts of similar size that are merged.
const MERGE_COUNT: usize = 6;
/// Maximum size of a merged part, which limits the time and memory of a merge.
const MAX_PART: usize = 131_072;
/// Size ratio within which parts count as similar.
const TIER_RATIO: usize = 4;
const SMALLEST_TIER: usize = 256;
/// A part is rewritten if more than one in this number of entries is dead.
const MAX_DEAD_RATIO: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Size {
    live: usize,
    total: usize,
}

impl Index {
    /// Performs one step of background work and returns whether there may be more. Replaced files remain on disk until
    /// the next [`Index::flush`].
    ///
    /// # Errors
    /// The disk cannot be written or read, or a part is damaged.
    pub fn maintain(&self) -> Result<bool, IndexError> {
        let mut upkeep = self.upkeep.lock();
        let state = self.state.read();
        let text = pick(state.text[..state.closed_text_parts()].iter().map(|part| {
            let live = (part.base..part.end()).filter(|slot| state.documents.is_alive(*slot)).count();
            matches!(part.terms, Terms::Mapped(_)).then_some(Size { live, total: part.count as usize })
        }));
        let vectors = pick(
            state.vectors[..state.closed_vector_parts()]
                .iter()
                .map(|held| held.part.is_written().then_some(Size { live: held.live, total: held.slots.len() })),
        );
        drop(state);
        if let Some(range) = text {
            self.merge_text(&mut upkeep, range)?;
            return Ok(true);
        }
        if let Some(range) = vectors {
            self.merge_vectors(&mut upkeep, range)?;
            return Ok(true);
        }
        Ok(false)
    }

    fn merge_text(&self, upkeep: &mut Upkeep, range: Range<usize>) -> Result<(), IndexError> {
        let state = self.state.read();
        let parts: Vec<TextPart> = state.text[range.clone()].to_vec();
        let mut records = Vec::new();
        let mut dropped = Bitmap::default();
        let mut merged = Vec::new();
        for part in &parts {
            let mut positions = Vec::with_capacity(part.count as usize);
            for slot in part.base..part.end() {
                if state.documents.is_alive(slot) {
                    positions.push(records.len() as u32);
                    records.push(state.documents.record(slot));
                } else {
                    positions.push(NONE);
                    dropped.insert(slot);
                }
            }
            if let Terms::Mapped(text) = &part.terms {
                text.check()?;
                merged.push(Merged { text, positions });
            }
        }
        drop(state);
        let result = if records.is_empty() {
            None
        } else {
            let number = self.new_number();
            let sums = write_merged(&self.folder, number, &merged, &records)?;
            Some(Arc::new(MappedText::open(&self.folder, number, sums)?.0))
        };
        let mut state = self.state.write();
        let base = parts.first().map_or(0, |part| part.base);
        let gone = parts.iter().map(|part| part.count).sum::<u32>() - records.len() as u32;
        let count = records.len() as u32;
        let replacement = result.map(|text| TextPart { base, count, terms: Terms::Mapped(text) });
        state.text.splice(range.clone(), replacement.clone());
        let after = range.start + usize::from(replacement.is_some());
        for part in &mut state.text[after..] {
            part.base -= gone;
        }
        if gone > 0 {
            state.close_gaps(&dropped);
        }
        state.revision += 1;
        drop(state);
        for part in &parts {
            if let Terms::Mapped(text) = &part.terms {
                upkeep.obsolete.push(text_path(&self.folder, text.number));
            }
        }
        Ok(())
    }

    fn merge_vectors(&self, upkeep: &mut Upkeep, range: Range<usize>) -> Result<(), IndexError> {
        let state = self.state.read();
        let parts: Vec<VectorSlots> = state.vectors[range.clone()].to_vec();
        let mut entries = Vec::new();
        let mut origins = Vec::new();
        for (of, held) in parts.iter().enumerate() {
            held.part.check()?;
            for (index, slot) in held.slots.iter().enumerate() {
                if *slot != NONE {
                    entries.push(Entry { part: &held.part, index, row: state.documents.row(*slot) });
                    origins.push((of, index));
                }
            }
        }
        drop(state);
        let number = self.new_number();
        let part = if entries.is_empty() {
            None
        } else {
            let sums = write_part(&self.folder, number, self.options.dimensions, &entries)?;
            Some(Arc::new(VectorPart::open(&self.folder, number, self.options.dimensions, sums)?.0))
        };
        let mut state = self.state.write();
        // Some entries may have died since they were read.
        let slots: Vec<u32> = origins.iter().map(|(of, index)| state.vectors[range.start + of].slots[*index]).collect();
        let live = slots.iter().filter(|slot| **slot != NONE).count();
        state.place_vectors(number, &slots);
        let replacement = part.map(|part| VectorSlots { number, part, slots, live });
        state.vectors.splice(range, replacement);
        state.revision += 1;
        drop(state);
        for held in &parts {
            self.retire_vectors(upkeep, held.number);
        }
        Ok(())
    }
}

impl State {
    fn close_gaps(&mut self, dropped: &Bitmap) {
        let renumbering = self.documents.close_gaps(dropped);
        for held in &mut self.vectors {
            for slot in &mut held.slots {
                *slot = renumbering.of(*slot);
            }
        }
    }

    /// Updates the positions of the documents' vectors to that part. The entries of a document are contiguous.
    fn place_vectors(&mut self, number: u32, slots: &[u32]) {
        let mut start = 0_u32;
        for group in slots.chunk_by(|a, b| a == b) {
            let count = group.len() as u32;
            if group[0] != NONE {
                self.documents.move_vectors(group[0], VectorRange { part: number, start, count });
            }
            start += count;
        }
    }
}

/// Selects neighbouring parts to merge. `None` marks a part that cannot be merged yet.
fn pick(sizes: impl Iterator<Item = Option<Size>>) -> Option<Range<usize>> {
    let sizes: Vec<Option<Size>> = sizes.collect();
    let stale = |size: &Size| size.total > 0 && (size.total - size.live) * MAX_DEAD_RATIO > size.total;
    let tier = |size: &Size| (size.live.max(SMALLEST_TIER) / SMALLEST_TIER).ilog(TIER_RATIO);
    for level in 0..=MAX_PART.ilog(TIER_RATIO) {
        let mut run: Vec<(usize, Size)> = Vec::new();
        for (index, size) in sizes.iter().enumerate().chain([(sizes.len(), &None)]) {
            let fitting = size.filter(|size| tier(size) <= level);
            let sum: usize = run.iter().map(|(_, size)| size.live).sum();
            if fitting.is_none_or(|size| sum + size.live > MAX_PART) {
                if is_worthwhile(&run, level) {
                    return run.first().map(|(first, _)| *first..first + run.len());
                }
                run.clear();
            }
            run.extend(fitting.map(|size| (index, size)));
        }
    }
    sizes.iter().position(|size| size.as_ref().is_some_and(stale)).map(|index| index..index + 1)
}

/// Whether there are enough parts, and none is so large that most of the work would be copying it.
fn is_worthwhile(run: &[(usize, Size)], level: u32) -> bool {
    let sum: usize = run.iter().map(|(_, size)| size.live).sum();
    run.len() >= MERGE_COUNT && (level == 0 || run.iter().all(|(_, size)| size.live * 2 <= sum))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(live: &[usize]) -> impl Iterator<Item = Option<Size>> {
        live.iter().map(|live| Some(Size { live: *live, total: *live }))
    }

    #[test]
    fn neighbours_of_similar_size_are_merged() {
        assert_eq!(pick(sizes(&[100_000, 10, 10, 10, 10, 10])), None);
        assert_eq!(pick(sizes(&[100_000, 10, 20, 30, 10, 10, 10])), Some(1..7));
        assert_eq!(pick(sizes(&[100_000; 12])), None);
        assert_eq!(pick(sizes(&[16_000; 12])), Some(0..8));
        assert_eq!(pick(sizes(&[])), None);
    }

    #[test]
    fn part_with_many_dead_entries_is_rewritten() {
        let part = |live| Some(Size { live, total: 1000 });
        assert_eq!(pick([part(900), part(700), part(900)].into_iter()), Some(1..2));
        assert_eq!(pick([part(900), part(760)].into_iter()), None);
        assert_eq!(pick([None, part(760)].into_iter()), None);
    }

    #[test]
    fn merging_ends_with_few_parts() {
        let mut parts: Vec<usize> = Vec::new();
        for size in std::iter::repeat_n([50, 60], 10_000).flatten() {
            parts.push(size);
            while let Some(range) = pick(sizes(&parts)) {
                let sum = parts[range.clone()].iter().sum();
                parts.splice(range, [sum]);
            }
        }
        assert!(parts.len() < 45, "{parts:?}");
    }
}
