//! AI providers: their keys and state, which model answers, and what calls used and cost.
//!
//! Eight vendors and `local`, the model inside the daemon. A vendor is configured when it has a
//! key, or a base URL of the owner's (a server such as Ollama needs no key).
//!
//! Invariants
//! - Keys lie in the vault, under the scope `providers`; nothing here shows or logs them.
//! - Backends share one guarded client and are made anew only when a provider changes.
//! - Each call of a model leaves one usage row, and the sums that budgets are checked against change in
//!   the same transaction. A price that nobody knows is NULL, never 0.
//! - Where there is a budget, what a call can use at most is set aside before it, and settled in the transaction
//!   that records what it used; calls that run at once, in whatever replica, cannot use the same rest. What a
//!   daemon that is gone had set aside is free again when its lease ends.
//! - A price that changes changes nothing of what calls have cost: each usage row keeps its own.
//!
//! States of a provider: `unconfigured` → key or base URL set → `configured` → a call or a test
//! → `ok` | `failing` | `rate_limited`; each further outcome replaces the last, and a change of
//! the key leads back to `configured`.
//!
//! Deliberately absent: retries (the engine decides), and what a conversation makes of an answer.

mod error;
mod local;
mod model;
mod routes;
mod service;
mod store;

use std::sync::Arc;

use agentd_core::parts::{Domain, DomainParts, ShutdownPhase, ShutdownStep};
use agentd_core::runtime::{Binding, Family, MetricList, Sample};
use agentd_core::settings::FindsNamed;

use routes::routes;

pub use error::ProviderError;
pub use local::without_tools;
pub use local::{LocalBackend, LocalOptions};
pub use model::{
    DefaultCheck, LOCAL, LocalModelState, LocalModelView, LongPrompt, ModelCall, ModelPreference, Price, PriceOrigin,
    PriceTable, PriceTableError, ProviderChange, ProviderReport, ProviderStatus, ProviderView, ReportedFailure,
    ResolvedModel, TokenTotal, UsageFigures, UsageId,
};
pub use service::{PlannedCall, PreparedProvider, Providers, Reservation};

impl Domain for Providers {
    fn parts(&self) -> DomainParts {
        DomainParts {
            routes: routes().with_state(self.clone()),
            workers: Vec::new(),
            metrics: self.metrics(),
            bindings: vec![Binding::new::<dyn FindsNamed>(Arc::new(self.clone()))],
            shutdown: vec![ShutdownStep::new(ShutdownPhase::Processes, self, async |providers, _| {
                providers.shut_down().await
            })],
        }
    }
}

impl Providers {
    fn metrics(&self) -> MetricList {
        let mut metrics = MetricList::default();
        let help = "Tokens by model and type (input, output), from the usage of every model call.";
        let family = Family::counter("svc_token_usage_total", help).by(&["model", "type"]);
        metrics.read(family, self, async |providers| {
            let totals = providers.token_totals().await?;
            // The other types are subsets of these two; a sum over all types would count them twice.
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
        metrics
    }
}
