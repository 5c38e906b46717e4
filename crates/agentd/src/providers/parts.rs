//! What this domain has besides its routes.

use super::service::Providers;
use crate::runtime::{Domain, Family, Metrics, Sample};

impl Domain for Providers {
    fn add_metrics(&self, metrics: &Metrics) {
        let help = "Tokens by model and type (input, output), from the usage of every model call.";
        let family = Family::counter("svc_token_usage_total", help).by(&["model", "type"]);
        metrics.read(family, self, async |providers| {
            let totals = providers.token_totals().await?;
            // The other types are parts of these two and would be counted twice in a sum.
            let totals = totals.into_iter().filter(|total| matches!(total.kind, "input" | "output"));
            Ok(totals.map(|total| Sample::of(vec![total.model, total.kind.to_owned()], total.tokens)).collect())
        });
    }
}
