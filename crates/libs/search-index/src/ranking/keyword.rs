//! BM25 over a window of the talk.
//!
//! Speakers who take turns often refer to the preceding turn. So a term's weight in a document is its own weight plus a
//! share of its weight in the neighbours; the sum is saturated once per term:
//!
//! ```text
//! x = count / (1 − b + b · length / mean length)
//! y = x + Σ share[d] · x of the neighbour at distance d, before and after, in the same talk
//! score = Σ over terms: times in the query · idf · y · (k1 + 1) / (y + k1),   divided by Σ times · idf
//! idf = ln(1 + (N − n + ½) / (n + ½))          N documents, n of them with the term, whatever the filter
//! ```
//! The division makes queries of any length comparable with a cosine.

use std::ops::Range;

use super::weights::Weights;
use crate::bitmap::Bitmap;
use crate::documents::{NONE, Reach, WINDOW};
use crate::error::IndexError;
use crate::search::scratch::Scratch;
use crate::state::State;

/// Adds up `scratch.keyword` and marks the documents with a term; returns the factor of each sum.
pub(crate) fn score(
    state: &State,
    terms: &[(String, u32)],
    context: &Bitmap,
    weights: &Weights,
    scratch: &mut Scratch,
) -> Result<f32, IndexError> {
    let documents = &state.documents;
    let count = documents.len() as f64;
    let mean_length = (documents.total_length() as f64 / count.max(1.0)).max(1e-9) as f32;
    let mut whole = 1e-9_f32;
    for (term, times) in terms {
        scratch.postings.clear();
        for part in &state.text {
            part.collect(term, &mut scratch.postings)?;
        }
        if documents.len() < documents.slot_count() as usize {
            scratch.postings.retain(|posting| documents.is_alive(posting.slot));
        }
        let with_term = scratch.postings.len() as f64;
        let idf = (1.0 + (count - with_term + 0.5) / (with_term + 0.5)).ln() as f32 * *times as f32;
        whole += idf;
        spread(state, context, weights, mean_length, scratch);
        saturate(idf * (weights.k1 + 1.0), weights.k1, scratch);
    }
    // Slots outside of the context may have a share too, but are never read.
    Ok(1.0 / whole)
}

/// Adds the saturated weight of a term to the scores, and prepares for the next term.
fn saturate(most: f32, k1: f32, scratch: &mut Scratch) {
    let slots: u32 = scratch.touched.iter().map(|range| range.end - range.start).sum();
    // A frequent term touches a large number of short ranges, so one pass over all slots is faster.
    if slots as usize * 3 > scratch.term.len() {
        scratch.touched.clear();
        scratch.touched.push(0..scratch.term.len() as u32);
    }
    for range in scratch.touched.drain(..) {
        let range = range.start as usize..range.end as usize;
        for (sum, score) in scratch.term[range.clone()].iter_mut().zip(&mut scratch.keyword[range]) {
            *score += most * *sum / (*sum + k1);
            *sum = 0.0;
        }
    }
}

/// Adds the weight of each posting to its slot and shares of it to the neighbours, and records the touched slots.
fn spread(state: &State, context: &Bitmap, weights: &Weights, mean_length: f32, scratch: &mut Scratch) {
    let documents = &state.documents;
    let [one, two, three, four] = weights.window;
    let shares = [four, three, two, one, 1.0, one, two, three, four];
    for posting in &scratch.postings {
        let slot = posting.slot;
        if !context.contains(slot) {
            continue;
        }
        scratch.holds_term.insert(slot);
        let length = documents.length(slot) as f32 / mean_length;
        let weight = posting.count as f32 / (1.0 - weights.b + weights.b * length);
        match documents.reach(slot) {
            Reach::Beside { before, after } => {
                let at = slot as usize;
                let shares = &shares[WINDOW - before..=WINDOW + after];
                for (sum, share) in scratch.term[at - before..=at + after].iter_mut().zip(shares) {
                    *sum += weight * share;
                }
                touch(&mut scratch.touched, slot - before as u32..slot + after as u32 + 1);
            }
            Reach::Scattered => {
                scratch.term[slot as usize] += weight;
                touch(&mut scratch.touched, slot..slot + 1);
                for backward in [true, false] {
                    let mut neighbour = slot;
                    for share in weights.window {
                        neighbour = if backward { documents.previous(neighbour) } else { documents.next(neighbour) };
                        if neighbour == NONE {
                            break;
                        }
                        scratch.term[neighbour as usize] += weight * share;
                        touch(&mut scratch.touched, neighbour..neighbour + 1);
                    }
                }
            }
        }
    }
}

/// Records a range, merged with the last one if they are adjacent. Duplicates are harmless.
#[inline]
fn touch(touched: &mut Vec<Range<u32>>, range: Range<u32>) {
    match touched.last_mut() {
        Some(last) if range.start >= last.start && range.start <= last.end => last.end = last.end.max(range.end),
        _ => touched.push(range),
    }
}
