//! Settings of the sentence encoder inside.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use agentd_base::{Backoff, Entropy};
use agentd_process::Spawner;

use crate::embedder::EmbedderLimits;

/// How the embedder is run.
#[derive(Debug, Clone)]
pub struct EmbedderOptions {
    /// Where a GGUF file of a sentence encoder of the BERT family with [`DIMENSIONS`](crate::embedder::DIMENSIONS) dimensions may
    /// lie. The first that is there is used, also if it came after the start.
    pub model_paths: Vec<PathBuf>,
    /// What starts the inference process: the daemon's own binary and the hidden subcommand.
    pub worker_command: (PathBuf, Vec<OsString>),
    pub spawner: Spawner,
    /// For the spread of restarts.
    pub entropy: Entropy,
    pub limits: EmbedderLimits,
    /// Threads that embed texts, besides the one for queries. `None`: as many as suit the machine, two
    /// on one with two processors.
    pub text_threads: Option<usize>,
    /// The process ends after so long without a request, and its memory with it.
    pub idle_unload: Duration,
    /// Queries that wait or are worked on; more are refused as `overloaded`.
    pub max_queries: usize,
    /// Texts that wait or are worked on, of all calls together; more are refused as `overloaded`.
    pub max_texts: usize,
    /// A process that says nothing for so long while it has work is taken for hung, and killed.
    pub stall_timeout: Duration,
    /// How long to wait before a restart after the second failure in a row, and after each further one.
    pub restart_backoff: Backoff,
}

impl EmbedderOptions {
    /// The usual settings for `program arguments…` as the inference process.
    #[must_use]
    pub fn new(
        model_paths: Vec<PathBuf>,
        program: impl Into<PathBuf>,
        arguments: Vec<OsString>,
        spawner: Spawner,
        entropy: Entropy,
    ) -> Self {
        Self {
            model_paths,
            worker_command: (program.into(), arguments),
            spawner,
            entropy,
            limits: EmbedderLimits::default(),
            text_threads: None,
            idle_unload: Duration::from_secs(300),
            max_queries: 64,
            max_texts: 4096,
            stall_timeout: Duration::from_secs(30),
            restart_backoff: Backoff {
                base: Duration::from_secs(1),
                multiplier: 2.0,
                cap: Duration::from_secs(60),
                jitter: 0.2,
            },
        }
    }
}
