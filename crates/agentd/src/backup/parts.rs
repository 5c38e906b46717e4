//! What this domain has besides its routes.

use super::backups::Backups;
use super::worker::DailyBackup;
use crate::runtime::{Domain, Workers};

impl Domain for Backups {
    fn add_workers(&self, workers: &mut Workers) {
        workers.add(DailyBackup::new(self.clone()));
    }
}
