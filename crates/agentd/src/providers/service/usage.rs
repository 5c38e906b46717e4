//! Counting what calls used, and holding it against the budgets.

use agentd_store::{Dialect, StoreError, Tx};

use super::Providers;
use crate::providers::error::ProviderError;
use crate::providers::model::{ModelCall, TokenTotal, UsageFigures, UsageId, UsageRow, until_midnight};
use crate::providers::store;

/// Over how many rows replicas spread each sum.
const SHARDS: u32 = 8;

impl Providers {
    /// Stores what a call used and what it cost, in the transaction that ends it.
    ///
    /// # Errors
    /// What the database refuses.
    pub async fn record_usage(&self, tx: &mut Tx, call: ModelCall) -> Result<(), StoreError> {
        let at = self.0.clock.now();
        let id = UsageId::generate(&self.0.ids);
        let shard = match tx.dialect() {
            // One writer meets nobody.
            Dialect::Sqlite => 0,
            Dialect::Postgres => id.as_str().bytes().last().map_or(0, u32::from) % SHARDS,
        };
        let cost_micro_usd = self.0.prices.cost_micro_usd(&call.provider, &call.model, &call.usage);
        let row = UsageRow { id, at, day: self.0.settings.day(at), shard, call, cost_micro_usd };
        store::insert_usage(tx, &row).await
    }

    /// Whether another call may begin. Calls that run already are not stopped and not counted.
    ///
    /// # Errors
    /// `DailyBudget` or `TotalBudget` when a limit is reached.
    pub async fn check_budget(&self) -> Result<(), ProviderError> {
        self.0.settings.refresh().await?;
        let agent = self.0.settings.agent();
        if agent.daily_token_limit.is_none() && agent.total_token_limit.is_none() {
            return Ok(());
        }
        let figures = self.usage_figures().await?;
        if let Some(limit) = figures.total_limit.filter(|limit| figures.total_used >= *limit) {
            return Err(ProviderError::TotalBudget { limit });
        }
        if let Some(limit) = figures.limit_today.filter(|limit| figures.used_today >= *limit) {
            let retry_after = until_midnight(self.0.clock.now(), &self.0.settings.timezone());
            return Err(ProviderError::DailyBudget { limit, retry_after });
        }
        Ok(())
    }

    /// Tokens used today and in all, with their limits. Today ends at midnight in the profile's
    /// time zone; a call belongs to the day on which it ended, in the zone that was set then.
    ///
    /// # Errors
    /// The database is away.
    pub async fn usage_figures(&self) -> Result<UsageFigures, ProviderError> {
        let agent = self.0.settings.agent();
        let today = self.0.settings.day(self.0.clock.now());
        let (used_today, total_used) = store::sum_tokens(&mut self.0.db.read().await?, today).await?;
        Ok(UsageFigures {
            used_today,
            total_used,
            limit_today: agent.daily_token_limit,
            total_limit: agent.total_token_limit,
        })
    }

    /// Tokens of all time by model and type, those with the most tokens first. As many as there are
    /// models: who shows them bounds their number, and decides once and for all which it shows.
    ///
    /// # Errors
    /// The database is away.
    pub async fn token_totals(&self) -> Result<Vec<TokenTotal>, ProviderError> {
        let models = store::list_token_totals(&mut self.0.db.read().await?).await?;
        Ok(models.into_iter().flatten().collect())
    }
}
