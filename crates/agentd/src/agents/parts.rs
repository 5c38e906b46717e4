//! What this domain has besides its routes.

use super::service::Agents;
use super::worker::PurgeAgents;
use crate::runtime::{Domain, Workers};

impl Domain for Agents {
    fn add_workers(&self, workers: &mut Workers) {
        workers.add(PurgeAgents::new(self.clone()));
    }
}
