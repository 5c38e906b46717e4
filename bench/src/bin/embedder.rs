//! Speed of the embedder, including the process and the pipe around the engine (this program in another role).
//!
//! For each number of threads for texts: texts of 20 to 40 words individually and 32 per call; a query of 12 words
//! alone, at 30 per second from four clients, and during continuous embedding of texts.
//!
//!     cargo run --release -p agentd-bench --features local-model --bin embedder -- MODEL.gguf [SECONDS]

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a benchmark reports to a terminal and stops at the first thing that is wrong"
)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use agentd_base::{Clock, Entropy};
use agentd_bench::figures::Sample;
use agentd_inference::LocalEmbedder;
use agentd_inference::embedder::EmbedderOptions;
use agentd_inference::worker;
use agentd_process::Spawner;

const WORKER: &str = "inference-worker";
const CLIENTS: u64 = 4;
const QUERIES_PER_SECOND: u64 = 30;
const WORDS: &[&str] = &[
    "the",
    "harbour",
    "ferry",
    "morning",
    "she",
    "wrote",
    "letter",
    "to",
    "mountain",
    "friend",
    "about",
    "garden",
    "and",
    "winter",
    "coffee",
    "station",
    "they",
    "painted",
    "kitchen",
    "yellow",
    "because",
    "summer",
    "music",
    "of",
    "teacher",
    "remembered",
    "village",
    "bicycle",
    "market",
    "with",
    "neighbour",
    "travelled",
    "through",
    "forest",
    "before",
    "meeting",
    "project",
    "database",
    "deadline",
    "was",
    "moved",
    "Tuesday",
    "budget",
    "discussed",
    "in",
    "library",
    "birthday",
    "daughter",
    "promised",
    "restaurant",
];

/// Generator of different sentences, the same in every run.
struct Sentences(u64);

impl Sentences {
    fn number(&mut self, below: usize) -> usize {
        // A linear congruential generator with the constants of Knuth's MMIX.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or_default() % below
    }

    fn of(&mut self, words: usize) -> String {
        let words: Vec<&str> = (0..words).map(|_| WORDS[self.number(WORDS.len())]).collect();
        format!("{}.", words.join(" "))
    }

    fn text(&mut self) -> String {
        let words = 20 + self.number(21);
        self.of(words)
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == WORKER) {
        return worker::run(&Clock::system());
    }
    let Some(path) = arguments.first().map(PathBuf::from).filter(|path| path.is_file()) else {
        eprintln!("usage: embedder MODEL.gguf [SECONDS]");
        return ExitCode::FAILURE;
    };
    let seconds = arguments.get(1).map_or(5, |text| text.parse().expect("a number"));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    for threads in [1, 2] {
        runtime.block_on(measure(&path, threads, Duration::from_secs(seconds)));
    }
    ExitCode::SUCCESS
}

async fn measure(path: &Path, threads: usize, time: Duration) {
    let program = std::env::current_exe().expect("the path of this program");
    let spawner = Spawner::start().expect("a thread");
    let options = EmbedderOptions {
        text_threads: Some(threads),
        ..EmbedderOptions::new(vec![path.to_path_buf()], program, vec![WORKER.into()], spawner, Entropy::system())
    };
    let embedder = LocalEmbedder::new(options);
    let mut sentences = Sentences(7);
    println!("threads for texts: {threads}");
    let started = Instant::now();
    embedder.embed_query(&sentences.of(12)).await.expect("a vector");
    println!("  first query, process and model included   {:7.1} ms", milliseconds(started));
    let started = Instant::now();
    embedder.model_id().await.expect("an id");
    println!("  fingerprint of the file                   {:7.1} ms", milliseconds(started));

    for count in [1, 32] {
        let (mut texts, started) = (0u32, Instant::now());
        while started.elapsed() < time {
            let call: Vec<String> = (0..count).map(|_| sentences.text()).collect();
            texts += u32::try_from(embedder.embed_texts(call).await.expect("vectors").len()).unwrap_or_default();
        }
        println!(
            "  texts, {count:2} a call                         {:7.1} /s",
            f64::from(texts) / started.elapsed().as_secs_f64()
        );
    }

    let mut alone = Vec::new();
    let started = Instant::now();
    while started.elapsed() < time {
        alone.push(query(&embedder, &sentences.of(12)).await);
    }
    report("query alone", alone);
    report("query, 30/s of 4 clients", clients(&embedder, time).await);
    let bulk = tokio::spawn({
        let embedder = embedder.clone();
        let mut sentences = Sentences(99);
        async move {
            loop {
                let call: Vec<String> = (0..256).map(|_| sentences.text()).collect();
                embedder.embed_texts(call).await.expect("vectors");
            }
        }
    });
    report("the same while texts are embedded", clients(&embedder, time).await);
    bulk.abort();
    let resident = u32::try_from(embedder.status().resident_bytes >> 10).unwrap_or(u32::MAX);
    println!("  resident                                  {:7.1} MiB", f64::from(resident) / 1024.0);
    embedder.shutdown().await;
}

/// Sends queries at a constant rate regardless of the response times; latency is measured from the due time.
async fn clients(embedder: &LocalEmbedder, time: Duration) -> Vec<f64> {
    let gap =
        Duration::from_secs(1) * u32::try_from(CLIENTS).unwrap_or(1) / u32::try_from(QUERIES_PER_SECOND).unwrap_or(1);
    let clients = (0..CLIENTS).map(|client| {
        let embedder = embedder.clone();
        tokio::spawn(async move {
            let mut sentences = Sentences(1000 + client);
            let begin = tokio::time::Instant::now() + gap * u32::try_from(client).unwrap_or(0) / 4;
            let (mut times, mut due) = (Vec::new(), begin);
            while due < begin + time {
                tokio::time::sleep_until(due).await;
                embedder.embed_query(&sentences.of(12)).await.expect("a vector");
                times.push(due.elapsed().as_secs_f64() * 1000.0);
                due += gap;
            }
            times
        })
    });
    let mut all = Vec::new();
    for client in clients.collect::<Vec<_>>() {
        all.extend(client.await.expect("times"));
    }
    all
}

async fn query(embedder: &LocalEmbedder, text: &str) -> f64 {
    let started = Instant::now();
    embedder.embed_query(text).await.expect("a vector");
    milliseconds(started)
}

fn milliseconds(started: Instant) -> f64 {
    started.elapsed().as_secs_f64() * 1000.0
}

fn report(name: &str, times: Vec<f64>) {
    let sample = Sample::new(times);
    println!("  {name:38} p50 {:6.2} ms  p99 {:6.2} ms", sample.median(), sample.percentile(0.99));
}
