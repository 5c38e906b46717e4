//! Searching: which documents count, which match, and the page of them.
//!
//! - Keyword: a document matches if it holds one of the query's terms.
//! - Semantic: if the cosine of one of its vectors, as the scan finds it, is at least [`COSINE_FLOOR`].
//! - Hybrid: if either holds.
//!
//! Neighbours of a match share in its score, but do not match by it: `total` counts what really fits.

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
use scan::{Scan, Wanted};

/// Below this cosine two texts have nothing to do with each other.
pub const COSINE_FLOOR: f32 = 0.15;
/// What a cosine of the scan is off by at most, but for one in a thousand.
const SCAN_ERROR: f32 = 0.02;
/// So many of the best are scored again, see [`rescore`]: the scan's four bits a number are off by some 0.006 of a
/// cosine, so that those which belong into a page are among many more than a page holds.
const RESCORED: usize = 256;

impl Index {
    /// The page of documents that answer the query best.
    ///
    /// # Errors
    /// A semantic search without a vector, a vector of other dimensions or without direction, a damaged file.
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
                let wanted = Wanted { kernel: self.kernel, query: Arc::clone(query), context: Arc::clone(&context) };
                let spare = std::mem::take(&mut scratch.shares);
                Scan::begin(&self.state, &state, wanted, spare)
            });
            let selected = state.selected(&request.filter, &context);
            let ranking = Ranking::prepare(&state, self.kernel, &question, scan, &context, scratch)?;
            let wanted = request.offset.saturating_add(request.limit).min(state.documents.len());
            let mut best = Best::new(wanted.max(RESCORED));
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
                // They lie all over the memory: waiting for one after the other would take longer than the rest.
                for candidate in found.iter().take(RESCORED) {
                    state.fetch_blended(candidate.slot, &WEIGHTS, self.kernel);
                }
                let reach = |slot| WEIGHTS.meaning * state.blended_reach(slot, &WEIGHTS, self.kernel, fineness);
                rescore(&mut found, wanted, near, reach, exact)?;
            }
            let most = WEIGHTS.most(mode);
            Ok(SearchHits { hits: page(&found, request.offset, request.limit, |score| score / most), total, degraded })
        })
    }

    /// The documents whose vectors are nearest to those of a row, itself left out; the score is the cosine. Those
    /// below [`COSINE_FLOOR`] are not among them. Empty if the row has no vector.
    ///
    /// # Errors
    /// The row is not there, or a file is damaged.
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
                let wanted = Wanted { kernel: self.kernel, query: Arc::clone(query), context: Arc::clone(&selected) };
                let spare = std::mem::take(&mut scratch.shares);
                let scan = Scan::begin(&self.state, &state, wanted, spare);
                scratch.shares = scan.finish(&state, &mut scratch.cosine);
            }
            let mut best = Best::new(limit.min(state.documents.len()).max(RESCORED));
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

    /// What of a query should be embedded: the names of speakers left out, see the module on ranking.
    ///
    /// # Errors
    /// A damaged file.
    pub fn embedding_query(&self, text: &str, agent: Option<AgentKey>) -> Result<String, IndexError> {
        let state = self.state.read();
        state.check(true, false)?;
        speakers::without_names(&state, text, &state.context(agent), &WEIGHTS)
    }

    /// Verifies and touches all files and prepares what searches would otherwise prepare one by one. To be called
    /// in the background after opening.
    ///
    /// # Errors
    /// A damaged file.
    pub fn warm(&self) -> Result<(), IndexError> {
        const SLOTS_A_HOLD: u32 = 4096;
        let (text, vectors) = {
            let state = self.state.read();
            // The open parts are in memory anyway, and must not be shared.
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
            let end = state.documents.slot_count().min(first + SLOTS_A_HOLD);
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

    /// Has all files verified again before they are read next: somebody met damage in one that was found whole.
    pub fn distrust(&self) {
        let state = self.state.read();
        state.text.iter().for_each(crate::text::TextPart::distrust);
        state.vectors.iter().for_each(|held| held.part.distrust());
    }

    fn query(&self, vector: &[f32]) -> Result<Query, IndexError> {
        let expected = self.options().dimensions;
        let usable = if vector.len() == expected { normalized(vector) } else { None };
        usable.map(|vector| Query::new(&vector)).ok_or(IndexError::QueryVector { expected, found: vector.len() })
    }
}

/// Scores the best again and orders them: first with whole first bytes (`near`), then so that the first `wanted` are
/// those and stand as if all had been scored with both bytes. One of which the first bytes' score, and what the second
/// bytes can add to it at most (`reach`), lies below all of so many others is left as it is, because each vector costs
/// a read. Those behind the best stay there, and none may claim more than the last of them.
fn rescore(
    found: &mut [Candidate],
    wanted: usize,
    near: impl Fn(u32) -> f32,
    reach: impl Fn(u32) -> f32,
    exact: impl Fn(u32) -> Result<f32, IndexError>,
) -> Result<(), IndexError> {
    let (again, rest) = found.split_at_mut(found.len().min(RESCORED));
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

/// Which of the 64 slots from `first` on have a cosine that says something, one bit each.
fn above_floor(cosine: &[f32], first: u32) -> u64 {
    let rest = cosine.get(first as usize..).unwrap_or_default();
    let block = &rest[..rest.len().min(64)];
    block.iter().enumerate().fold(0, |bits, (place, cosine)| bits | u64::from(*cosine >= COSINE_FLOOR) << place)
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
    /// Refuses to read files that were cut, or whose checksums are wrong.
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

    /// All documents of the agents asked for: what can give context.
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

    /// What of the context the filter lets through.
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
        fn who_is_left_as_it_is_would_not_have_come_first(
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
    fn who_is_far_behind_costs_nothing() {
        let scores: Vec<f32> = (0_u16..100).map(|place| 1.0 - f32::from(place) / 100.0).collect();
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
