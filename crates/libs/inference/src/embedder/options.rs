//! Options of the local sentence encoder.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use agentd_base::{Backoff, Entropy};
use agentd_process::Spawner;

use crate::embedder::EmbedderLimits;

/// Configuration of the embedder.
#[derive(Debug, Clone)]
pub struct EmbedderOptions {
    /// Candidate paths of a GGUF file of a BERT sentence encoder with [`DIMENSIONS`](crate::embedder::DIMENSIONS)
    /// dimensions. The first existing file is used, even if it was created after the start.
    pub model_paths: Vec<PathBuf>,
    /// Command of the inference process: the daemon's own binary and the hidden subcommand.
    pub worker_command: (PathBuf, Vec<OsString>),
    pub spawner: Spawner,
    /// Used for jitter of restarts.
    pub entropy: Entropy,
    pub limits: EmbedderLimits,
    /// Number of threads for texts, in addition to the one for queries. `None` chooses it for the machine; two with two
    /// processors.
    pub text_threads: Option<usize>,
    /// Time without requests after which the process is ended to release its memory.
    pub idle_unload: Duration,
    /// Maximum number of queued and running queries; more are refused as `overloaded`.
    pub max_queries: usize,
    /// Maximum number of queued and running texts of all calls; more are refused as `overloaded`.
    pub max_texts: usize,
    /// Time without output after which a busy process is considered hung and killed.
    pub stall_timeout: Duration,
    /// Delay before a restart, beginning with the second consecutive failure.
    pub restart_backoff: Backoff,
}

impl EmbedderOptions {
    /// Creates the default options with `program arguments…` as the inference process.
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
