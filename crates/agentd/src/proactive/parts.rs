//! What this domain has besides its routes.

use super::service::Proactive;
use super::worker::{StartProactive, WakeDevices};
use crate::runtime::{Domain, Workers};

impl Domain for Proactive {
    fn add_workers(&self, workers: &mut Workers) {
        workers.add(StartProactive(self.clone()));
        workers.add(WakeDevices::new(self.clone()));
    }
}
