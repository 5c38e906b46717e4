//! Limits of a connection. Every limit has a default that suits real servers.

use std::time::Duration;

/// Handshake that opens a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Lifecycle {
    /// Detects the handshake that the server understands. Over stdio, `initialize` is sent first and `server/discover`
    /// after a refusal: early servers exit on an unknown request, while later ones accept the old handshake or refuse
    /// it. Over HTTP, where a refusal has no consequences, `server/discover` is sent first.
    #[default]
    Auto,
    /// Only `initialize`: protocol versions up to 2025-11-25.
    Initialize,
    /// Only `server/discover`: protocol versions from 2026-07-28 on.
    Discover,
}

/// Limits of one connection.
#[derive(Debug, Clone)]
pub struct ConnectOptions {
    pub lifecycle: Lifecycle,
    /// Time from the first byte to an established session. A server that a package runner downloads first needs more
    /// than the default of 30 seconds.
    pub handshake_limit: Duration,
    /// Maximum size of a single message, in either direction.
    pub max_message_bytes: usize,
    /// Maximum number of concurrent requests.
    pub max_requests_in_flight: usize,
    /// Size of the retained end of the program's error output.
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

/// Limits of a tool list request.
#[derive(Debug, Clone)]
pub struct ListLimits {
    /// Total time for all pages.
    pub time: Duration,
    pub max_pages: usize,
    pub max_tools: usize,
    /// Total size of all schemas, as JSON text.
    pub max_total_bytes: usize,
    /// Size of one schema, as JSON text.
    pub max_schema_bytes: usize,
    pub max_schema_depth: usize,
    /// Maximum length of a description; longer ones are truncated.
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

/// Limits of one tool call.
#[derive(Debug, Clone, Copy)]
pub struct CallLimits {
    pub time: Duration,
    /// Maximum size of the text; applies separately to the structured content as JSON text.
    pub max_output_bytes: usize,
}

impl Default for CallLimits {
    fn default() -> Self {
        Self { time: Duration::from_secs(60), max_output_bytes: 256 * 1024 }
    }
}
