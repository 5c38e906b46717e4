//! Decoding of scores into names: the best sequence in which further words of a name follow its first word.

use crate::embedder::NameKind;
use crate::tagger::network::TAGS;

/// Tag of a word: 0 for none, then for each kind of name the first word and a further one.
type Tag = usize;

const KINDS: [NameKind; 4] = [NameKind::Person, NameKind::Organization, NameKind::Place, NameKind::Other];

const fn is_further(tag: Tag) -> bool {
    tag > 0 && tag.is_multiple_of(2)
}

/// Whether `tag` may follow `before`: a further word follows a word of a name of the same kind.
const fn may_follow(before: Tag, tag: Tag) -> bool {
    !is_further(tag) || before == tag || before + 1 == tag
}

/// Returns the sequence of tags with the highest sum of scores (Viterbi).
pub(crate) fn best_tags(scores: &[[f32; TAGS]]) -> Vec<Tag> {
    let Some((first, rest)) = scores.split_first() else { return Vec::new() };
    let mut sums: [f32; TAGS] = std::array::from_fn(|tag| if is_further(tag) { f32::NEG_INFINITY } else { first[tag] });
    let mut came_from = Vec::with_capacity(rest.len());
    for own in rest {
        let mut best = [0; TAGS];
        let mut next = [f32::NEG_INFINITY; TAGS];
        for tag in 0..TAGS {
            for before in (0..TAGS).filter(|before| may_follow(*before, tag)) {
                if sums[before] + own[tag] > next[tag] {
                    next[tag] = sums[before] + own[tag];
                    best[tag] = before;
                }
            }
        }
        came_from.push(best);
        sums = next;
    }
    let mut tag = (0..TAGS).max_by(|one, other| sums[*one].total_cmp(&sums[*other])).unwrap_or_default();
    let mut tags = vec![tag];
    for best in came_from.iter().rev() {
        tag = best[tag];
        tags.push(tag);
    }
    tags.reverse();
    tags
}

/// Returns the words of each name (first, and one past the last) and its kind.
pub(crate) fn names(tags: &[Tag]) -> Vec<(usize, usize, NameKind)> {
    let mut names: Vec<(usize, usize, NameKind)> = Vec::new();
    for (at, &tag) in tags.iter().enumerate() {
        let Some(kind) = tag.checked_sub(1).and_then(|tag| KINDS.get(tag / 2)) else { continue };
        match names.last_mut() {
            Some((_, end, _)) if is_further(tag) && *end == at => *end = at + 1,
            _ => names.push((at, at + 1, *kind)),
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn further_word_requires_a_first_word() {
        let mut scores = [[0.0; TAGS]; 3];
        // By itself, the second word would be a further word of a person without a first word.
        scores[1][2] = 3.0;
        scores[0][1] = 2.0;
        scores[0][0] = 1.0;
        scores[2][6] = 2.0;
        scores[2][5] = 1.5;
        let tags = best_tags(&scores);
        assert_eq!(tags, [1, 2, 5]);
        assert_eq!(names(&tags), [(0, 2, NameKind::Person), (2, 3, NameKind::Place)]);
        assert_eq!(
            names(&[1, 1, 0, 3, 4, 4]),
            [(0, 1, NameKind::Person), (1, 2, NameKind::Person), (3, 6, NameKind::Organization)]
        );
        assert!(best_tags(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn best_tags_are_a_valid_sequence(scores in prop::collection::vec(prop::array::uniform9(-5f32..5.0), 0..12)) {
            let tags = best_tags(&scores);
            prop_assert_eq!(tags.len(), scores.len());
            prop_assert!(tags.first().is_none_or(|tag| !is_further(*tag)));
            prop_assert!(tags.windows(2).all(|pair| may_follow(pair[0], pair[1])));
        }
    }
}
