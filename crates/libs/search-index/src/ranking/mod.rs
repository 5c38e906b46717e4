//! How much a document answers a query. One number for each document that matches, out of:
//!
//! - keywords: BM25 over a window of the talk ([`keyword`]), as a share of what the query could reach;
//! - meaning: the cosine of the document's vector blended with those just before it ([`blend`]);
//! - a little for a speaker whom the query names ([`speakers`]) and for a date that it names ([`dates`]), and a little
//!   off for a text that only asks.
//!
//! A document's score does not depend on the filter, except that talks are those of the agents asked for and that what
//! stands behind the best 256 has the scan's score. All weights
//! are in [`Weights`]. Deliberately absent: recency and importance beyond breaking ties, which the caller may add.

pub(crate) mod blend;
pub(crate) mod dates;
pub(crate) mod keyword;
pub(crate) mod speakers;

use crate::bitmap::Bitmap;
use crate::documents::WINDOW;
use crate::error::IndexError;
use crate::model::Mode;
use crate::search::scan::Scan;
use crate::search::scratch::Scratch;
use crate::state::State;
use crate::vectors::dot::Kernel;
use dates::NamedDate;

/// The numbers of the ranking.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weights {
    /// BM25: how soon more of the same term stops counting.
    pub(crate) k1: f32,
    /// BM25: how much long documents are held back. Low, since turns of a talk are short anyway.
    pub(crate) b: f32,
    /// Shares of a term's weight that go to neighbours at distance 1, 2, ….
    pub(crate) window: [f32; WINDOW],
    /// Shares of the vectors one and two before in a document's blend.
    pub(crate) before: [f32; 2],
    /// What the cosine counts beside the keyword score.
    pub(crate) meaning: f32,
    pub(crate) speaker: f32,
    pub(crate) asking: f32,
    pub(crate) date: f32,
    /// From so many documents of one agent on, a word before a colon is a speaker's name.
    pub(crate) least_spoken: usize,
    /// A capitalized word of the query is a name that says little if at least so many of the documents hold it, and
    /// at least this share of them.
    pub(crate) common_name: (usize, f64),
}

pub(crate) const WEIGHTS: Weights = Weights {
    k1: 1.2,
    b: 0.3,
    window: [0.4, 0.3, 0.2, 0.1],
    before: [0.5, 0.3],
    meaning: 1.0,
    speaker: 0.1,
    asking: 0.1,
    date: 0.2,
    least_spoken: 3,
    common_name: (5, 0.03),
};

/// A query as the ranking needs it.
#[derive(Debug)]
pub(crate) struct Question<'a> {
    pub(crate) mode: Mode,
    pub(crate) terms: &'a [(String, u32)],
    pub(crate) date: Option<NamedDate>,
}

impl Weights {
    /// What no score of that mode exceeds, so that shares of it lie in 0 to 1.
    pub(crate) fn most(&self, mode: Mode) -> f32 {
        let words = if mode == Mode::Semantic { 0.0 } else { self.k1 + 1.0 };
        let meaning = if mode == Mode::Keyword { 0.0 } else { self.meaning };
        words + meaning + self.speaker + self.date
    }
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
