//! What this domain has besides its routes.

use super::routes::SkillsRoutes;
use super::sandbox::CheckSandbox;
use super::servers::ToolServerMaintenance;
use crate::runtime::{Domain, Family, Metrics, Sample, Workers};

impl Domain for SkillsRoutes {
    fn add_workers(&self, workers: &mut Workers) {
        workers.add(CheckSandbox(self.runner.clone()));
        workers.add(ToolServerMaintenance(self.servers.clone()));
    }

    fn add_metrics(&self, metrics: &Metrics) {
        let help = "Tool servers that this daemon has a session with.";
        metrics.read(Family::gauge("svc_tool_servers_connected", help), &self.servers, async |servers| {
            Ok(Sample::one(u64::try_from(servers.connected())?))
        });
        let help = "Calls of tools of tool servers by how they ended, since the daemon started.";
        let family = Family::counter("svc_tool_server_calls_total", help).by(&["status"]);
        metrics.read(family, &self.servers, async |servers| {
            let counts = servers.call_counts();
            Ok(Sample::each([
                ("ok", counts.ok),
                ("failed", counts.failed),
                ("timed_out", counts.timed_out),
                ("cancelled", counts.cancelled),
            ]))
        });
    }
}
