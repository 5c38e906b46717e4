//! Entity recognition: precision, recall and F1 of the tagger on the labelled messages of `scripts/tagger/chat-en.txt`
//! and `chat-fresh-en.txt`, unchanged and in lower case; throughput of the word lists on ordinary text and on
//! worst-case input; and the clustering of 100,000 vectors. Reference for the throughput: splitting the same text into
//! words (`split_whitespace`), in the same run. `--verbose` prints the errors, and `--labelled FILE` only measures the
//! messages of another file. The tagger needs the embedding model:
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
const LABELLED: [(&str, &str); 2] = [
    ("chat-en.txt", include_str!("../../../scripts/tagger/chat-en.txt")),
    ("chat-fresh-en.txt", include_str!("../../../scripts/tagger/chat-fresh-en.txt")),
];
const MESSAGES_PER_CALL: usize = 200;
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

/// Message with the names in it.
struct Message {
    text: String,
    labels: Vec<(Range<usize>, String)>,
}

/// Number of names.
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
    let sets: Vec<(&str, Vec<Message>)> = LABELLED.map(|(name, text)| (name, messages(text))).into();
    let other = arguments.iter().skip_while(|argument| *argument != "--labelled").nth(1);
    match arguments.first().map(PathBuf::from).filter(|path| path.is_file()) {
        Some(model) => {
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            if let Some(file) = other {
                let messages = messages(&std::fs::read_to_string(file).expect("a file of messages"));
                runtime.block_on(quality(model, &[(file, messages)], is_verbose));
                return ExitCode::SUCCESS;
            }
            runtime.block_on(quality(model, &sets, is_verbose));
        }
        None => println!("without an embedding model as the first argument nothing is tagged"),
    }
    throughput(&sets[0].1);
    clustering();
    ExitCode::SUCCESS
}

fn messages(labelled: &str) -> Vec<Message> {
    labelled.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(message).collect()
}

fn message(line: &str) -> Message {
    let (mut text, mut labels) = (String::new(), Vec::new());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('[') {
        text.push_str(before);
        let Some((label, after)) = after.split_once(']') else { break };
        let (name, kind) = label.split_once('|').expect("a name and its type");
        labels.push((text.len()..text.len() + name.len(), kind.to_owned()));
        text.push_str(name);
        rest = after;
    }
    text.push_str(rest);
    Message { text, labels }
}

async fn quality(model: PathBuf, sets: &[(&str, Vec<Message>)], is_verbose: bool) {
    let program = std::env::current_exe().expect("the path of this program");
    let spawner = Spawner::start().expect("a thread");
    let options = EmbedderOptions::new(vec![model], program, vec![WORKER.into()], spawner, Entropy::system());
    let embedder = LocalEmbedder::new(options);
    for (set, messages) in sets {
        for is_lowered in [false, true] {
            let started = Instant::now();
            let scores = scores(&embedder, messages, is_lowered, is_verbose).await;
            let form = if is_lowered { "in lower case" } else { "as they are" };
            println!("{set}, {} messages {form}, {:.0} ms", messages.len(), started.elapsed().as_secs_f64() * 1e3);
            println!("  {:<14} {:>9} {:>9} {:>9} {:>9}", "type", "labels", "precision", "recall", "F1");
            let mut all = Score::default();
            for (kind, score) in scores {
                row(&kind, score);
                all = Score {
                    right: all.right + score.right,
                    wrong: all.wrong + score.wrong,
                    missed: all.missed + score.missed,
                };
            }
            row("all", all);
        }
    }
}

async fn scores(
    embedder: &LocalEmbedder,
    messages: &[Message],
    is_lowered: bool,
    is_verbose: bool,
) -> BTreeMap<String, Score> {
    let mut scores: BTreeMap<String, Score> = BTreeMap::new();
    for messages in messages.chunks(MESSAGES_PER_CALL) {
        // Positions of labels only stay valid if no letter changes its length.
        let text = |message: &Message| {
            if is_lowered { message.text.to_lowercase() } else { message.text.clone() }
        };
        let embedded = embedder.embed_texts(messages.iter().map(text).collect()).await.expect("names");
        for (message, embedded) in messages.iter().zip(embedded) {
            let names = embedded.names.unwrap_or_default();
            let found: Vec<(Range<usize>, String)> =
                names.into_iter().filter_map(|name| Some((name.range, type_of(name.kind)?.to_owned()))).collect();
            for name in &found {
                let score = scores.entry(name.1.clone()).or_default();
                if message.labels.contains(name) { score.right += 1 } else { score.wrong += 1 }
            }
            for label in message.labels.iter().filter(|label| !found.contains(label)) {
                scores.entry(label.1.clone()).or_default().missed += 1;
            }
            if is_verbose && found != message.labels {
                let shown: Vec<_> = found.iter().map(|name| (&message.text[name.0.clone()], &name.1)).collect();
                println!("    {} {shown:?}", message.text);
            }
        }
    }
    scores
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

/// Returns vectors around 40 directions, from a fixed sequence.
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
