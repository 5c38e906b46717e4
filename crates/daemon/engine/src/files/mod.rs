//! The files of agents' workspaces, for people: listed, read, written, moved and removed over HTTP.
//!
//! Invariants
//! - Everything goes through [`crate::workspaces::Workspace`], as the agents' own tools do: nothing outside the workspace
//!   is reached, no link is followed, and its bounds hold.
//! - A file is whole and on the disk when its writing is answered, and what its writer did not see is not overwritten
//!   where it says which version it knows.
//! - What a workspace holds is never shown as a page of the daemon: its files are attachments, of a type that runs
//!   nothing.
//!
//! Deliberately absent: rows. What is on the disk is the truth.

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
