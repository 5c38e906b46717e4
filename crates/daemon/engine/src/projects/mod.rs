//! Projects: named containers with a status, for conversations and whatever else belongs together.
//!
//! Invariants
//! - A change and its events are one transaction. A change that changes nothing tells nobody.
//! - A deleted project is out of sight at once, also as the project of what named it: whoever reads a
//!   row that names a project asks [`living_project`]. The names themselves are taken off afterwards,
//!   a batch a transaction, by those who registered as [`NamesProjects`].
//! - A project is named by its id alone; names of projects need not differ.
//!
//! Events: `project.created`, `project.updated` (name, description or status), `project.completed`
//! besides it when the status becomes `completed`, `project.deleted`.
//!
//! Deliberately absent: what belongs to a project. That stands with the thing that names it.

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
pub use service::{NamesProjects, Projects};
pub use store::living_project;

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
