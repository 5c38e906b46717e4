//! Fast creation of a large memory: a daemon inside this process, used over HTTP, whose embedder looks up precomputed
//! vectors.
//!
//! A few thousand sentences are embedded by the real model; each text consists of two of them and its vector is their
//! sum. Words and vectors are thus distributed realistically, and no text waits for the model.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agentd::config::ConfigSource;
use agentd::lifecycle::{Running, WorkerMode};
use agentd_base::{Clock, Entropy};
use agentd_bench::load::{Connection, render, request};
use agentd_bench::{Outcome, inside};
use agentd_inference::embedder::{DIMENSIONS, EmbeddedChunk, EmbeddedText, Embedder, EmbedderStatus};
use agentd_inference::{LocalEmbedder, LocalError, LocalErrorCode};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use crate::texts::Texts;

const SENTENCES: usize = 4_000;
const QUERIES: usize = 512;
const CONNECTIONS: usize = 32;

/// Embeddings of sentences and queries by the real model, and its id.
#[derive(Debug)]
pub(crate) struct Known {
    model_id: String,
    sentences: Vec<String>,
    pub(crate) queries: Vec<String>,
    vectors: HashMap<String, Vec<f32>>,
}

impl Known {
    pub(crate) async fn embed(embedder: &LocalEmbedder) -> Outcome<Self> {
        let mut texts = Texts::new(5);
        let sentences: Vec<String> = (0..SENTENCES).map(|_| texts.sentence()).collect();
        let queries: Vec<String> = (0..QUERIES).map(|_| texts.query()).collect();
        let mut vectors = HashMap::new();
        for batch in sentences.chunks(256) {
            let embedded = embedder.embed_texts(batch.to_vec()).await?;
            for (sentence, embedded) in batch.iter().zip(embedded) {
                let chunk = embedded.chunks.into_iter().next().ok_or("a sentence without a vector")?;
                vectors.insert(sentence.clone(), chunk.vector);
            }
        }
        for query in &queries {
            vectors.insert(query.clone(), embedder.embed_query(query).await?);
        }
        Ok(Self { model_id: embedder.model_id().await?, sentences, queries, vectors })
    }

    fn vector(&self, text: &str) -> Vec<f32> {
        let mut sum = vec![0.0_f32; DIMENSIONS];
        let mut add = |vector: &[f32]| sum.iter_mut().zip(vector).for_each(|(sum, number)| *sum += number);
        if let Some(vector) = self.vectors.get(text) {
            add(vector);
        } else {
            for sentence in text.split_inclusive('.') {
                if let Some(vector) = self.vectors.get(sentence.trim()) {
                    add(vector);
                }
            }
        }
        let length = sum.iter().map(|number| number * number).sum::<f32>().sqrt();
        if length > 0.0 {
            sum.iter_mut().for_each(|number| *number /= length);
        } else {
            sum[0] = 1.0;
        }
        sum
    }
}

/// Embedder that responds immediately with known vectors.
#[derive(Debug, Clone)]
struct Lookup(Arc<Known>);

impl Embedder for Lookup {
    fn dimensions(&self) -> usize {
        DIMENSIONS
    }

    fn model_id(&self) -> BoxFuture<'_, Result<String, LocalError>> {
        async { Ok(self.0.model_id.clone()) }.boxed()
    }

    fn embed_query<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<Vec<f32>, LocalError>> {
        let known = self.0.vectors.get(text).cloned();
        async move { known.ok_or_else(|| LocalError::new(LocalErrorCode::Invalid, "not one of the queries")) }.boxed()
    }

    fn embed_texts(&self, texts: Vec<String>) -> BoxFuture<'_, Result<Vec<EmbeddedText>, LocalError>> {
        let embedded = |text: String| EmbeddedText {
            chunks: vec![EmbeddedChunk { vector: self.0.vector(&text), range: 0..text.len() }],
            ..EmbeddedText::default()
        };
        let texts = texts.into_iter().map(embedded).collect();
        async move { Ok(texts) }.boxed()
    }

    fn status(&self) -> EmbedderStatus {
        EmbedderStatus::unloaded("/none.gguf")
    }
}

/// Daemon in this process.
pub(crate) struct EmbeddedDaemon {
    running: Running,
    pub(crate) address: String,
    pub(crate) key: String,
}

impl EmbeddedDaemon {
    pub(crate) async fn start(data_dir: &Path, known: &Arc<Known>) -> Outcome<Self> {
        let mut config = inside::config(ConfigSource::default(), data_dir)?;
        config.embedder = Some(Arc::new(Lookup(Arc::clone(known))));
        let running = Running::start(config, Clock::system(), Entropy::system(), WorkerMode::Spawned).await?;
        let address = running.address.to_string();
        Ok(Self { running, address, key: String::new() })
    }

    /// Creates an account and a key on the first start.
    pub(crate) async fn make_owner(&mut self) -> Outcome<()> {
        self.post("/api/auth/register", json!({"username": "owner", "password": "correct horse"})).await?;
        let key = self.post("/api/auth/keys", json!({"name": "bench"})).await?;
        self.key = key["key"].as_str().ok_or("no key in the answer")?.to_owned();
        Ok(())
    }

    async fn post(&self, path: &'static str, body: Value) -> Outcome<Value> {
        let (address, key) = (self.address.clone(), self.key.clone());
        let asked = move || request(&address, "POST", path, &key, Some(&body.to_string()));
        let (status, answer) = tokio::task::spawn_blocking(asked).await??;
        if !(200..300).contains(&status) {
            return Err(format!("{path} answered {status}: {answer}").into());
        }
        Ok(serde_json::from_str(&answer)?)
    }

    pub(crate) async fn stop(self) {
        self.running.shut_down().await;
    }

    /// Stores `count` episodes and returns the elapsed time.
    pub(crate) async fn fill(&self, known: &Arc<Known>, count: usize) -> Outcome<Duration> {
        let started = Instant::now();
        let mut tasks = Vec::new();
        for lane in 0..CONNECTIONS {
            let mut connection = Connection::open(&self.address).await?;
            let (known, key) = (Arc::clone(known), self.key.clone());
            tasks.push(tokio::spawn(async move {
                let mut texts = Texts::new(100 + lane as u64);
                for _ in (lane..count).step_by(CONNECTIONS) {
                    let [one, other] = [(); 2].map(|()| &known.sentences[texts.number(SENTENCES)]);
                    let day = 1 + texts.number(28);
                    let body = json!({"content": format!("{one} {other}"), "occurred_at": format!("2025-06-{day:02}")});
                    remember(&mut connection, &key, &body).await?;
                }
                Outcome::Ok(())
            }));
        }
        for task in tasks {
            task.await??;
        }
        Ok(started.elapsed())
    }
}

/// Stores an episode and returns its id.
pub(crate) async fn remember(connection: &mut Connection, key: &str, body: &Value) -> Outcome<String> {
    let asked = render("POST", "/api/memory/episodes", key, Some(&body.to_string()), true);
    let (status, answer) = connection.ask(asked.as_bytes()).await?;
    if status != 201 {
        return Err(format!("an episode was answered with {status}: {answer}").into());
    }
    let answer: Value = serde_json::from_str(&answer)?;
    Ok(answer["id"].as_str().ok_or("an episode without an id")?.to_owned())
}
