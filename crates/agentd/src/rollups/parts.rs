//! What this domain has besides its routes.

use super::service::Rollups;
use super::worker::{StoreLatencies, WidenBuckets};
use crate::runtime::{Domain, Workers};

impl Domain for Rollups {
    fn add_workers(&self, workers: &mut Workers) {
        workers.add(StoreLatencies(self.clone()));
        workers.add(WidenBuckets(self.clone()));
    }
}
