//! What this domain has besides its routes.

use super::service::Notify;
use super::worker::{DeliverNotifications, PurgeNotifications};
use crate::runtime::{Domain, Workers};

impl Domain for Notify {
    fn add_workers(&self, workers: &mut Workers) {
        workers.add(DeliverNotifications(self.clone()));
        workers.add(PurgeNotifications(self.clone()));
    }
}
