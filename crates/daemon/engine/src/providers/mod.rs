//! AI providers: keys and status, model selection, usage and cost.
//!
//! Eight vendors and `local`, the built-in model. A vendor is configured if it has a key or a custom base URL (a server
//! such as Ollama needs no key).
//!
//! Invariants
//! - Keys are stored in the vault, under the scope `providers`; they are never returned or logged.
//! - Backends share one guarded client and are rebuilt only when a provider changes.
//! - Each model call has one usage row; the totals that budgets are checked against change in the same transaction. An
//!   unknown price is NULL, never 0.
//! - With a budget, the maximum usage of a call is reserved before it and settled in the transaction that records its
//!   usage. Concurrent calls on all replicas cannot use the same remainder. Reservations of a crashed daemon expire
//!   with their lease.
//! - A price change does not affect past calls: each usage row keeps its cost.
//!
//! States of a provider: `unconfigured` → key or base URL set → `configured` → a call or a test → `ok` | `failing` |
//! `rate_limited`; each further result replaces the last, and a change of the key returns to `configured`.
//!
//! Out of scope: retries, which the engine decides, and the interpretation of answers.

mod error;
mod local;
mod model;
mod routes;
mod service;
mod store;

use std::sync::Arc;

use agentd_core::parts::{Domain, DomainParts, ShutdownPhase, ShutdownStep};
use agentd_core::runtime::{Binding, Family, MetricList, Sample};
use agentd_core::settings::ValidateReference;

use routes::routes;

pub use error::ProviderError;
pub use local::no_tools_message;
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
            bindings: vec![Binding::new::<dyn ValidateReference>(Arc::new(self.clone()))],
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
        let help = "Cost of model calls in US dollars, as far as prices were known.";
        metrics.read(Family::counter("svc_cost_usd_total", help).by(&["model"]), self, async |providers| {
            let totals = providers.model_totals().await?.into_iter();
            Ok(totals.map(|(model, sum)| Sample::micros(vec![model], sum.cost_micro_usd)).collect())
        });
        let help = "Model calls with an unknown price, which are not included in the cost.";
        metrics.read(Family::counter("svc_unpriced_calls_total", help), self, async |providers| {
            Ok(Sample::one(providers.model_totals().await?.iter().map(|(_, sum)| sum.unpriced_calls).sum()))
        });
        let help = "Tokens that count toward the budgets, today and in total.";
        metrics.read(Family::gauge("svc_budget_used_tokens", help).by(&["period"]), self, async |providers| {
            let figures = providers.usage_figures().await?;
            Ok(Sample::each([("today", figures.used_today), ("all", figures.total_used)]))
        });
        let help = "Configured token budgets, per day and in total.";
        metrics.read(Family::gauge("svc_budget_limit_tokens", help).by(&["period"]), self, async |providers| {
            let figures = providers.usage_figures().await?;
            let limits = [("today", figures.limit_today), ("all", figures.total_limit)];
            Ok(Sample::each(limits.into_iter().filter_map(|(period, limit)| Some((period, limit?)))))
        });
        metrics
    }
}
