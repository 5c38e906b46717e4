//! How much a document answers a query. One number for each document that matches, out of:
//!
//! - keywords: BM25 over a window of the talk ([`keyword`]), as a share of what the query could reach;
//! - meaning: the cosine of the document's vector blended with those just before it ([`blend`]);
//! - a little for a speaker whom the query names ([`speakers`]) and for a date that it names ([`dates`]), and a little
//!   off for a text that only asks.
//!
//! A document's score does not depend on the filter, except that talks are those of the agents asked for and that what
//! stands behind the best 256 has the scan's score. All weights
//! are in [`weights`]. Deliberately absent: recency and importance beyond breaking ties, which the caller may add.

pub(crate) mod blend;
pub(crate) mod dates;
pub(crate) mod keyword;
pub(crate) mod speakers;
mod weights;

use crate::bitmap::Bitmap;
use crate::error::IndexError;
use crate::model::Mode;
use crate::search::scan::Scan;
use crate::search::scratch::Scratch;
use crate::state::State;
use crate::vectors::dot::Kernel;
use dates::NamedDate;
pub(crate) use weights::WEIGHTS;

/// A query as the ranking needs it.
#[derive(Debug)]
pub(crate) struct Question<'a> {
    pub(crate) mode: Mode,
    pub(crate) terms: &'a [(String, u32)],
    pub(crate) date: Option<NamedDate>,
}

/// A query against all documents of a context: what each of them is worth is added up when it is asked for.
pub(crate) struct Ranking<'a> {
    state: &'a State,
    kernel: Kernel,
    /// Of each slot, to be divided by what the query could reach.
    keyword: &'a [f32],
    keyword_share: f32,
    /// Of each slot's best vector; empty where meaning does not count.
    pub(crate) cosine: &'a [f32],
    /// Slots that hold one of the terms themselves.
    pub(crate) holds_term: &'a Bitmap,
    date: Option<NamedDate>,
    named: Bitmap,
    speaker: f32,
}

impl<'a> Ranking<'a> {
    /// Counts words, and then takes part in the scan that compares meanings, where there is one.
    pub(crate) fn prepare(
        state: &'a State,
        kernel: Kernel,
        question: &Question<'_>,
        scan: Option<Scan>,
        context: &Bitmap,
        scratch: &'a mut Scratch,
    ) -> Result<Self, IndexError> {
        let weights = &WEIGHTS;
        scratch.begin(state.documents.slot_count() as usize);
        let mut keyword_share = 0.0;
        if question.mode != Mode::Semantic {
            scratch.begin_words();
            keyword_share = keyword::score(state, question.terms, context, weights, scratch)?;
        }
        let named = speakers::named_in(state, question.terms, context, weights)?;
        if let Some(scan) = scan {
            scratch.begin_meaning();
            scratch.shares = scan.finish(state, &mut scratch.cosine);
        }
        Ok(Self {
            state,
            kernel,
            keyword: &scratch.keyword,
            keyword_share,
            cosine: &scratch.cosine,
            holds_term: &scratch.holds_term,
            date: question.date,
            named,
            speaker: if question.mode == Mode::Semantic { weights.speaker / 2.0 } else { weights.speaker },
        })
    }

    /// The score of a document of the context, as far as the scan compared meanings.
    #[inline]
    pub(crate) fn score(&self, slot: u32) -> f32 {
        let found = if self.cosine.is_empty() { f32::NEG_INFINITY } else { self.found_meaning(slot) };
        self.score_with(slot, found)
    }

    /// The score, given what the cosine of the document's blend is: minus infinity without a vector.
    #[inline]
    pub(crate) fn score_with(&self, slot: u32, meaning: f32) -> f32 {
        let weights = &WEIGHTS;
        let mut sum = self.keyword.get(slot as usize).copied().unwrap_or(0.0) * self.keyword_share;
        sum += if meaning == f32::NEG_INFINITY { 0.0 } else { weights.meaning * meaning };
        if self.state.documents.asks(slot) {
            sum -= weights.asking;
        }
        if let Some(date) = &self.date {
            sum += weights.date * date.fit(self.state.documents.occurred_at(slot));
        }
        if self.named.contains(slot) {
            sum += self.speaker;
        }
        sum
    }

    #[inline]
    fn found_meaning(&self, slot: u32) -> f32 {
        self.state.blended_of(slot, &WEIGHTS, self.kernel, self.cosine)
    }
}
