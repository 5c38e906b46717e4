//! What this domain has besides its routes.

use super::purge::PurgeConversations;
use super::service::Chat;
use crate::runtime::{Domain, Workers};

impl Domain for Chat {
    fn add_workers(&self, workers: &mut Workers) {
        workers.add(PurgeConversations(self.clone()));
    }
}
