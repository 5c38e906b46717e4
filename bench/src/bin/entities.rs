//! Finding entities: precision, recall and F1 on the labelled sentences, by type and over all, for the
//! half that the rules were adjusted on and for the other; throughput on ordinary text and on floods
//! of what is worst for the rules; and the clustering of 100,000 vectors. Reference for the throughput: reading
//! the same text as words (`split_whitespace`), in the same run. `--verbose` shows what was wrong.

#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![allow(clippy::cast_precision_loss, reason = "figures for people")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use agentd_bench::Outcome;
use agentd_bench::figures::Sample;
use agentd_entities::cluster::{Vectors, cluster};
use agentd_entities::evaluation::{Half, Score, compare, scores, sentences};
use agentd_entities::{MAX_TEXT_BYTES, evaluate, extract};

const REPEATS: usize = 5;
const VECTORS: usize = 100_000;
const DIMENSIONS: usize = 384;
const FLOODS: &[&str] = &[
    "Anna ",
    "Rust ",
    "Go ",
    "A",
    "'s",
    "a-",
    "Dr. ",
    "2022 ",
    "@",
    "a@",
    "A:\n",
    "Anna: ",
    "University of ",
    "von ",
    "my sister ",
    "e\u{301}",
    "我Rust",
    "Bank Inc ",
    "New ",
    "I live in Berlin. ",
    "I live in Berlin and ",
    "Apple pie ",
    "Anna met Tom and ",
    "Anna-",
    "Anna J. ",
    "a few ",
    "uses ",
    "Anna uses Rust, ",
    "is Anna's ",
];

fn main() -> Outcome<()> {
    let is_verbose = std::env::args().any(|argument| argument == "--verbose");
    for (half, name) in [(Half::Tuned, "tuned"), (Half::Unseen, "unseen")] {
        let (by_type, all) = scores(half);
        let count = sentences().iter().filter(|sentence| sentence.half == half).count();
        println!("{name}: {count} sentences");
        println!("  {:<14} {:>9} {:>9} {:>9} {:>9}", "type", "labels", "precision", "recall", "F1");
        for (entity_type, score) in &by_type {
            row(entity_type.as_str(), score);
        }
        row("all", &all);
        if is_verbose {
            mistakes(half);
        }
    }
    throughput();
    clustering();
    Ok(())
}

fn row(name: &str, score: &Score) {
    let labels = score.right + score.missed;
    println!("  {name:<14} {labels:>9} {:>9.3} {:>9.3} {:>9.3}", score.precision(), score.recall(), score.f1());
}

fn mistakes(half: Half) {
    for sentence in sentences().iter().filter(|sentence| sentence.half == half) {
        let (wrong, missed, _) = compare(sentence);
        if wrong.is_empty() && missed.is_empty() {
            continue;
        }
        println!("  {}", sentence.text);
        for mention in wrong {
            println!("    found {} {}", mention.entity_type, mention.name);
        }
        for label in missed {
            println!("    missed {} {}", label.entity_type, &sentence.text[label.range]);
        }
    }
}

fn timed<T>(run: impl Fn() -> T) -> Duration {
    let start = Instant::now();
    black_box(run());
    start.elapsed()
}

fn megabytes_per_second(text: &str, took: Duration) -> f64 {
    text.len() as f64 / 1e6 / took.as_secs_f64()
}

fn throughput() {
    let mut text = String::new();
    let all = sentences();
    for sentence in all.iter().cycle() {
        if text.len() + sentence.text.len() + 1 > MAX_TEXT_BYTES {
            break;
        }
        text.push_str(&sentence.text);
        text.push('\n');
    }
    black_box(extract("The word lists are read once."));
    let (mut rates, mut evaluated, mut references) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..REPEATS {
        rates.push(megabytes_per_second(&text, timed(|| extract(&text))));
        evaluated.push(megabytes_per_second(&text, timed(|| evaluate(&text))));
        references.push(megabytes_per_second(&text, timed(|| text.split_whitespace().map(str::len).sum::<usize>())));
    }
    println!("\n1 MB of the sentences, MB/s");
    println!("  extract      {}", Sample::new(rates));
    println!("  evaluate        {}", Sample::new(evaluated));
    println!("  split alone  {}", Sample::new(references));
    let one = Sample::new(all.iter().map(|sentence| timed(|| extract(&sentence.text)).as_secs_f64() * 1e6).collect());
    println!("  one sentence, µs: {one}");
    let worst = FLOODS
        .iter()
        .map(|piece| (timed(|| extract(&piece.repeat(MAX_TEXT_BYTES / piece.len()))), piece))
        .max_by_key(|(took, _)| *took);
    if let Some((took, piece)) = worst {
        println!("  the worst flood of 1 MB, of {piece:?}: {:.0} ms", took.as_secs_f64() * 1e3);
    }
}

/// Vectors around 40 directions, from a fixed sequence.
fn vectors() -> Vec<i8> {
    let mut state = 1_u64;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        i8::from_le_bytes([state.to_le_bytes()[6]])
    };
    let centers: Vec<i8> = (0..40 * DIMENSIONS).map(|_| next() / 4).collect();
    (0..VECTORS * DIMENSIONS)
        .map(|at| {
            let (vector, dimension) = (at / DIMENSIONS, at % DIMENSIONS);
            centers[vector % 40 * DIMENSIONS + dimension].saturating_add(next() / 3)
        })
        .collect()
}

fn clustering() {
    let values = vectors();
    let vectors = Vectors::Int8 { values: &values, dimensions: DIMENSIONS };
    println!("\nclusters of {VECTORS} vectors of {DIMENSIONS} dimensions, ms");
    for count in [4, 8] {
        let start = Instant::now();
        let clustering = cluster(vectors, count, None);
        let anew = start.elapsed().as_secs_f64() * 1e3;
        let start = Instant::now();
        black_box(cluster(vectors, count, Some(&clustering.centroids)));
        let again = start.elapsed().as_secs_f64() * 1e3;
        let start = Instant::now();
        black_box(clustering.centroids.assign(vectors));
        let assigned = start.elapsed().as_secs_f64() * 1e3;
        println!(
            "  {count}: anew {anew:.0}, from earlier centroids {again:.0}, assignment alone {assigned:.0}; sizes {:?}",
            clustering.sizes
        );
    }
}
