//! Keywords by class-based TF-IDF (as in BERTopic: Grootendorst, 2022): the frequency of a term in a cluster, times
//! `ln(1 + A / f)`, where `A` is the average number of terms per cluster and `f` the frequency of the term in all
//! clusters.

use std::collections::BTreeMap;

use crate::cues;

/// Number of words in the one-line label.
const LABEL_WORDS: usize = 3;
/// Label of a cluster without keywords.
const FALLBACK_LABEL: &str = "Other";

/// Frequency of a term in a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TermCount<'a> {
    /// Normalized form, such as a stem or a key.
    pub term: &'a str,
    /// Display form.
    pub shown: &'a str,
    pub count: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterLabel {
    /// One-line label: the first keywords.
    pub label: String,
    /// Most significant keywords first.
    pub keywords: Vec<String>,
}

struct Term<'a> {
    count: u64,
    /// Frequencies of display forms; the most frequent is used, on a tie the first in alphabetical order.
    shown: BTreeMap<&'a str, u64>,
}

/// Returns a label and up to `keywords` words for each cluster, in the given order. Function words, numbers and single
/// letters are excluded.
#[must_use]
#[allow(clippy::cast_precision_loss, reason = "counts of words")]
pub fn labels<'a, C, T>(clusters: C, keywords: usize) -> Vec<ClusterLabel>
where
    C: IntoIterator<Item = T>,
    T: IntoIterator<Item = TermCount<'a>>,
{
    let mut everywhere: BTreeMap<&str, u64> = BTreeMap::new();
    let mut total = 0u64;
    let counted: Vec<BTreeMap<&str, Term<'a>>> = clusters
        .into_iter()
        .map(|terms| {
            let mut counted: BTreeMap<&str, Term<'a>> = BTreeMap::new();
            for TermCount { term, shown, count } in terms {
                if count == 0 || !is_significant(term) || !is_significant(shown) {
                    continue;
                }
                let known = counted.entry(term).or_insert_with(|| Term { count: 0, shown: BTreeMap::new() });
                known.count = known.count.saturating_add(count);
                let shown = known.shown.entry(shown).or_default();
                *shown = shown.saturating_add(count);
                let all = everywhere.entry(term).or_default();
                *all = all.saturating_add(count);
                total = total.saturating_add(count);
            }
            counted
        })
        .collect();
    let average = total as f64 / counted.len().max(1) as f64;
    counted
        .iter()
        .map(|terms| {
            let size: f64 = terms.values().map(|term| term.count as f64).sum();
            let mut ranked: Vec<(f64, &str, &Term<'a>)> = terms
                .iter()
                .map(|(key, term)| {
                    let all = everywhere.get(key).copied().unwrap_or(1) as f64;
                    (term.count as f64 / size * (1.0 + average / all).ln(), *key, term)
                })
                .collect();
            ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
            label(&ranked, keywords)
        })
        .collect()
}

fn label(ranked: &[(f64, &str, &Term<'_>)], keywords: usize) -> ClusterLabel {
    let mut chosen: Vec<String> = Vec::new();
    for (_, _, term) in ranked {
        if chosen.len() >= keywords {
            break;
        }
        let best = term.shown.iter().max_by(|a, b| a.1.cmp(b.1).then(b.0.cmp(a.0)));
        let Some((shown, _)) = best else { continue };
        // "learning" is redundant after "machine learning".
        let is_said =
            chosen.iter().any(|known| known.to_lowercase().split(' ').any(|word| word == shown.to_lowercase()));
        if !is_said {
            chosen.push((*shown).to_owned());
        }
    }
    let label = chosen.iter().take(LABEL_WORDS).cloned().collect::<Vec<_>>().join(", ");
    ClusterLabel { label: if label.is_empty() { FALLBACK_LABEL.to_owned() } else { label }, keywords: chosen }
}

fn is_significant(term: &str) -> bool {
    let folded = term.to_lowercase();
    let is_word = folded.chars().filter(|character| character.is_alphabetic()).nth(1).is_some()
        || folded.chars().any(|character| u32::from(character) > 0x2e80);
    let cues = cues::of(&folded);
    is_word && (cues & cues::TOPICAL != 0 || cues & (cues::FUNCTION | cues::COPULA | cues::DETERMINER) == 0)
}
