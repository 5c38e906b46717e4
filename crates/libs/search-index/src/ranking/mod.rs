//! Score of a matching document for a query, composed of:
//!
//! - keywords: BM25 over a window of the talk ([`keyword`]), as a share of the maximum for the query;
//! - meaning: the cosine of the document's vector blended with the preceding ones ([`blend`]);
//! - a bonus for a speaker ([`speakers`]) and for a date ([`dates`]) named in the query, and a malus for texts that
//!   only ask a question.
//!
//! The score of a document does not depend on the filter, except that talks only include the selected agents, and that
//! results beyond the best 256 have the score of the scan. All weights are in [`weights`]. Deliberately absent: recency
//! and importance except for breaking ties, which the caller may add.

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

/// Query in the form needed for ranking.
#[derive(Debug)]
pub(crate) struct Question<'a> {
    pub(crate) mode: Mode,
    pub(crate) terms: &'a [(String, u32)],
    pub(crate) date: Option<NamedDate>,
}

/// Query against all documents of a context; the score of a document is computed on demand.
pub(crate) struct Ranking<'a> {
    state: &'a State,
    kernel: Kernel,
    /// Keyword score of each slot, to be divided by the maximum for the query.
    keyword: &'a [f32],
    keyword_share: f32,
    /// Cosine of each slot's best vector; empty in keyword mode.
    pub(crate) cosine: &'a [f32],
    /// Slots that contain one of the terms themselves.
    pub(crate) holds_term: &'a Bitmap,
    date: Option<NamedDate>,
    named: Bitmap,
    speaker: f32,
}

impl<'a> Ranking<'a> {
    /// Scores keywords, and then takes part in the scan of the vectors, if there is one.
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

    /// Returns the score of a document of the context, based on the cosines of the scan.
    #[inline]
    pub(crate) fn score(&self, slot: u32) -> f32 {
        let found = if self.cosine.is_empty() { f32::NEG_INFINITY } else { self.found_meaning(slot) };
        self.score_with(slot, found)
    }

    /// Returns the score for a given cosine of the document's blend; minus infinity without a vector.
    #[inline]
    pub(crate) fn score_with(&self, slot: u32, meaning: f32) -> f32 {
        let weights = &WEIGHTS;
        let mut sum = self.keyword.get(slot as usize).copied().unwrap_or(0.0) * self.keyword_share;
        sum += if meaning == f32::NEG_INFINITY { 0.0 } else { weights.meaning * meaning };
        if self.state.documents.is_question(slot) {
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
