//! Precision and recall against sentences labelled by hand (`testdata/labelled.txt`, whose head says
//! how they were made and which half the rules were adjusted on). A mention is right if its bytes, its
//! type and, where the label names one, its key are.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::types::EntityType;
use crate::{Mention, extract};

const LABELLED: &str = include_str!("../testdata/labelled.txt");

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Half {
    /// Looked at while the rules were adjusted.
    Tuned,
    /// Written before the extractor ran, and not adjusted to.
    Unseen,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    pub range: Range<usize>,
    pub entity_type: EntityType,
    pub key: Option<String>,
}

#[derive(Debug, Clone)]
pub struct Sentence {
    pub half: Half,
    pub text: String,
    pub labels: Vec<Label>,
}

/// Counts of mentions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Score {
    pub right: u32,
    /// Found, and not labelled so.
    pub wrong: u32,
    pub missed: u32,
}

impl Score {
    /// The share of what was found that is right; 1 if nothing was found.
    #[must_use]
    pub fn precision(&self) -> f64 {
        share(self.right, self.wrong)
    }

    /// The share of the labels that was found; 1 if there are none.
    #[must_use]
    pub fn recall(&self) -> f64 {
        share(self.right, self.missed)
    }

    #[must_use]
    pub fn f1(&self) -> f64 {
        share(2 * self.right, self.wrong + self.missed)
    }
}

fn share(part: u32, rest: u32) -> f64 {
    if part + rest == 0 { 1.0 } else { f64::from(part) / f64::from(part + rest) }
}

/// Every labelled sentence, in the file's order.
#[must_use]
pub fn sentences() -> Vec<Sentence> {
    let mut half = Half::Tuned;
    let mut sentences = Vec::new();
    for line in LABELLED.lines().filter(|line| !line.is_empty()) {
        match line {
            "## tuned" => half = Half::Tuned,
            "## unseen" => half = Half::Unseen,
            _ if line.starts_with('#') => {}
            _ => sentences.push(sentence(half, line)),
        }
    }
    sentences
}

fn sentence(half: Half, line: &str) -> Sentence {
    let (mut text, mut labels) = (String::new(), Vec::new());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('[') {
        text.push_str(before);
        let Some((label, after)) = after.split_once(']') else { break };
        let mut parts = label.split('|');
        let start = text.len();
        text.push_str(parts.next().unwrap_or_default());
        if let Some(entity_type) = parts.next().and_then(EntityType::from_name) {
            labels.push(Label { range: start..text.len(), entity_type, key: parts.next().map(str::to_owned) });
        }
        rest = after;
    }
    text.push_str(rest);
    Sentence { half, text, labels }
}

/// What was found and is no label, and what was not found, of one sentence.
#[must_use]
pub fn compare(sentence: &Sentence) -> (Vec<Mention>, Vec<Label>, Vec<Mention>) {
    let is_right = |mention: &Mention, label: &Label| {
        mention.range == label.range
            && mention.entity_type == label.entity_type
            && label.key.as_ref().is_none_or(|key| *key == mention.key)
    };
    let (right, wrong): (Vec<Mention>, Vec<Mention>) = extract(&sentence.text)
        .mentions
        .into_iter()
        .partition(|mention| sentence.labels.iter().any(|label| is_right(mention, label)));
    let missed = sentence.labels.iter().filter(|label| !right.iter().any(|mention| is_right(mention, label)));
    let missed = missed.cloned().collect();
    (wrong, missed, right)
}

/// The scores of one half by type, and over all.
#[must_use]
pub fn scores(half: Half) -> (BTreeMap<EntityType, Score>, Score) {
    let (mut by_type, mut all) = (BTreeMap::<EntityType, Score>::new(), Score::default());
    for sentence in sentences().iter().filter(|sentence| sentence.half == half) {
        let (wrong, missed, right) = compare(sentence);
        for mention in &right {
            by_type.entry(mention.entity_type).or_default().right += 1;
        }
        for mention in &wrong {
            by_type.entry(mention.entity_type).or_default().wrong += 1;
        }
        for label in &missed {
            by_type.entry(label.entity_type).or_default().missed += 1;
        }
    }
    for score in by_type.values() {
        all.right += score.right;
        all.wrong += score.wrong;
        all.missed += score.missed;
    }
    (by_type, all)
}

#[cfg(test)]
mod tests {
    use super::{Half, compare, scores, sentences};

    #[test]
    fn the_labelled_set_is_large_and_well_formed() {
        let all = sentences();
        assert!(all.len() >= 240, "{}", all.len());
        for half in [Half::Tuned, Half::Unseen] {
            assert!(all.iter().filter(|sentence| sentence.half == half).count() >= 120);
        }
        for sentence in &all {
            assert!(!sentence.text.contains(['[', ']', '|']), "{}", sentence.text);
        }
    }

    #[test]
    fn extraction_keeps_its_floors() {
        for (half, precision, recall) in [(Half::Tuned, 0.95, 0.95), (Half::Unseen, 0.92, 0.92)] {
            let (_, score) = scores(half);
            for sentence in sentences().iter().filter(|sentence| sentence.half == half && half == Half::Tuned) {
                let (wrong, missed, _) = compare(sentence);
                if !(wrong.is_empty() && missed.is_empty()) {
                    println!("{}", sentence.text);
                    wrong.iter().for_each(|m| println!("   + {} {} [{}]", m.entity_type, m.name, m.key));
                    missed.iter().for_each(|l| println!("   - {} {}", l.entity_type, &sentence.text[l.range.clone()]));
                }
            }
            println!("{half:?}: {:.3} {:.3}", score.precision(), score.recall());
            assert!(score.precision() >= precision && score.recall() >= recall, "{half:?}: {score:?}");
        }
    }
}
