//! Parameters of the ranking.

use crate::documents::WINDOW;
use crate::model::Mode;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Weights {
    /// BM25: saturation of term frequency.
    pub(crate) k1: f32,
    /// BM25: normalization by document length. Low, because turns of a talk are short.
    pub(crate) b: f32,
    /// Shares of a term's weight for neighbours at distance 1, 2, ….
    pub(crate) window: [f32; WINDOW],
    /// Shares of the vectors one and two positions earlier in a document's blend.
    pub(crate) before: [f32; 2],
    /// Weight of the cosine relative to the keyword score.
    pub(crate) meaning: f32,
    pub(crate) speaker: f32,
    pub(crate) asking: f32,
    pub(crate) date: f32,
    /// Minimum number of documents of one agent for a word before a colon to be a speaker's name.
    pub(crate) least_spoken: usize,
    /// Minimum number and share of documents that contain a capitalized word of the query for it to be a common name.
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
    /// Returns the maximum score of the mode, used for normalization to 0 to 1.
    pub(crate) fn max_score(&self, mode: Mode) -> f32 {
        let words = if mode == Mode::Semantic { 0.0 } else { self.k1 + 1.0 };
        let meaning = if mode == Mode::Keyword { 0.0 } else { self.meaning };
        words + meaning + self.speaker + self.date
    }
}
