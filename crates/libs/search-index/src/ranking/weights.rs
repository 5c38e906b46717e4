//! The numbers of the ranking.

use crate::documents::WINDOW;
use crate::model::Mode;

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

impl Weights {
    /// What no score of that mode exceeds, so that shares of it lie in 0 to 1.
    pub(crate) fn most(&self, mode: Mode) -> f32 {
        let words = if mode == Mode::Semantic { 0.0 } else { self.k1 + 1.0 };
        let meaning = if mode == Mode::Keyword { 0.0 } else { self.meaning };
        words + meaning + self.speaker + self.date
    }
}
