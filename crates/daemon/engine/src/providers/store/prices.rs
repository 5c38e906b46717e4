//! Prices that the owner set.

use agentd_store::{Read, StoreError, Topic, Tx, args};

use crate::providers::model::Price;

pub(crate) const PRICES: Topic = Topic::new("model_prices");

/// One that cannot be read is as good as none.
pub(crate) async fn list_prices(read: &mut Read) -> Result<Vec<Price>, StoreError> {
    let rows = read.fetch_all("SELECT price FROM model_prices ORDER BY provider, model", args![]).await?;
    let mut prices = Vec::with_capacity(rows.len());
    for row in rows {
        match serde_json::from_str(&row.get::<String>("price")?) {
            Ok(price) => prices.push(price),
            Err(error) => tracing::warn!(%error, "a stored price cannot be read and does not count"),
        }
    }
    Ok(prices)
}

/// In the place of all that are there.
pub(crate) async fn replace_prices(tx: &mut Tx, prices: &[Price]) -> Result<(), StoreError> {
    tx.execute("DELETE FROM model_prices", args![]).await?;
    for price in prices {
        let json = serde_json::to_string(price).unwrap_or_default();
        let sql = "INSERT INTO model_prices (provider, model, price) VALUES ($1, $2, $3)";
        tx.execute(sql, args![&price.provider, &price.model, json]).await?;
    }
    tx.touch(PRICES);
    Ok(())
}
