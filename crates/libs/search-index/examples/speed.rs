//! Measures search latency, compared with a plain f32 scan in the same run.
//!
//!     cargo run --release -p agentd-search-index --example speed -- [DOCUMENTS] [--vectors-only]
//!
//! Texts of 45 words from a vocabulary with a natural frequency distribution, in conversations of twenty turns by ten
//! agents; vectors with 384 dimensions around two thousand centres. With `--vectors-only` there are no words and no
//! conversations. Recall is measured for purely semantic search (without conversations, names and dates) against exact
//! f32 cosines.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark reports to a terminal and stops at what is wrong"
)]

use std::time::{Duration, Instant};

use agentd_base::Timestamp;
use agentd_search_index::{
    AgentKey, Change, Document, Filter, Index, IndexOptions, Mode, RowNumber, SearchRequest, SourceKey,
};

const DIMENSIONS: usize = 384;
const CENTRES: u64 = 2000;
const VOCABULARY: f64 = 40_000.0;
const WORDS: usize = 45;
const BATCH: u64 = 500;
const QUERIES: u64 = 400;
const RECALL_QUERIES: u64 = 40;

/// SplitMix64 generator, so that every run uses the same numbers.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a word. Nearly half are stop words, as in English; the others have a frequency of 1 / (50 + rank), so
    /// that the most frequent one occurs in about every tenth text.
    fn word(&mut self) -> String {
        if self.next() % 100 < 45 {
            return ["the", "and", "of", "to", "a", "in", "it", "was", "that", "you"][(self.next() % 10) as usize]
                .to_owned();
        }
        let rank = (50.0 * (VOCABULARY / 50.0).powf(self.unit())) as u64;
        let mut spelled = rank.wrapping_mul(0x9e37_79b9) % 0xffff_ffff;
        let mut word = String::new();
        for _ in 0..4 {
            word.push(b"bdfgklmnprtv"[(spelled % 12) as usize] as char);
            word.push(b"aeiou"[(spelled / 12 % 5) as usize] as char);
            spelled /= 60;
        }
        word
    }

    /// Returns an approximately normally distributed number.
    fn normal(&mut self) -> f32 {
        let bits = self.next();
        let sum: u32 = (0..4).map(|n| (bits >> (16 * n) & 0xffff) as u32).sum();
        sum as f32 / 65_536.0 - 2.0
    }
}

fn vector(of: u64) -> Vec<f32> {
    let mut own = Random(of ^ 0x0051_ced5);
    let mut centre = Random(own.next() % CENTRES);
    let vector: Vec<f32> = (0..DIMENSIONS).map(|_| centre.normal() + 0.8 * own.normal()).collect();
    let length = vector.iter().map(|n| n * n).sum::<f32>().sqrt();
    vector.into_iter().map(|n| n / length).collect()
}

fn query_vector(number: u64) -> Vec<f32> {
    let mut noise = Random(number ^ 0x00c0_ffee);
    vector(noise.next() % 100_000).into_iter().map(|n| n + 0.02 * noise.normal()).collect()
}

fn text(of: u64) -> String {
    let mut random = Random(of);
    (0..WORDS).map(|_| random.word()).collect::<Vec<_>>().join(" ")
}

/// Returns three to twelve words that occur in a text.
fn query_text(number: u64) -> String {
    let mut random = Random(number ^ 0xdead);
    let count = 3 + (random.next() % 10) as usize;
    text(random.next() % 100_000).split(' ').take(count).collect::<Vec<_>>().join(" ")
}

fn feed(index: &Index, documents: u64, vectors_only: bool) -> Duration {
    let started = Instant::now();
    let mut fed = Duration::ZERO;
    for first in (0..documents).step_by(BATCH as usize) {
        let rows = first..(first + BATCH).min(documents);
        let texts: Vec<String> = rows.clone().map(|n| if vectors_only { String::new() } else { text(n) }).collect();
        let changes: Vec<_> = rows
            .zip(&texts)
            .map(|(n, text)| {
                Change::Add(Document {
                    row: RowNumber(n + 1),
                    agent: AgentKey(if vectors_only { 0 } else { 1 + n / 20 % 10 }),
                    source: SourceKey(n % 3),
                    occurred_at: Timestamp::from_micros((n * 60 + n / 200 * 7200).cast_signed() * 1_000_000),
                    text,
                    vectors: vec![vector(n)],
                })
            })
            .collect();
        let begun = Instant::now();
        index.apply(&changes).unwrap();
        fed += begun.elapsed();
        if first % (BATCH * 40) == 0 {
            index.flush(&first.to_le_bytes()).unwrap();
            while index.maintain().unwrap() {}
        }
    }
    index.flush(b"all").unwrap();
    while index.maintain().unwrap() {}
    index.flush(b"all of it").unwrap();
    println!(
        "  fed {documents} in {:.1} s, of which applying {:.1} s",
        started.elapsed().as_secs_f64(),
        fed.as_secs_f64()
    );
    fed
}

/// Pause between queries at a rate of 30 per second.
const PACE: Duration = Duration::from_millis(33);

struct Times(Vec<f64>);

impl Times {
    fn of(name: &str, reference: Option<&Self>, run: impl Fn(u64)) -> Self {
        Self::with_pauses(name, Duration::ZERO, reference, run)
    }

    /// Measures with pauses, after which the processor caches contain little of the index.
    fn with_pauses(name: &str, pause: Duration, reference: Option<&Self>, run: impl Fn(u64)) -> Self {
        (0..10).for_each(&run);
        let worked = processor_ms();
        let mut times: Vec<f64> = (0..QUERIES)
            .map(|query| {
                std::thread::sleep(pause);
                let started = Instant::now();
                run(query);
                started.elapsed().as_secs_f64() * 1e3
            })
            .collect();
        let worked = (processor_ms() - worked) / QUERIES as f64;
        times.sort_by(f64::total_cmp);
        let times = Self(times);
        let ratio =
            reference.map_or(String::new(), |of| format!("   {:5.2} of the f32 scan", times.at(0.5) / of.at(0.5)));
        println!(
            "  {name:30} p50 {:7.2} ms   p99 {:7.2} ms   on the processor {worked:7.2} ms{ratio}",
            times.at(0.5),
            times.at(0.99)
        );
        times
    }

    fn at(&self, share: f64) -> f64 {
        self.0[((self.0.len() - 1) as f64 * share).ceil() as usize]
    }
}

/// Uses eight sums, so that the compiler can vectorize it.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0_f32; 8];
    for (a, b) in a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0) {
        for lane in 0..8 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    sums.iter().sum()
}

fn scan(matrix: &[f32], query: &[f32]) -> Vec<(f32, u64)> {
    let mut best: Vec<(f32, u64)> = Vec::new();
    for (row, vector) in (1..).zip(matrix.chunks_exact(DIMENSIONS)) {
        keep(&mut best, dot(vector, query), row);
    }
    best
}

fn keep(best: &mut Vec<(f32, u64)>, score: f32, row: u64) {
    if best.len() < 10 || score > best[9].0 {
        best.push((score, row));
        best.sort_by(|a, b| b.0.total_cmp(&a.0));
        best.truncate(10);
    }
}

/// Returns the CPU time of this process, which other load affects less than wall time.
fn processor_ms() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or_default() / 1e6
}

fn resident_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<f64>().ok()).unwrap_or_default() / 1024.0
}

fn recall(index: &Index, documents: u64) -> f64 {
    let queries: Vec<Vec<f32>> = (0..RECALL_QUERIES).map(query_vector).collect();
    let mut exact: Vec<Vec<(f32, u64)>> = vec![Vec::new(); queries.len()];
    for n in 0..documents {
        let vector = vector(n);
        for (best, query) in exact.iter_mut().zip(&queries) {
            keep(best, dot(&vector, query), n + 1);
        }
    }
    let mut right = 0;
    for (query, exact) in queries.iter().zip(&exact) {
        let hits = search(index, Mode::Semantic, "", Some(query), Filter::default());
        right += exact.iter().filter(|(_, row)| hits.contains(row)).count();
    }
    right as f64 / (10 * queries.len()) as f64
}

fn search(index: &Index, mode: Mode, text: &str, vector: Option<&[f32]>, filter: Filter<'_>) -> Vec<u64> {
    let request = SearchRequest { mode, text, vector, filter, offset: 0, limit: 10 };
    index.search(&request).unwrap().hits.iter().map(|hit| hit.row.0).collect()
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let documents: u64 = arguments.iter().find_map(|argument| argument.parse().ok()).unwrap_or(100_000);
    let vectors_only = arguments.iter().any(|argument| argument == "--vectors-only");
    println!("{documents} documents{}", if vectors_only { ", vectors only" } else { "" });
    let folder = tempfile::tempdir().unwrap();
    let options = IndexOptions { dimensions: DIMENSIONS, embedding_model: "synthetic".to_owned() };
    let (index, _) = Index::open(folder.path(), options.clone()).unwrap();
    feed(&index, documents, vectors_only);
    drop(index);
    let started = Instant::now();
    let (index, opened) = Index::open(folder.path(), options.clone()).unwrap();
    println!("  opened in {:.1} ms: {:?}", started.elapsed().as_secs_f64() * 1e3, opened.state);
    let started = Instant::now();
    index.warm().unwrap();
    println!("  warmed in {:.1} ms; {:?}", started.elapsed().as_secs_f64() * 1e3, index.size());
    let vectors: Vec<Vec<f32>> = (0..QUERIES).map(query_vector).collect();
    let texts: Vec<String> = (0..QUERIES).map(query_text).collect();
    let at = |query: u64| (texts[query as usize].as_str(), vectors[query as usize].as_slice());
    search(&index, Mode::Hybrid, at(0).0, Some(at(0).1), Filter::default());
    println!(
        "  resident {:.0} MB, heap {:.0} MB, disk {:.0} MB",
        resident_mb(),
        index.memory_bytes() as f64 / 1e6,
        index.disk_bytes() as f64 / 1e6
    );
    let matrix: Vec<f32> = (0..documents.min(100_000)).flat_map(vector).collect();
    let reference = Times::of("f32 scan, words not searched", None, |query| {
        std::hint::black_box(scan(&matrix, at(query).1));
    });
    drop(matrix);
    let scaled = Times(reference.0.iter().map(|ms| ms * documents as f64 / documents.min(100_000) as f64).collect());
    let run = |mode, filter: Filter<'_>, query: u64| {
        std::hint::black_box(search(&index, mode, at(query).0, Some(at(query).1), filter));
    };
    let timed = |name: &str, mode, filter: Filter<'_>| {
        Times::of(name, Some(&scaled), |query| run(mode, filter, query));
    };
    timed("meaning", Mode::Semantic, Filter::default());
    if vectors_only {
        println!("  recall@10 {:.4}", recall(&index, documents));
        return;
    }
    timed("words", Mode::Keyword, Filter::default());
    timed("hybrid", Mode::Hybrid, Filter::default());
    timed("hybrid, one agent of ten", Mode::Hybrid, Filter { agent: Some(AgentKey(3)), ..Filter::default() });
    let from = Some(Timestamp::from_micros((documents * 90).cast_signed() * 1_000_000));
    timed("hybrid, since a date", Mode::Hybrid, Filter { from, ..Filter::default() });
    for (name, mode) in [("meaning", Mode::Semantic), ("words", Mode::Keyword), ("hybrid", Mode::Hybrid)] {
        let name = format!("{name}, 30 a second");
        Times::with_pauses(&name, PACE, Some(&scaled), |query| run(mode, Filter::default(), query));
    }
    println!("  resident {:.0} MB", resident_mb());
}
