//! What this domain has besides its routes.

use super::service::Devices;
use super::worker::PurgePairing;
use crate::runtime::{Domain, Family, Metrics, Sample, Workers};

impl Domain for Devices {
    fn add_workers(&self, workers: &mut Workers) {
        workers.add(PurgePairing(self.clone()));
    }

    fn add_metrics(&self, metrics: &Metrics) {
        let family = Family::gauge("svc_devices_connected", "Devices whose socket is open at this daemon.");
        metrics.read(family, self, async |devices| Ok(Sample::one(u64::try_from(devices.connected())?)));
        let help = "Calls of devices' tools by how they ended (done, failed, abandoned), since the daemon started.";
        let family = Family::counter("svc_device_calls_total", help).by(&["status"]);
        metrics.read(family, self, async |devices| Ok(Sample::each(devices.call_counts().read())));
    }
}
