//! Why a daemon did not start.

use std::net::SocketAddr;
use std::path::PathBuf;

use agentd_core::runtime::DataDirError;
use agentd_store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    #[error("cannot listen on {address}; is another daemon running there? Choose another port with SVC_PORT")]
    Listen { address: SocketAddr, source: std::io::Error },
    #[error("the private socket {} cannot be made", .path.display())]
    Socket { path: PathBuf, source: std::io::Error },
    #[error(
        "{difference}, and beyond 10 seconds replicas would take each other's work away; set both clocks by NTP, for instance with `timedatectl set-ntp true`, and start again"
    )]
    ClocksDisagree { difference: String },
    #[error("signals cannot be listened for")]
    Signals { source: std::io::Error },
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A domain could not start; its own sentence says why and what to do.
    #[error("{0}")]
    Domain(String),
}

impl StartError {
    /// Wraps the error of a domain with its whole chain.
    #[must_use]
    pub fn domain(error: &dyn std::error::Error) -> Self {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            text.push_str(": ");
            text.push_str(&cause.to_string());
            source = cause.source();
        }
        Self::Domain(text)
    }
}
