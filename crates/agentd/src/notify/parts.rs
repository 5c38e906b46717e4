//! What this domain has besides its routes.

use super::service::Notify;
use super::worker::{DeliverNotifications, PurgeNotifications};
use crate::runtime::{Domain, QueueWorker, Workers};

impl Domain for Notify {
    fn add_workers(&self, workers: &mut Workers) {
        workers.add(QueueWorker(DeliverNotifications(self.clone())));
        workers.add(PurgeNotifications(self.clone()));
    }
}
