//! Options of the local model.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use agentd_base::{Backoff, Entropy};
use agentd_process::Spawner;

/// Configuration of the local model.
#[derive(Debug, Clone)]
pub struct LocalModelOptions {
    /// Command of the inference process: the daemon's own binary and the hidden subcommand.
    pub worker_command: (PathBuf, Vec<OsString>),
    pub spawner: Spawner,
    /// Used for seeds and for jitter of restarts.
    pub entropy: Entropy,
    /// Time without requests after which the process is ended to release its memory.
    pub idle_unload: Duration,
    /// Maximum number of concurrent replies. Each needs memory for a context window. One client uses at most all but
    /// one, so that another client need not wait for the end of its replies.
    pub max_parallel: usize,
    /// Maximum number of queued requests, fair by client; more are refused as `overloaded`.
    pub max_queue: usize,
    /// Maximum number of tokens of a conversation, including the reply; lowered to the limit of the model.
    pub context_length: u32,
    /// Time without output after which a busy process is considered hung and killed.
    pub stall_timeout: Duration,
    /// Delay before a restart, beginning with the second consecutive failure.
    pub restart_backoff: Backoff,
}

impl LocalModelOptions {
    /// Creates the default options with `program arguments…` as the inference process.
    #[must_use]
    pub fn new(program: impl Into<PathBuf>, arguments: Vec<OsString>, spawner: Spawner, entropy: Entropy) -> Self {
        Self {
            worker_command: (program.into(), arguments),
            spawner,
            entropy,
            idle_unload: Duration::from_secs(300),
            max_parallel: 4,
            max_queue: 128,
            context_length: 4096,
            stall_timeout: Duration::from_secs(60),
            restart_backoff: Backoff {
                base: Duration::from_secs(1),
                multiplier: 2.0,
                cap: Duration::from_secs(60),
                jitter: 0.2,
            },
        }
    }
}
