//! Finding entities: precision, recall and F1 of the tagger on the labelled messages of `scripts/tagger/chat-en.txt`, as
//! they are and in lower case; throughput of the word lists on ordinary text and on floods of what is worst for them;
//! and the clustering of 100,000 vectors. Reference for the throughput: reading the same text as words
//! (`split_whitespace`), in the same run. `--verbose` shows what was wrong. The tagger needs the embedding model:
//!
//!     cargo run --release -p agentd-bench --features local-model --bin entities -- MODEL.gguf [--verbose]

#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![allow(clippy::expect_used, reason = "a benchmark stops at the first thing that is wrong")]
#![allow(clippy::cast_precision_loss, reason = "figures for people")]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use agentd_base::{Clock, Entropy};
use agentd_bench::figures::Sample;
use agentd_entities::cluster::{Vectors, cluster};
use agentd_entities::{MAX_TEXT_BYTES, evaluate, extract};
use agentd_inference::embedder::{EmbedderOptions, NameKind};
use agentd_inference::{LocalEmbedder, worker};
use agentd_process::Spawner;

const WORKER: &str = "inference-worker";
const LABELLED: &str = include_str!("../../../scripts/tagger/chat-en.txt");
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

/// A message and the names in it.
struct Message {
    text: String,
    labels: Vec<(Range<usize>, &'static str)>,
}

/// Counts of names.
#[derive(Default, Clone, Copy)]
struct Score {
    right: u32,
    wrong: u32,
    missed: u32,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == WORKER) {
        return worker::run(&Clock::system());
    }
    let is_verbose = arguments.iter().any(|argument| argument == "--verbose");
    let messages = messages();
    match arguments.first().map(PathBuf::from).filter(|path| path.is_file()) {
        Some(model) => {
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            runtime.block_on(quality(model, &messages, is_verbose));
        }
        None => println!("without an embedding model as the first argument nothing is tagged"),
    }
    throughput(&messages);
    clustering();
    ExitCode::SUCCESS
}

fn messages() -> Vec<Message> {
    LABELLED.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(message).collect()
}

fn message(line: &'static str) -> Message {
    let (mut text, mut labels) = (String::new(), Vec::new());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('[') {
        text.push_str(before);
        let Some((label, after)) = after.split_once(']') else { break };
        let (name, kind) = label.split_once('|').expect("a name and its type");
        labels.push((text.len()..text.len() + name.len(), kind));
        text.push_str(name);
        rest = after;
    }
    text.push_str(rest);
    Message { text, labels }
}

async fn quality(model: PathBuf, messages: &[Message], is_verbose: bool) {
    let program = std::env::current_exe().expect("the path of this program");
    let spawner = Spawner::start().expect("a thread");
    let options = EmbedderOptions::new(vec![model], program, vec![WORKER.into()], spawner, Entropy::system());
    let embedder = LocalEmbedder::new(options);
    for (name, is_lowered) in [("as they are", false), ("in lower case", true)] {
        // Only where no letter changes its length the labels stay where they are.
        let text = |message: &Message| {
            if is_lowered { message.text.to_lowercase() } else { message.text.clone() }
        };
        let texts: Vec<String> = messages.iter().map(text).collect();
        let started = Instant::now();
        let embedded = embedder.embed_texts(texts).await.expect("names");
        let took = started.elapsed();
        let mut scores: BTreeMap<&str, Score> = BTreeMap::new();
        for (message, embedded) in messages.iter().zip(embedded) {
            let names = embedded.names.unwrap_or_default();
            let found: Vec<_> = names.into_iter().filter_map(|name| Some((name.range, type_of(name.kind)?))).collect();
            for name in &found {
                let score = scores.entry(name.1).or_default();
                if message.labels.contains(name) { score.right += 1 } else { score.wrong += 1 }
            }
            for label in message.labels.iter().filter(|label| !found.contains(label)) {
                scores.entry(label.1).or_default().missed += 1;
            }
            if is_verbose && found != message.labels {
                println!(
                    "    {} {:?}",
                    message.text,
                    found.iter().map(|n| (&message.text[n.0.clone()], n.1)).collect::<Vec<_>>()
                );
            }
        }
        println!("{} messages {name}, {:.0} ms", messages.len(), took.as_secs_f64() * 1e3);
        println!("  {:<14} {:>9} {:>9} {:>9} {:>9}", "type", "labels", "precision", "recall", "F1");
        let mut all = Score::default();
        for (kind, score) in scores {
            row(kind, score);
            all = Score {
                right: all.right + score.right,
                wrong: all.wrong + score.wrong,
                missed: all.missed + score.missed,
            };
        }
        row("all", all);
    }
}

fn type_of(kind: NameKind) -> Option<&'static str> {
    match kind {
        NameKind::Person => Some("person"),
        NameKind::Organization => Some("organization"),
        NameKind::Place => Some("place"),
        NameKind::Other => None,
    }
}

fn row(name: &str, Score { right, wrong, missed }: Score) {
    let share = |rest: u32| f64::from(right) / f64::from((right + rest).max(1));
    let f1 = 2.0 * f64::from(right) / f64::from((2 * right + wrong + missed).max(1));
    println!("  {name:<14} {:>9} {:>9.3} {:>9.3} {f1:>9.3}", right + missed, share(wrong), share(missed));
}

fn timed<T>(run: impl Fn() -> T) -> Duration {
    let start = Instant::now();
    black_box(run());
    start.elapsed()
}

fn megabytes_per_second(text: &str, took: Duration) -> f64 {
    text.len() as f64 / 1e6 / took.as_secs_f64()
}

fn throughput(messages: &[Message]) {
    let mut text = String::new();
    for message in messages.iter().cycle() {
        if text.len() + message.text.len() + 1 > MAX_TEXT_BYTES {
            break;
        }
        text.push_str(&message.text);
        text.push('\n');
    }
    black_box(extract("The word lists are read once.", &[]));
    let (mut rates, mut evaluated, mut references) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..REPEATS {
        rates.push(megabytes_per_second(&text, timed(|| extract(&text, &[]))));
        evaluated.push(megabytes_per_second(&text, timed(|| evaluate(&text))));
        references.push(megabytes_per_second(&text, timed(|| text.split_whitespace().map(str::len).sum::<usize>())));
    }
    println!("\n1 MB of the messages, MB/s");
    println!("  extract      {}", Sample::new(rates));
    println!("  evaluate        {}", Sample::new(evaluated));
    println!("  split alone  {}", Sample::new(references));
    let one =
        Sample::new(messages.iter().map(|message| timed(|| extract(&message.text, &[])).as_secs_f64() * 1e6).collect());
    println!("  one message, µs: {one}");
    let worst = FLOODS
        .iter()
        .map(|piece| (timed(|| extract(&piece.repeat(MAX_TEXT_BYTES / piece.len()), &[])), piece))
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
