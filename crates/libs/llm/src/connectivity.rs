//! Result of a connectivity test of a provider.

/// Result of a successful test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectivityReport {
    /// Time from the request to the complete response, in milliseconds.
    pub latency_ms: u64,
    /// Model names in the vendor's order, at most [`Self::MAX_MODELS`].
    pub models: Vec<String>,
}

impl ConnectivityReport {
    pub const MAX_MODELS: usize = 500;
}
