//! Whether a provider answers, and which models it offers.

/// The outcome of a good test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectivityReport {
    /// From the request to the complete answer, in milliseconds.
    pub latency_ms: u64,
    /// In the vendor's order, at most [`Self::MAX_MODELS`].
    pub models: Vec<String>,
}

impl ConnectivityReport {
    pub const MAX_MODELS: usize = 500;
}
