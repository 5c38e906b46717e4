//! Projects: named containers with a status that group conversations and other resources.
//!
//! Invariants
//! - A change and its events are one transaction. An update without changes emits no event.
//! - A deleted project is hidden immediately, also as a reference: queries of referencing rows use
//!   [`live_project_sql`]. The references are removed afterwards, one batch per transaction, by the implementations of
//!   [`ProjectReferences`].
//! - A project is identified by its id; names need not be unique.
//!
//! Events: `project.created`, `project.updated` (name, description or status), `project.completed` in addition when the
//! status becomes `completed`, `project.deleted`.
//!
//! Out of scope: the members of a project; they are stored with the referencing resources.

mod error;
mod model;
mod routes;
mod service;
mod store;
mod worker;

use agentd_core::parts::{Domain, DomainParts};
use agentd_core::runtime::{MetricList, PurgeWorker};

use routes::routes;

pub use error::ProjectError;
pub use model::{Project, ProjectChange, ProjectId, ProjectStatus};
pub use service::{ProjectReferences, Projects};
pub use store::live_project_sql;

impl Domain for Projects {
    fn parts(&self) -> DomainParts {
        DomainParts {
            routes: routes().with_state(self.clone()),
            workers: vec![Box::new(PurgeWorker(self.clone()))],
            metrics: MetricList::default(),
            bindings: Vec::new(),
            shutdown: Vec::new(),
        }
    }
}
