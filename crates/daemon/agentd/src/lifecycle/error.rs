//! Errors of the start.

use std::net::SocketAddr;
use std::path::PathBuf;

use agentd_core::runtime::DataDirError;
use agentd_store::StoreError;

use crate::compose::ComposeError;

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    #[error("cannot listen on {address}; is another daemon running there? Choose another port with SVC_PORT")]
    Listen { address: SocketAddr, source: std::io::Error },
    #[error("the private socket {} cannot be created", .path.display())]
    Socket { path: PathBuf, source: std::io::Error },
    #[error(
        "{difference}; beyond 10 seconds, replicas would take over each other's work; synchronize both clocks by NTP, for instance with `timedatectl set-ntp true`, and start again"
    )]
    ClocksDisagree { difference: String },
    #[error("signal handlers cannot be installed")]
    Signals { source: std::io::Error },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Compose(#[from] ComposeError),
}
