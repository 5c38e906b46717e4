//! What this domain has besides its routes.

use super::service::Proactive;
use super::worker::StartProactive;
use crate::runtime::{Domain, Workers};

impl Domain for Proactive {
    fn add_workers(&self, workers: &mut Workers) {
        workers.add(StartProactive(self.clone()));
    }
}
