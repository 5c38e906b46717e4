//! What this domain has besides its routes.

use super::service::Browser;
use super::worker::CloseIdle;
use crate::runtime::{Domain, Workers};

impl Domain for Browser {
    fn add_workers(&self, workers: &mut Workers) {
        workers.add(CloseIdle::new(self.clone()));
    }
}
