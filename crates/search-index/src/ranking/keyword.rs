//! BM25 over a window of the talk.
//!
//! Who speaks in turns leaves half of what is meant in the turn before. So a term's weight in a document is its own
//! plus a share of what it weighs in the neighbours, and only their sum is saturated, once for each term:
//!
//! ```text
//! x = count / (1 − b + b · length / mean length)
//! y = x + Σ share[d] · x of the neighbour at distance d, before and after, in the same talk
//! score = Σ over terms: times in the query · idf · y · (k1 + 1) / (y + k1),   divided by Σ times · idf
//! idf = ln(1 + (N − n + ½) / (n + ½))          N documents, n of them with the term, whatever the filter
//! ```
//! The division makes queries of any length comparable with a cosine.

use super::Weights;
use crate::bitmap::Bitmap;
use crate::documents::NONE;
use crate::error::IndexError;
use crate::search::scratch::Scratch;
use crate::state::State;

pub(crate) fn score(
    state: &State,
    terms: &[(String, u32)],
    context: &Bitmap,
    weights: &Weights,
    scratch: &mut Scratch,
) -> Result<(), IndexError> {
    let documents = &state.documents;
    let count = documents.len() as f64;
    let mean_length = (documents.total_length() as f64 / count.max(1.0)).max(1e-9) as f32;
    let mut whole = 1e-9_f32;
    for (term, times) in terms {
        scratch.postings.clear();
        for part in &state.text {
            part.collect(term, &mut scratch.postings)?;
        }
        scratch.postings.retain(|posting| documents.is_alive(posting.slot));
        let with_term = scratch.postings.len() as f64;
        let idf = (1.0 + (count - with_term + 0.5) / (with_term + 0.5)).ln() as f32 * *times as f32;
        whole += idf;
        for posting in &scratch.postings {
            let slot = posting.slot;
            if !context.contains(slot) {
                continue;
            }
            scratch.holds_term.insert(slot);
            let length = documents.length(slot) as f32 / mean_length;
            let weight = posting.count as f32 / (1.0 - weights.b + weights.b * length);
            let mut add = |slot: u32, weight: f32| {
                let sum = &mut scratch.term[slot as usize];
                if *sum == 0.0 {
                    scratch.touched.push(slot);
                }
                *sum += weight;
            };
            add(slot, weight);
            for step in [0, 1] {
                let mut neighbour = slot;
                for share in weights.window {
                    neighbour = if step == 0 { documents.previous(neighbour) } else { documents.next(neighbour) };
                    if neighbour == NONE {
                        break;
                    }
                    add(neighbour, weight * share);
                }
            }
        }
        for slot in scratch.touched.drain(..) {
            let sum = std::mem::take(&mut scratch.term[slot as usize]);
            scratch.keyword[slot as usize] += idf * sum * (weights.k1 + 1.0) / (sum + weights.k1);
        }
    }
    for slot in context.iter() {
        scratch.keyword[slot as usize] /= whole;
    }
    Ok(())
}
