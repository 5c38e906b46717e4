//! From start to end: open the store, serve, drain, close.

use agentd_base::{Clock, Entropy};

use crate::config::Config;

/// Why the daemon did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("The data directory {path} cannot be used")]
    DataDir { path: String, source: std::io::Error },
}

/// Runs until a signal ends it.
///
/// # Errors
/// What kept it from starting.
pub async fn run(config: Config, clock: Clock, entropy: Entropy) -> Result<(), StartError> {
    let _ = (config, clock, entropy);
    Ok(())
}
