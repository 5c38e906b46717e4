//! What a connection may take and cost. Every limit has a default that suits real servers.

use std::time::Duration;

/// Which handshake opens a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Lifecycle {
    /// The one that the server understands. Over stdio `initialize` goes first and
    /// `server/discover` follows when it is refused: early servers end when they read a request
    /// that they do not know, while later ones still take the old handshake or say that they do
    /// not. Over HTTP, where a refusal costs nothing, `server/discover` goes first.
    #[default]
    Auto,
    /// `initialize` alone: protocol versions up to 2025-11-25.
    Initialize,
    /// `server/discover` alone: protocol versions from 2026-07-28 on.
    Discover,
}

/// Limits of one connection.
#[derive(Debug, Clone)]
pub struct ConnectOptions {
    pub lifecycle: Lifecycle,
    /// From the first byte to a working session. A server that a package runner must download
    /// first needs more than the default of 30 seconds.
    pub handshake_limit: Duration,
    /// The longest single message that is read or written.
    pub max_message_bytes: usize,
    /// How many requests may wait for an answer at once.
    pub max_requests_in_flight: usize,
    /// How much of the program's error output is kept for diagnosis.
    pub stderr_tail_bytes: usize,
    pub list_limits: ListLimits,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self {
            lifecycle: Lifecycle::Auto,
            handshake_limit: Duration::from_secs(30),
            max_message_bytes: 8 * 1024 * 1024,
            max_requests_in_flight: 64,
            stderr_tail_bytes: 16 * 1024,
            list_limits: ListLimits::default(),
        }
    }
}

/// Limits of asking a server for its tools.
#[derive(Debug, Clone)]
pub struct ListLimits {
    /// For all pages together.
    pub time: Duration,
    pub max_pages: usize,
    pub max_tools: usize,
    /// Of all schemas together, as JSON text.
    pub max_total_bytes: usize,
    /// Of one schema, as JSON text.
    pub max_schema_bytes: usize,
    pub max_schema_depth: usize,
    /// Longer descriptions are cut.
    pub max_description_characters: usize,
}

impl Default for ListLimits {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(30),
            max_pages: 64,
            max_tools: 512,
            max_total_bytes: 2 * 1024 * 1024,
            max_schema_bytes: 64 * 1024,
            max_schema_depth: 24,
            max_description_characters: 4_000,
        }
    }
}

/// Limits of one call of a tool.
#[derive(Debug, Clone, Copy)]
pub struct CallLimits {
    pub time: Duration,
    /// Of the text that is handed on; of the structured content as JSON text, separately.
    pub max_output_bytes: usize,
}

impl Default for CallLimits {
    fn default() -> Self {
        Self { time: Duration::from_secs(60), max_output_bytes: 256 * 1024 }
    }
}
