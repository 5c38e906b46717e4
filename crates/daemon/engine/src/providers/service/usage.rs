//! Usage accounting of model calls.

use agentd_base::Timestamp;
use agentd_core::rollups::{Period, UsageSum};
use agentd_store::{Dialect, StoreError, Tx};

use super::Providers;
use crate::providers::error::ProviderError;
use crate::providers::model::{ModelCall, TokenTotal, UsageFigures, UsageId, UsageRow};
use crate::providers::store;

/// Number of rows over which replicas spread each total.
const SHARDS: u32 = 8;

impl Providers {
    /// Stores the usage and the cost of a call in the transaction that ends it. Returns the cost if the price is known.
    ///
    /// # Errors
    /// A store error.
    pub async fn record_usage(&self, tx: &mut Tx, call: ModelCall) -> Result<Option<u64>, StoreError> {
        let at = self.0.clock.now();
        let id = UsageId::generate(&self.0.ids);
        let shard = match tx.dialect() {
            // SQLite has a single writer, so there is no contention.
            Dialect::Sqlite => 0,
            Dialect::Postgres => id.as_str().bytes().last().map_or(0, u32::from) % SHARDS,
        };
        let cost_micro_usd = self.price_table_in(tx).await?.cost_micro_usd(&call.provider, &call.model, &call.usage);
        let row = UsageRow { id, at, day: self.0.settings.day(at), shard, call, cost_micro_usd };
        store::insert_usage(tx, &row).await?;
        Ok(cost_micro_usd)
    }

    /// Returns the tokens used today and in total, with their limits. The day ends at midnight in the time zone of the
    /// profile; a call counts for the day on which it ended, in the zone configured then.
    ///
    /// # Errors
    /// A store error.
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

    /// Returns the total usage by model, the models with the most tokens first.
    ///
    /// # Errors
    /// A store error.
    pub async fn model_totals(&self) -> Result<Vec<(String, UsageSum)>, ProviderError> {
        Ok(store::list_model_totals(&mut self.0.db.read().await?).await?)
    }

    /// Returns the time of the last model call of each of these agents that has one.
    ///
    /// # Errors
    /// A store error.
    pub async fn last_calls(&self, agents: &[&str]) -> Result<Vec<(String, Timestamp)>, ProviderError> {
        Ok(store::list_last_calls(&mut self.0.db.read().await?, agents).await?)
    }

    /// Returns total tokens by model and type, the models with the most tokens first. The number of models is
    /// unbounded: callers must limit what they expose, and keep the selection stable.
    ///
    /// # Errors
    /// A store error.
    pub async fn token_totals(&self) -> Result<Vec<TokenTotal>, ProviderError> {
        let models = store::list_token_totals(&mut self.0.db.read().await?).await?;
        Ok(models.into_iter().flatten().collect())
    }

    /// Returns the exact usage of calls that ended in a period. The cost is linear in their number; use `rollups` for
    /// longer periods.
    ///
    /// # Errors
    /// A store error.
    pub async fn usage_between(&self, period: Period) -> Result<UsageSum, ProviderError> {
        Ok(store::sum_calls(&mut self.0.db.read().await?, period).await?)
    }
}
