//! Files of agents' workspaces over HTTP: list, read, write, move and delete.
//!
//! Invariants
//! - All access goes through [`crate::workspaces::Workspace`], like the agents' own tools: no path leaves the
//!   workspace, no link is followed, and its quota applies.
//! - A file is complete and durable when its write is confirmed. A version that the writer did not see is not
//!   overwritten if the writer states the version it knows.
//! - Files are never rendered as pages of the daemon's origin: they are attachments with a media type that runs
//!   nothing.
//!
//! Out of scope: rows. The file system is authoritative.

mod error;
mod model;
mod routes;
mod service;

use agentd_core::parts::{Domain, DomainParts};
use agentd_core::runtime::MetricList;

use routes::routes;

pub use error::FileError;
pub use service::Files;

impl Domain for Files {
    fn parts(&self) -> DomainParts {
        DomainParts {
            routes: routes().with_state(self.clone()),
            workers: Vec::new(),
            metrics: MetricList::default(),
            bindings: Vec::new(),
            shutdown: Vec::new(),
        }
    }
}
