//! What this domain has besides its routes.

use super::service::Evolution;
use super::worker::{CountTurns, ProposeChanges};
use crate::runtime::{Domain, QueueWorker, Workers};

impl Domain for Evolution {
    fn add_workers(&self, workers: &mut Workers) {
        workers.add(CountTurns(self.clone()));
        workers.add(QueueWorker(ProposeChanges(self.clone())));
    }
}
