//! Rows of price overrides.

use agentd_store::{Read, StoreError, Topic, Tx, args};

use crate::providers::model::Price;

pub(crate) const PRICES: Topic = Topic::new("model_prices");

/// Lists the overrides; entries that cannot be parsed are skipped.
pub(crate) async fn list_prices(read: &mut Read) -> Result<Vec<Price>, StoreError> {
    let rows = read.fetch_all("SELECT price FROM model_prices ORDER BY provider, model", args![]).await?;
    let mut prices = Vec::with_capacity(rows.len());
    for row in rows {
        match serde_json::from_str(&row.get::<String>("price")?) {
            Ok(price) => prices.push(price),
            Err(error) => tracing::warn!(%error, "skipping a stored price that cannot be parsed"),
        }
    }
    Ok(prices)
}

/// Replaces all overrides.
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
