//! Model of the index: documents in a plain list, and the documented ranking computed naively in f64.

use std::collections::{BTreeMap, HashMap};

use agentd_base::Timestamp;
use agentd_search_index::{COSINE_FLOOR, Mode, analyze};

#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) row: u64,
    pub(crate) agent: u64,
    pub(crate) source: u64,
    pub(crate) occurred_at: Timestamp,
    pub(crate) text: String,
    /// Vectors as stored in the index: small indexes are scored exactly.
    pub(crate) vectors: Vec<Vec<f32>>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub(crate) documents: BTreeMap<u64, Known>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) agent: Option<u64>,
    pub(crate) and_of_none: bool,
    pub(crate) sources: Vec<u64>,
    pub(crate) from: Option<Timestamp>,
    pub(crate) until: Option<Timestamp>,
    pub(crate) rows: Option<Vec<u64>>,
    pub(crate) exclude: Option<Vec<u64>>,
}

impl Wanted {
    fn belongs_to(&self, known: &Known) -> bool {
        self.agent.is_none_or(|agent| agent == known.agent || (self.and_of_none && known.agent == 0))
    }

    fn passes(&self, known: &Known) -> bool {
        self.belongs_to(known)
            && (self.sources.is_empty() || self.sources.contains(&known.source))
            && self.from.is_none_or(|from| known.occurred_at >= from)
            && self.until.is_none_or(|until| known.occurred_at < until)
            && self.rows.as_ref().is_none_or(|rows| rows.contains(&known.row))
            && !self.exclude.as_ref().is_some_and(|rows| rows.contains(&known.row))
    }
}

const K1: f64 = 1.2;
const B: f64 = 0.3;
const WINDOW: [f64; 4] = [0.4, 0.3, 0.2, 0.1];
const BEFORE: [f64; 2] = [0.5, 0.3];
const HOUR_MICROS: i64 = 3_600_000_000;

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

impl Model {
    /// Returns row and raw score of all matches, unordered. Queries of the tests are plain words, so their terms equal
    /// those of their text as a document.
    pub(crate) fn search(&self, mode: Mode, text: &str, vector: &[f32], wanted: &Wanted) -> Vec<(u64, f64)> {
        let talks = self.talks();
        // A query in a script without spaces contains pairs of characters.
        let terms: Vec<String> = analyze(text)
            .into_iter()
            .map(|token| token.term)
            .filter(|term| term.is_ascii() || term.chars().count() > 1)
            .collect();
        let counts: HashMap<u64, HashMap<String, f64>> = self
            .documents
            .values()
            .map(|known| {
                let mut counts: HashMap<String, f64> = HashMap::new();
                analyze(&known.text).into_iter().for_each(|token| *counts.entry(token.term).or_default() += 1.0);
                (known.row, counts)
            })
            .collect();
        let length =
            |row: u64| analyze(&self.documents[&row].text).iter().filter(|token| token.is_counted).count() as f64;
        let mean = self.documents.keys().map(|row| length(*row)).sum::<f64>() / self.documents.len() as f64;
        let weight = |row: u64, term: &str| {
            counts[&row].get(term).map_or(0.0, |count| count / (1.0 - B + B * length(row) / mean))
        };
        let mut scores: BTreeMap<u64, f64> = BTreeMap::new();
        for talk in &talks {
            let context: Vec<u64> =
                talk.iter().copied().filter(|row| wanted.belongs_to(&self.documents[row])).collect();
            for (index, row) in context.iter().enumerate() {
                let mut score = 0.0;
                if mode != Mode::Semantic {
                    score += self.keyword_score(&terms, &counts, &context, index, &weight);
                }
                if mode != Mode::Keyword {
                    score += self.meaning(&context, index, vector);
                }
                if self.documents[row].text.trim_end().ends_with('?') {
                    score -= 0.1;
                }
                scores.insert(*row, score);
            }
        }
        scores
            .into_iter()
            .filter(|(row, _)| {
                let known = &self.documents[row];
                let holds = terms.iter().any(|term| counts[row].contains_key(term));
                let means = known.vectors.iter().any(|held| cosine(held, vector) >= f64::from(COSINE_FLOOR));
                wanted.passes(known) && ((mode != Mode::Semantic && holds) || (mode != Mode::Keyword && means))
            })
            .collect()
    }

    fn keyword_score(
        &self,
        terms: &[String],
        counts: &HashMap<u64, HashMap<String, f64>>,
        talk: &[u64],
        index: usize,
        weight: &dyn Fn(u64, &str) -> f64,
    ) -> f64 {
        let (mut sum, mut whole) = (0.0, 0.0);
        for term in terms {
            let with_term = counts.values().filter(|counts| counts.contains_key(term)).count() as f64;
            let idf = (1.0 + (self.documents.len() as f64 - with_term + 0.5) / (with_term + 0.5)).ln();
            whole += idf;
            let mut y = weight(talk[index], term);
            for (distance, share) in (1..).zip(WINDOW) {
                let before = index.checked_sub(distance).map_or(0.0, |at| weight(talk[at], term));
                let after = talk.get(index + distance).map_or(0.0, |row| weight(*row, term));
                y += share * (before + after);
            }
            sum += idf * y * (K1 + 1.0) / (y + K1);
        }
        sum / (whole + 1e-9)
    }

    fn meaning(&self, talk: &[u64], index: usize, query: &[f32]) -> f64 {
        let own = &self.documents[&talk[index]].vectors;
        if own.len() != 1 {
            return own.iter().map(|held| cosine(held, query)).fold(if own.is_empty() { 0.0 } else { -1.0 }, f64::max);
        }
        let mut blend: Vec<f32> = own[0].clone();
        for (distance, share) in (1..).zip(BEFORE) {
            let Some(at) = index.checked_sub(distance) else { break };
            if let [only] = self.documents[&talk[at]].vectors.as_slice() {
                blend.iter_mut().zip(only).for_each(|(sum, number)| *sum += share as f32 * number);
            }
        }
        // The index prevents opposite vectors from cancelling each other.
        let length = blend.iter().map(|n| f64::from(*n) * f64::from(*n)).sum::<f64>().sqrt();
        cosine(&blend, query) * length / length.max(0.1)
    }

    /// Returns the rows of each talk in chronological order; a document without an agent is a talk of its own.
    fn talks(&self) -> Vec<Vec<u64>> {
        let mut sorted: Vec<&Known> = self.documents.values().collect();
        sorted.sort_by_key(|known| (known.agent, known.occurred_at, known.row));
        let mut talks: Vec<Vec<u64>> = Vec::new();
        let mut last: Option<&Known> = None;
        for known in sorted {
            let goes_on = last.is_some_and(|last| {
                last.agent == known.agent
                    && known.agent != 0
                    && known.occurred_at.as_micros() - last.occurred_at.as_micros() <= HOUR_MICROS
            });
            match talks.last_mut() {
                Some(talk) if goes_on => talk.push(known.row),
                _ => talks.push(vec![known.row]),
            }
            last = Some(known);
        }
        talks
    }
}
