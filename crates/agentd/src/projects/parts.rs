//! What this domain has besides its routes.

use super::service::Projects;
use super::worker::PurgeProjects;
use crate::runtime::{Domain, Workers};

impl Domain for Projects {
    fn add_workers(&self, workers: &mut Workers) {
        workers.add(PurgeProjects(self.clone()));
    }
}
