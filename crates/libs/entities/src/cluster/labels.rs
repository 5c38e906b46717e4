//! Telling words by class-based TF-IDF (as BERTopic does it: Grootendorst, 2022): how often a term
//! stands in a cluster, times `ln(1 + A / f)`, where `A` is how many terms a cluster has on average and
//! `f` how often the term stands in all of them.

use std::collections::BTreeMap;

use crate::cues;

/// How many words the one-line label is made of.
const LABEL_WORDS: usize = 3;
/// What a cluster is called that has no telling words.
const NAMELESS: &str = "Other";

/// How often a term stands in a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TermCount<'a> {
    /// The form by which terms are the same: a stem, a key.
    pub term: &'a str,
    /// The form to show.
    pub shown: &'a str,
    pub count: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterLabel {
    /// One line: the first keywords.
    pub label: String,
    /// The most telling first.
    pub keywords: Vec<String>,
}

struct Term<'a> {
    count: u64,
    /// The most frequent form, of equals the first in the alphabet.
    shown: BTreeMap<&'a str, u64>,
}

/// A label and up to `keywords` words for each cluster, in the given order. Words of grammar, numbers
/// and single letters tell nothing and are left out.
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
                if count == 0 || !is_telling(term) || !is_telling(shown) {
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
        // "learning" after "machine learning" says nothing more.
        let is_said =
            chosen.iter().any(|known| known.to_lowercase().split(' ').any(|word| word == shown.to_lowercase()));
        if !is_said {
            chosen.push((*shown).to_owned());
        }
    }
    let label = chosen.iter().take(LABEL_WORDS).cloned().collect::<Vec<_>>().join(", ");
    ClusterLabel { label: if label.is_empty() { NAMELESS.to_owned() } else { label }, keywords: chosen }
}

fn is_telling(term: &str) -> bool {
    let folded = term.to_lowercase();
    let is_word = folded.chars().filter(|character| character.is_alphabetic()).nth(1).is_some()
        || folded.chars().any(|character| u32::from(character) > 0x2e80);
    let cues = cues::of(&folded);
    is_word && (cues & cues::TOPICAL != 0 || cues & (cues::FUNCTION | cues::COPULA | cues::DETERMINER) == 0)
}
