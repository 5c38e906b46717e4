//! Configures a vendor: key, base URL, default model.

use agentd_base::{Patch, Problems, Secret, SecretUpdate};
use agentd_llm::Vendor;
use agentd_store::Tx;

use super::{KEYS, Providers, canonical};
use crate::providers::error::ProviderError;
use crate::providers::model::{
    LOCAL, ProviderChange, ProviderRow, ProviderView, parse_base_url, parse_key, server_origin,
};
use crate::providers::store;

const MAX_MODEL_NAME: usize = 200;

/// A validated change of a vendor.
#[derive(Debug, Clone)]
pub struct PreparedProvider {
    vendor: Vendor,
    key: Patch<Secret>,
    base_url: Patch<String>,
    default_model: Patch<String>,
}

impl Providers {
    /// Sets, keeps or clears key, base URL and default model of a vendor. A key is required unless the base URL is a
    /// server without authentication. It is required again if the base URL changes to a server for which the stored key
    /// was not intended.
    ///
    /// # Errors
    /// `Unknown`, `LocalHasNoKey`, or `Invalid` with all invalid fields; nothing changes then.
    pub async fn set_key(&self, id: &str, change: ProviderChange) -> Result<ProviderView, ProviderError> {
        let prepared = self.prepare(id, change)?;
        let (providers, written) = (self.clone(), prepared.clone());
        self.0.db.write(async move |tx: &mut Tx| providers.write(tx, &written).await).await?;
        self.written(&prepared);
        self.get(id).await
    }

    /// Stores a prepared change in the caller's transaction. Call [`Self::written`] after the commit.
    ///
    /// # Errors
    /// `Invalid` if a key is missing; the transaction must then be rolled back.
    pub async fn write(&self, tx: &mut Tx, change: &PreparedProvider) -> Result<(), ProviderError> {
        let (vault, vendor, id) = (&self.0.vault, change.vendor, change.vendor.id());
        let has_key = match &change.key {
            Patch::Set(_) => true,
            Patch::Clear => false,
            Patch::Keep => vault.contains(tx, KEYS, id).await?,
        };
        let mut row = store::find_provider(tx, id).await?.unwrap_or_default();
        let previous_server = server_origin(vendor, row.base_url.as_deref());
        change.base_url.clone().apply(&mut row.base_url);
        change.default_model.clone().apply(&mut row.default_model);
        let mut problems = Problems::new();
        if !has_key && row.base_url.is_none() {
            problems.add("api_key", "is required unless base_url names a server without authentication");
        }
        let keeps_key = has_key && matches!(change.key, Patch::Keep);
        if keeps_key && server_origin(vendor, row.base_url.as_deref()) != previous_server {
            problems.add(
                "api_key",
                "is required because base_url now names another server, which must not receive the stored key; send \
                 the key for it, or null if it needs none",
            );
        }
        problems.into_result().map_err(ProviderError::Invalid)?;
        match &change.key {
            Patch::Set(key) => vault.put(tx, KEYS, id, key).await?,
            Patch::Clear => vault.clear(tx, KEYS, id).await?,
            Patch::Keep => {}
        }
        let updated_at = tx.clock().now();
        store::upsert_provider(tx, &ProviderRow { id: id.to_owned(), updated_at, ..row }).await?;
        Ok(())
    }

    /// Clears the last result of the vendor after a committed change.
    pub fn written(&self, change: &PreparedProvider) {
        self.0.outcomes.lock().remove(change.vendor.id());
    }

    /// Deletes key, base URL and default model of a vendor.
    ///
    /// # Errors
    /// `Unknown` or `LocalHasNoKey`.
    pub async fn clear_key(&self, id: &str) -> Result<ProviderView, ProviderError> {
        let id = self.vendor(id)?.id();
        let vault = self.0.vault.clone();
        let work = async move |tx: &mut Tx| {
            vault.clear(tx, KEYS, id).await?;
            store::delete_provider(tx, id).await
        };
        self.0.db.write(work).await?;
        self.0.outcomes.lock().remove(id);
        self.get(id).await
    }

    fn vendor(&self, id: &str) -> Result<Vendor, ProviderError> {
        match canonical(id)? {
            LOCAL => Err(ProviderError::LocalHasNoKey),
            id => Vendor::from_id(id).ok_or(ProviderError::LocalHasNoKey),
        }
    }

    /// Validates a change for a transaction of the caller.
    ///
    /// # Errors
    /// `Unknown`, `LocalHasNoKey`, or `Invalid` with all invalid fields.
    pub fn prepare(&self, id: &str, change: ProviderChange) -> Result<PreparedProvider, ProviderError> {
        let vendor = self.vendor(id)?;
        let mut problems = Problems::new();
        let key = match change.api_key {
            Patch::Keep | Patch::Set(SecretUpdate::Shown(_)) => Patch::Keep,
            Patch::Clear => Patch::Clear,
            Patch::Set(SecretUpdate::New(key)) => match parse_key(&key) {
                Ok(key) => Patch::Set(key),
                Err(message) => {
                    problems.add("api_key", message);
                    Patch::Keep
                }
            },
        };
        if let Patch::Set(text) = &change.base_url {
            let checked = parse_base_url(text)
                .and_then(|url| self.0.client.check_url(&url).map_err(|refusal| refusal.to_string()));
            if let Err(message) = checked {
                problems.add("base_url", message);
            }
        }
        if let Patch::Set(model) = &change.default_model {
            let is_name = !model.is_empty()
                && model.chars().count() <= MAX_MODEL_NAME
                && !model.chars().any(|c| c.is_whitespace() || c.is_control());
            problems.require(is_name, "default_model", "must be a model name of the provider, without spaces");
        }
        problems.into_result().map_err(ProviderError::Invalid)?;
        let base_url = match change.base_url {
            Patch::Set(text) => Patch::Set(text.trim().to_owned()),
            other => other,
        };
        Ok(PreparedProvider { vendor, key, base_url, default_model: change.default_model })
    }
}
