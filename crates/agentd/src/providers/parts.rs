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
        let help = "What calls of a model cost in all, in US dollars, as far as its price was known.";
        metrics.read(Family::counter("svc_cost_usd_total", help).by(&["model"]), self, async |providers| {
            let totals = providers.model_totals().await?.into_iter();
            Ok(totals.map(|(model, sum)| Sample::micros(vec![model], sum.cost_micro_usd)).collect())
        });
        let help = "Calls whose price is not known, which are not in the cost.";
        metrics.read(Family::counter("svc_unpriced_calls_total", help), self, async |providers| {
            Ok(Sample::one(providers.model_totals().await?.iter().map(|(_, sum)| sum.unpriced_calls).sum()))
        });
        let help = "Tokens that count for the budgets: of today, and of all time.";
        metrics.read(Family::gauge("svc_budget_used_tokens", help).by(&["period"]), self, async |providers| {
            let figures = providers.usage_figures().await?;
            Ok(Sample::each([("today", figures.used_today), ("all", figures.total_used)]))
        });
        let help = "The budgets that are set, in tokens: of today, and of all time.";
        metrics.read(Family::gauge("svc_budget_limit_tokens", help).by(&["period"]), self, async |providers| {
            let figures = providers.usage_figures().await?;
            let limits = [("today", figures.limit_today), ("all", figures.total_limit)];
            Ok(Sample::each(limits.into_iter().filter_map(|(period, limit)| Some((period, limit?)))))
        });
    }
}
