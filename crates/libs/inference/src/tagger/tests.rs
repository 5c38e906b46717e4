//! Consistency with the training (`scripts/tagger/examples.py`): features, and names found from the training's vectors.

use std::collections::HashMap;

use serde::Deserialize;

use super::*;
use crate::embedder::chunker::ChunkWord;

#[derive(Deserialize)]
struct Example {
    text: String,
    words: Vec<String>,
    tokens: Vec<Vec<i32>>,
    shapes: Vec<Vec<usize>>,
    /// Vectors of each word, in thousandths.
    vectors: Option<Vec<Vec<i32>>>,
}

fn examples() -> Vec<Example> {
    serde_json::from_str(include_str!("examples.json")).unwrap()
}

/// Splits an example into words with its tokens.
fn cut(example: &Example) -> Vec<Word> {
    let known: HashMap<&str, &Vec<i32>> = example.words.iter().map(String::as_str).zip(&example.tokens).collect();
    let (mut chunk, mut row, mut next) = (Vec::new(), Vec::new(), 0);
    for (start, whole) in example.text.split_whitespace().map(|word| (offset(&example.text, word), word)) {
        let (mut length, before) = (0, row.len());
        while length < whole.len() {
            length += example.words[next].len();
            row.extend(&example.tokens[next]);
            next += 1;
        }
        chunk.push(ChunkWord { range: start..start + whole.len(), tokens: row.len() - before });
    }
    words(&example.text, &chunk, &row, &|word, into| into.extend(known.get(word).copied().into_iter().flatten()))
}

fn offset(text: &str, part: &str) -> usize {
    part.as_ptr() as usize - text.as_ptr() as usize
}

#[test]
fn words_and_shapes_match_the_training() {
    for example in examples() {
        let words = cut(&example);
        let found: Vec<&str> = words.iter().map(|word| &example.text[word.range.clone()]).collect();
        assert_eq!(found, example.words, "{}", example.text);
        for ((mut shape, expected), word) in
            shape::shapes(&example.text, &words).into_iter().zip(&example.shapes).zip(found)
        {
            shape.sort_unstable();
            assert_eq!(&shape, expected, "{word} in {}", example.text);
        }
    }
}

#[test]
fn names_match_the_training_for_its_vectors() {
    let example = examples().swap_remove(0);
    assert_eq!(example.text, PROBE);
    let words = cut(&example);
    #[allow(clippy::cast_precision_loss, reason = "thousandths of small numbers")]
    let vectors: Vec<f32> = example.vectors.iter().flatten().flatten().map(|&number| number as f32 / 1e3).collect();
    let tagger = Tagger::new().unwrap();
    let names = tagger.names(PROBE, &words, &vectors);
    let found: Vec<_> = names.iter().map(|name| (&PROBE[name.range.clone()], name.kind)).collect();
    assert_eq!(found, [("Anna", NameKind::Person), ("Siemens", NameKind::Organization), ("Berlin", NameKind::Place)]);
    assert!(tagger.names("", &[], &[]).is_empty());
    assert!(Tagger::fits(&vectors));
    let mut others = vectors;
    others.rotate_right(1);
    assert!(!Tagger::fits(&others) && !Tagger::fits(&[]));
}

#[test]
fn names_in_overlapping_chunks_are_merged() {
    let name = |start: usize, end: usize| NamedSpan { range: start..end, kind: NameKind::Person };
    let mut names = vec![name(0, 4), name(52, 58), name(66, 70)];
    // The chunks share 50..70, so the boundary is 60.
    append(&mut names, Some(&(0..70)), &(50..120), vec![name(52, 58), name(59, 63), name(66, 72), name(80, 90)]);
    assert_eq!(names, [name(0, 4), name(52, 58), name(66, 72), name(80, 90)]);
    append(&mut names, Some(&(50..120)), &(121..130), vec![name(121, 125)]);
    assert_eq!(names.last(), Some(&name(121, 125)));
}
