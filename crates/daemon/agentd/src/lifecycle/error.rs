//! Why a daemon did not start.

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
    #[error(transparent)]
    Compose(#[from] ComposeError),
}
