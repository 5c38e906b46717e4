//! Counting what calls used.

use agentd_base::Timestamp;
use agentd_core::rollups::{Period, UsageSum};
use agentd_store::{Dialect, StoreError, Tx};

use super::Providers;
use crate::providers::error::ProviderError;
use crate::providers::model::{ModelCall, TokenTotal, UsageFigures, UsageId, UsageRow};
use crate::providers::store;

/// Over how many rows replicas spread each sum.
const SHARDS: u32 = 8;

impl Providers {
    /// Stores what a call used and what it cost, in the transaction that ends it; answers the cost, where a price is
    /// known.
    ///
    /// # Errors
    /// What the database refuses.
    pub async fn record_usage(&self, tx: &mut Tx, call: ModelCall) -> Result<Option<u64>, StoreError> {
        let at = self.0.clock.now();
        let id = UsageId::generate(&self.0.ids);
        let shard = match tx.dialect() {
            // One writer meets nobody.
            Dialect::Sqlite => 0,
            Dialect::Postgres => id.as_str().bytes().last().map_or(0, u32::from) % SHARDS,
        };
        let cost_micro_usd = self.price_table_in(tx).await?.cost_micro_usd(&call.provider, &call.model, &call.usage);
        let row = UsageRow { id, at, day: self.0.settings.day(at), shard, call, cost_micro_usd };
        store::insert_usage(tx, &row).await?;
        Ok(cost_micro_usd)
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

    /// What calls of all time used, by model, those with the most tokens first.
    ///
    /// # Errors
    /// The database is away.
    pub async fn model_totals(&self) -> Result<Vec<(String, UsageSum)>, ProviderError> {
        Ok(store::list_model_totals(&mut self.0.db.read().await?).await?)
    }

    /// When a model last answered each of these agents, where one did.
    ///
    /// # Errors
    /// The database is away.
    pub async fn last_calls(&self, agents: &[&str]) -> Result<Vec<(String, Timestamp)>, ProviderError> {
        Ok(store::list_last_calls(&mut self.0.db.read().await?, agents).await?)
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

    /// What calls used that ended in a period, to the call. It costs by their number: longer periods are asked of
    /// `rollups`.
    ///
    /// # Errors
    /// The database is away.
    pub async fn usage_between(&self, period: Period) -> Result<UsageSum, ProviderError> {
        Ok(store::sum_calls(&mut self.0.db.read().await?, period).await?)
    }
}
