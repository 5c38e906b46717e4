//! Search: selection, matching and pagination of documents.
//!
//! - Keyword: a document matches if it contains one of the query's terms.
//! - Semantic: a document matches if the cosine of one of its vectors, as found by the scan, is at least
//!   [`COSINE_FLOOR`].
//! - Hybrid: a document matches if either holds.
//!
//! Neighbours of a match share its score, but do not match because of it: `total` only counts real matches.

mod best;
mod pool;
pub(crate) mod scan;
pub(crate) mod scratch;

use std::convert::Infallible;
use std::sync::Arc;

use crate::analysis::query_terms;
use crate::bitmap::Bitmap;
use crate::error::IndexError;
use crate::index::Index;
use crate::model::{AgentKey, Filter, Hit, Mode, SearchHits, SearchRequest};
use crate::ranking::dates::NamedDate;
use crate::ranking::{Question, Ranking, WEIGHTS, speakers};
use crate::row_set::RowNumber;
use crate::state::State;
use crate::vectors::quantize::{Query, normalized};
use best::{Best, Candidate};
use scan::{Scan, Selection};

/// Minimum cosine of related texts.
pub const COSINE_FLOOR: f32 = 0.15;
/// Maximum error of a cosine of the scan, except for one in a thousand.
const SCAN_ERROR: f32 = 0.02;
/// Number of best candidates that are rescored, see [`rescore`]. The scan's four bits per number have an error of about
/// 0.006 of a cosine, so the results of a page are among more candidates than a page holds.
const MAX_RESCORED: usize = 256;

impl Index {
    /// Returns a page of the documents that match the query best.
    ///
    /// # Errors
    /// A semantic search without a vector, a vector of other dimensions or without direction, or a damaged file.
    pub fn search(&self, request: &SearchRequest<'_>) -> Result<SearchHits, IndexError> {
        let query = match request.vector {
            Some(vector) if request.mode != Mode::Keyword => Some(Arc::new(self.query(vector)?)),
            None if request.mode == Mode::Semantic => {
                return Err(IndexError::QueryVector { expected: self.options().dimensions, found: 0 });
            }
            _ => None,
        };
        let terms = query_terms(request.text);
        let state = self.state.read();
        let has_no_meanings = state.documents.with_vectors() == 0 && state.documents.len() > 0;
        let degraded = request.mode == Mode::Hybrid && (query.is_none() || has_no_meanings);
        let mode = if degraded { Mode::Keyword } else { request.mode };
        state.check(true, mode != Mode::Keyword)?;
        let context = Arc::new(state.context_of(&request.filter));
        let date = NamedDate::of_query(request.text);
        let question = Question { mode, terms: &terms, date };
        self.scratch.with(|scratch| {
            let scan = query.as_ref().filter(|_| mode != Mode::Keyword).map(|query| {
                let wanted = Selection { kernel: self.kernel, query: Arc::clone(query), context: Arc::clone(&context) };
                let spare = std::mem::take(&mut scratch.shares);
                Scan::begin(&self.state, &state, wanted, spare)
            });
            let selected = state.selected(&request.filter, &context);
            let ranking = Ranking::prepare(&state, self.kernel, &question, scan, &context, scratch)?;
            let wanted = request.offset.saturating_add(request.limit).min(state.documents.len());
            let mut best = Best::new(wanted.max(MAX_RESCORED));
            let mut total = 0;
            for (first, chosen) in selected.words() {
                let words = if mode == Mode::Semantic { 0 } else { ranking.holds_term.bits_from(first) };
                let meanings = if mode == Mode::Keyword { 0 } else { above_floor(ranking.cosine, first) };
                let mut matching = chosen & (words | meanings);
                total += matching.count_ones() as usize;
                while matching != 0 {
                    let slot = first + matching.trailing_zeros();
                    matching &= matching - 1;
                    let score = ranking.score(slot);
                    best.offer(score, || state.candidate(slot, score));
                }
            }
            let mut found = best.finish();
            if let Some(query) = query.as_ref().filter(|_| mode != Mode::Keyword && wanted > 0) {
                let near = |slot| {
                    let cosine = |slot| Ok::<_, Infallible>(state.near_cosine(slot, self.kernel, query));
                    let Ok(near) = state.blended(slot, &WEIGHTS, self.kernel, cosine);
                    ranking.score_with(slot, near)
                };
                let exact = |slot| {
                    let cosine = |slot| state.exact_cosine(slot, self.kernel, query);
                    Ok(ranking.score_with(slot, state.blended(slot, &WEIGHTS, self.kernel, cosine)?))
                };
                let fineness = query.fineness();
                // They are scattered in memory: waiting for each in turn would take longer than the rest.
                for candidate in found.iter().take(MAX_RESCORED) {
                    state.fetch_blended(candidate.slot, &WEIGHTS, self.kernel);
                }
                let reach = |slot| WEIGHTS.meaning * state.blended_reach(slot, &WEIGHTS, self.kernel, fineness);
                rescore(&mut found, wanted, near, reach, exact)?;
            }
            let most = WEIGHTS.max_score(mode);
            Ok(SearchHits { hits: page(&found, request.offset, request.limit, |score| score / most), total, degraded })
        })
    }

    /// Returns the documents with vectors nearest to those of a row, excluding itself; the score is the cosine.
    /// Excludes those below [`COSINE_FLOOR`]. Empty if the row has no vector.
    ///
    /// # Errors
    /// The row does not exist, or a file is damaged.
    pub fn similar(&self, row: RowNumber, filter: &Filter<'_>, limit: usize) -> Result<Vec<Hit>, IndexError> {
        let state = self.state.read();
        let itself = state.documents.slot_of(row.0).ok_or(IndexError::UnknownRow(row))?;
        state.check(false, true)?;
        let queries: Vec<_> = state.vectors_at(itself)?.iter().map(|vector| Arc::new(Query::new(vector))).collect();
        let mut context = state.context_of(filter);
        context.remove(itself);
        let selected = Arc::new(state.selected(filter, &context));
        self.scratch.with(|scratch| {
            scratch.begin(state.documents.slot_count() as usize);
            scratch.begin_meaning();
            for query in &queries {
                let wanted =
                    Selection { kernel: self.kernel, query: Arc::clone(query), context: Arc::clone(&selected) };
                let spare = std::mem::take(&mut scratch.shares);
                let scan = Scan::begin(&self.state, &state, wanted, spare);
                scratch.shares = scan.finish(&state, &mut scratch.cosine);
            }
            let mut best = Best::new(limit.min(state.documents.len()).max(MAX_RESCORED));
            for slot in selected.iter() {
                let cosine = scratch.cosine[slot as usize];
                if cosine >= COSINE_FLOOR - SCAN_ERROR {
                    best.offer(cosine, || state.candidate(slot, cosine));
                }
            }
            let mut found = best.finish();
            let fineness = queries.iter().fold(0.0, |most: f32, query| most.max(query.fineness()));
            let reach = |slot| state.greatest_scale(slot) * fineness;
            let near = |slot| {
                let cosines = queries.iter().map(|query| state.near_cosine(slot, self.kernel, query));
                cosines.fold(f32::NEG_INFINITY, f32::max)
            };
            rescore(&mut found, limit, near, reach, |slot| {
                queries.iter().try_fold(f32::NEG_INFINITY, |best, query| {
                    Ok(best.max(state.exact_cosine(slot, self.kernel, query)?))
                })
            })?;
            found.retain(|candidate| candidate.score >= COSINE_FLOOR);
            Ok(page(&found, 0, limit, |score| score))
        })
    }

    /// Returns the part of a query to embed, without names of speakers; see the module on ranking.
    ///
    /// # Errors
    /// A file is damaged.
    pub fn embedding_query(&self, text: &str, agent: Option<AgentKey>) -> Result<String, IndexError> {
        let state = self.state.read();
        state.check(true, false)?;
        speakers::without_names(&state, text, &state.context(agent), &WEIGHTS)
    }

    /// Verifies and touches all files and prepares data that searches would otherwise compute. Call it in the
    /// background after opening.
    ///
    /// # Errors
    /// A file is damaged.
    pub fn warm(&self) -> Result<(), IndexError> {
        const SLOTS_PER_LOCK: u32 = 4096;
        let (text, vectors) = {
            let state = self.state.read();
            // The open parts are in memory already, and must not be shared.
            let vectors: Vec<_> =
                state.vectors[..state.closed_vector_parts()].iter().map(|held| held.part.clone()).collect();
            (state.text[..state.closed_text_parts()].to_vec(), vectors)
        };
        text.iter().try_for_each(crate::text::TextPart::check)?;
        drop(text);
        vectors.iter().try_for_each(|part| part.check())?;
        drop(vectors);
        let mut first = 0;
        loop {
            let state = self.state.read();
            let end = state.documents.slot_count().min(first + SLOTS_PER_LOCK);
            if first >= end {
                return Ok(());
            }
            state.check(false, true)?;
            for slot in first..end {
                if state.documents.is_alive(slot) && state.documents.vectors(slot).count == 1 {
                    state.blend(slot, &WEIGHTS, self.kernel);
                }
            }
            first = end;
        }
    }

    /// Requires all files to be verified again before the next read, after damage was found in a verified file.
    pub fn invalidate_verification(&self) {
        let state = self.state.read();
        state.text.iter().for_each(crate::text::TextPart::invalidate_verification);
        state.vectors.iter().for_each(|held| held.part.invalidate_verification());
    }

    fn query(&self, vector: &[f32]) -> Result<Query, IndexError> {
        let expected = self.options().dimensions;
        let usable = if vector.len() == expected { normalized(vector) } else { None };
        usable.map(|vector| Query::new(&vector)).ok_or(IndexError::QueryVector { expected, found: vector.len() })
    }
}

/// Rescores and orders the best candidates: first with whole first bytes (`near`), then so that the first `wanted` are
/// those that would result if all had been scored with both bytes. A candidate is left as is if its first bytes' score
/// plus the maximum contribution of the second bytes (`reach`) is below enough others, because each vector costs a
/// read. Candidates beyond the best remain there, with a score of at most that of the last rescored one.
fn rescore(
    found: &mut [Candidate],
    wanted: usize,
    near: impl Fn(u32) -> f32,
    reach: impl Fn(u32) -> f32,
    exact: impl Fn(u32) -> Result<f32, IndexError>,
) -> Result<(), IndexError> {
    let (again, rest) = found.split_at_mut(found.len().min(MAX_RESCORED));
    again.iter_mut().for_each(|candidate| candidate.score = near(candidate.slot));
    again.sort_unstable_by(Candidate::order);
    let (first, others) = again.split_at_mut(again.len().min(wanted));
    for candidate in &mut *first {
        candidate.score = exact(candidate.slot)?;
    }
    let bar = first.iter().fold(f32::INFINITY, |least, candidate| least.min(candidate.score)) - best::NOISE;
    for candidate in others {
        if candidate.score + reach(candidate.slot) >= bar {
            candidate.score = exact(candidate.slot)?;
        }
    }
    again.sort_unstable_by(Candidate::order);
    let ceiling = again.last().map_or(f32::INFINITY, |last| last.score);
    for candidate in rest {
        candidate.score = candidate.score.min(ceiling);
    }
    Ok(())
}

/// Returns which of the 64 slots from `first` have a significant cosine, one bit each.
fn above_floor(cosine: &[f32], first: u32) -> u64 {
    let rest = cosine.get(first as usize..).unwrap_or_default();
    let block = &rest[..rest.len().min(64)];
    block.iter().enumerate().fold(0, |bits, (position, cosine)| bits | u64::from(*cosine >= COSINE_FLOOR) << position)
}

fn page(found: &[Candidate], offset: usize, limit: usize, scale: impl Fn(f32) -> f32) -> Vec<Hit> {
    found
        .iter()
        .skip(offset)
        .take(limit)
        .map(|candidate| Hit { row: RowNumber(candidate.row), score: scale(candidate.score).clamp(0.0, 1.0) })
        .collect()
}

impl State {
    /// Rejects files that were truncated or have wrong checksums.
    fn check(&self, text: bool, vectors: bool) -> Result<(), IndexError> {
        if text {
            self.text.iter().try_for_each(crate::text::TextPart::check)?;
        }
        if vectors {
            self.vectors.iter().try_for_each(|held| held.part.check())?;
        }
        Ok(())
    }

    fn candidate(&self, slot: u32, score: f32) -> Candidate {
        let (occurred_at, row) = (self.documents.occurred_at(slot), self.documents.row(slot));
        Candidate { slot, score, occurred_at, row }
    }

    /// Returns all documents of the selected agents, which can provide context.
    fn context(&self, agent: Option<AgentKey>) -> Bitmap {
        match agent {
            None => self.documents.alive().clone(),
            Some(agent) => {
                let mut slots = Bitmap::with_len(self.documents.slot_count() as usize);
                self.documents.slots_of_agent(agent.0).for_each(|slot| slots.insert(slot));
                slots
            }
        }
    }

    fn context_of(&self, filter: &Filter<'_>) -> Bitmap {
        let mut context = self.context(filter.agent);
        if filter.and_of_none {
            self.documents.slots_of_agent(AgentKey::default().0).for_each(|slot| context.insert(slot));
        }
        context
    }

    /// Returns the documents of the context that pass the filter.
    fn selected(&self, filter: &Filter<'_>, context: &Bitmap) -> Bitmap {
        let mut selected = context.clone();
        if filter.sources.is_empty()
            && filter.from.is_none()
            && filter.until.is_none()
            && filter.rows.is_none()
            && filter.exclude.is_none()
        {
            return selected;
        }
        for slot in context.iter() {
            let record = self.documents.record(slot);
            let row = RowNumber(record.row);
            let passes = (filter.sources.is_empty() || filter.sources.iter().any(|source| source.0 == record.source))
                && filter.from.is_none_or(|from| record.occurred_at >= from.as_micros())
                && filter.until.is_none_or(|until| record.occurred_at < until.as_micros())
                && filter.rows.is_none_or(|rows| rows.contains(row))
                && !filter.exclude.is_some_and(|rows| rows.contains(row));
            if !passes {
                selected.remove(slot);
            }
        }
        selected
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use proptest::prelude::*;

    use super::*;

    fn candidates(scores: &[f32]) -> Vec<Candidate> {
        let candidate =
            |(slot, score): (u32, &f32)| Candidate { slot, score: *score, occurred_at: 0, row: slot.into() };
        let mut all: Vec<_> = (0..).zip(scores).map(candidate).collect();
        all.sort_unstable_by(Candidate::order);
        all
    }

    proptest! {
        #[test]
        fn skipped_candidates_are_not_among_the_first(
            documents in proptest::collection::vec((0.0_f32..1.0, -0.1_f32..0.1, -1.0_f32..=1.0, 0.0_f32..0.2), 0..400),
            wanted in 0_usize..300,
        ) {
            let scores: Vec<f32> = documents.iter().map(|(score, ..)| *score).collect();
            let near = |slot: u32| documents[slot as usize].0 + documents[slot as usize].1;
            let exact = |slot: u32| {
                let (_, _, share, reach) = documents[slot as usize];
                Ok(near(slot) + share * reach)
            };
            let (mut few, mut all) = (candidates(&scores), candidates(&scores));
            rescore(&mut few, wanted, near, |slot| documents[slot as usize].3, exact).unwrap();
            rescore(&mut all, wanted, near, |_| f32::INFINITY, exact).unwrap();
            let wanted = wanted.min(few.len());
            prop_assert_eq!(&few[..wanted], &all[..wanted]);
        }
    }

    #[test]
    fn distant_candidates_are_not_rescored() {
        let scores: Vec<f32> = (0_u16..100).map(|position| 1.0 - f32::from(position) / 100.0).collect();
        let (mut found, scored) = (candidates(&scores), Cell::new(0));
        let near = |slot: u32| scores[slot as usize];
        let exact = |slot| {
            scored.set(scored.get() + 1);
            Ok(near(slot))
        };
        rescore(&mut found, 10, near, |_| 0.025, exact).unwrap();
        assert_eq!(scored.get(), 12, "the ten, and the two that could still reach the last of them");
    }
}
