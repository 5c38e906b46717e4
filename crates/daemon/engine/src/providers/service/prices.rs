//! The price table in force.

use std::sync::Arc;
use std::time::Duration;

use agentd_store::{Read, StoreError, Tx};

use super::Providers;
use crate::providers::error::ProviderError;
use crate::providers::model::{Price, PriceOrigin, PriceTable};
use crate::providers::store;

/// How old prices may be that another replica has changed, should its word not have come through.
const RECENT: Duration = Duration::from_secs(5);

impl Providers {
    /// Every price in force, in the order of provider and model.
    ///
    /// # Errors
    /// The database is away.
    pub async fn list_prices(&self) -> Result<Vec<(PriceOrigin, Price)>, ProviderError> {
        let base = self.0.prices.clone();
        let table = self.0.price_table.get(async move |read: &mut Read| load(&base, read).await).await?;
        Ok(table.list())
    }

    /// Puts these prices before the table that ships with the daemon and the file, in the place of all that were
    /// set so before. Those that hold anyway are not stored. What calls have cost stays as it was.
    ///
    /// # Errors
    /// The database is away.
    pub async fn set_prices(&self, mut prices: Vec<Price>) -> Result<Vec<(PriceOrigin, Price)>, ProviderError> {
        let today = self.0.settings.day(self.0.clock.now());
        for price in &mut prices {
            price.as_of = price.as_of.or(Some(today));
        }
        prices.retain(|price| !self.0.prices.has(price));
        let prices = Arc::new(prices);
        self.0.db.write(async move |tx: &mut Tx| store::prices::replace_prices(tx, &prices).await).await?;
        self.list_prices().await
    }

    /// The table that calls are priced by.
    pub(super) async fn price_table(&self) -> Result<Arc<PriceTable>, StoreError> {
        let base = self.0.prices.clone();
        self.0.price_table.get_recent(RECENT, async move |read: &mut Read| load(&base, read).await).await
    }

    /// The same within a transaction, which must not wait for another connection.
    pub(super) async fn price_table_in(&self, read: &mut Read) -> Result<Arc<PriceTable>, StoreError> {
        match self.0.price_table.last() {
            Some(table) => Ok(table),
            None => Ok(Arc::new(load(&self.0.prices, read).await?)),
        }
    }
}

async fn load(base: &PriceTable, read: &mut Read) -> Result<PriceTable, StoreError> {
    Ok(base.behind(store::prices::list_prices(read).await?))
}
