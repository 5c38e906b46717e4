//! Settings of the model inside.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use agentd_base::{Backoff, Entropy};
use agentd_process::Spawner;

/// How the model inside is run.
#[derive(Debug, Clone)]
pub struct LocalModelOptions {
    /// What starts the inference process: the daemon's own binary and the hidden subcommand.
    pub worker_command: (PathBuf, Vec<OsString>),
    pub spawner: Spawner,
    /// For seeds and for the spread of restarts.
    pub entropy: Entropy,
    /// The process ends after so long without a request, and its memory with it.
    pub idle_unload: Duration,
    /// Replies written at once, in turns. Each takes memory for a context window. One client has all but one of
    /// them at most, so that another one need not wait for the end of its replies.
    pub max_parallel: usize,
    /// Requests that wait beyond those, fair by client; what has no place is refused as `overloaded`.
    pub max_queue: usize,
    /// Tokens of a conversation, reply included; lowered to what a model was trained for.
    pub context_length: u32,
    /// A process that says nothing for so long while it has work is taken for hung, and killed.
    pub stall_timeout: Duration,
    /// How long to wait before a restart after the second failure in a row, and after each further one.
    pub restart_backoff: Backoff,
}

impl LocalModelOptions {
    /// The usual settings for `program arguments…` as the inference process.
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
