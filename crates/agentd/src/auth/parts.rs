//! What this domain has besides its routes.

use super::service::Auth;
use super::worker::{CredentialUseWriter, LoginPurge};
use crate::runtime::{Domain, Family, Metrics, Sample, Workers};

impl Domain for Auth {
    fn add_workers(&self, workers: &mut Workers) {
        workers.add(CredentialUseWriter(self.clone()));
        workers.add(LoginPurge(self.clone()));
    }

    fn add_metrics(&self, metrics: &Metrics) {
        let family = Family::gauge("svc_active_sessions", "Sessions of people that are logged in.");
        metrics.read(family, self, async |auth| Ok(Sample::one(u64::try_from(auth.active_sessions().await?)?)));
    }
}
