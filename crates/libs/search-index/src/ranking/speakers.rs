//! Names of speakers: many texts begin with the name of the speaker.

use std::collections::HashMap;

use super::weights::Weights;
use crate::analysis::analyze;
use crate::bitmap::Bitmap;
use crate::error::IndexError;
use crate::hashing::FastHashing;
use crate::state::State;
use crate::text::signals::SPEAKER_MARK;

/// Maximum number of words of a query that are examined.
const MAX_WORDS: usize = 256;

/// Returns the documents of `context` whose speaker is named in the query. A name counts if an agent uses it often
/// enough.
pub(crate) fn named_in(
    state: &State,
    terms: &[(String, u32)],
    context: &Bitmap,
    weights: &Weights,
) -> Result<Bitmap, IndexError> {
    let mut found = Bitmap::default();
    for (term, _) in terms {
        spoken_by(state, term, context, weights, |slot| found.insert(slot))?;
    }
    Ok(found)
}

/// Calls `visit` with each document whose speaker's name contains this term.
fn spoken_by(
    state: &State,
    term: &str,
    context: &Bitmap,
    weights: &Weights,
    mut visit: impl FnMut(u32),
) -> Result<(), IndexError> {
    let term = format!("{SPEAKER_MARK}{term}");
    let mut postings = Vec::new();
    for part in &state.text {
        part.collect(&term, &mut postings)?;
    }
    postings.retain(|posting| context.contains(posting.slot));
    let mut of_agent: HashMap<u64, usize, FastHashing> = HashMap::default();
    for posting in &postings {
        *of_agent.entry(state.documents.agent(posting.slot)).or_default() += 1;
    }
    for posting in postings {
        let often = of_agent.get(&state.documents.agent(posting.slot)).is_some_and(|n| *n >= weights.least_spoken);
        if often {
            visit(posting.slot);
        }
    }
    Ok(())
}

/// Removes names that half of all texts contain, which would pull the query's vector towards all of them. A word is
/// such a name if it is a speaker's, or if it is capitalized, not the first word, and common. Returns the query
/// unchanged if fewer than two words would remain.
pub(crate) fn without_names(
    state: &State,
    text: &str,
    context: &Bitmap,
    weights: &Weights,
) -> Result<String, IndexError> {
    let mut kept = Vec::new();
    let mut documents = None;
    for (index, word) in text.split_whitespace().enumerate() {
        let capitalized = index > 0 && word.chars().find(|c| c.is_alphanumeric()).is_some_and(char::is_uppercase);
        let names = |term: &str| {
            let mut spoken = false;
            spoken_by(state, term, context, weights, |_| spoken = true)?;
            if spoken || !capitalized {
                return Ok::<_, IndexError>(spoken);
            }
            let documents = *documents.get_or_insert_with(|| context.iter().count());
            let (least, share) = weights.common_name;
            Ok(holding(state, term, context)? >= least.max((share * documents as f64).ceil() as usize))
        };
        if index >= MAX_WORDS || !is_name(word, names)? {
            kept.push(word);
        }
    }
    Ok(if kept.len() >= 2 { kept.join(" ") } else { text.to_owned() })
}

/// Returns how many documents of the context contain the term.
fn holding(state: &State, term: &str, context: &Bitmap) -> Result<usize, IndexError> {
    let mut postings = Vec::new();
    for part in &state.text {
        part.collect(term, &mut postings)?;
    }
    Ok(postings.iter().filter(|posting| context.contains(posting.slot)).count())
}

/// Whether a word consists of names only.
fn is_name(word: &str, mut names: impl FnMut(&str) -> Result<bool, IndexError>) -> Result<bool, IndexError> {
    let tokens = analyze(word);
    let mut any = false;
    for token in tokens.iter().filter(|token| token.is_counted) {
        if token.is_stop_word || !names(&token.term)? {
            return Ok(false);
        }
        any = true;
    }
    Ok(any)
}
