//! Validation of settings restored from an archive, with the rules of a change.

use agentd_store::{Read, StoreError, Tx};
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use serde_json::Value;

use super::section::{Registered, Registry};
use super::store;
use crate::runtime::ValidateRestored;
use crate::vault;

/// Validates restored settings by the schemas and rules of their sections.
#[derive(Debug)]
pub struct ValidateSettings(pub Registry);

impl ValidateRestored for ValidateSettings {
    fn validate<'t>(&'t self, tx: &'t mut Tx) -> LocalBoxFuture<'t, Result<Option<String>, StoreError>> {
        find_problem(&self.0, tx).boxed_local()
    }
}

async fn find_problem(registry: &Registry, read: &mut Read) -> Result<Option<String>, StoreError> {
    // Secrets are encrypted with the key of one data directory and are never part of the rows in a backup.
    if !vault::is_empty(read).await? {
        return Ok(Some("its database contains secrets, which backups never include".to_owned()));
    }
    let stored = store::list_sections(read).await?;
    // Unknown sections are ignored when settings are loaded, so they are ignored here too.
    let known = stored.iter().filter_map(|(name, value)| Some((registry.find(name)?, value)));
    Ok(known.into_iter().find_map(|(section, value)| check_section(section, value)))
}

fn check_section(section: &Registered, stored: &Value) -> Option<String> {
    let unreadable = || Some(format!("its settings `{}` cannot be read", section.name));
    let Ok(loaded) = section.load(Some(stored)) else { return unreadable() };
    let Value::Object(fields) = loaded.view else { return unreadable() };
    let Ok(validated) = section.apply(None, &section.check(fields)) else { return unreadable() };
    let found = validated.problems.first()?;
    Some(format!("its settings contain {}.{}, which {}", section.name, found.field, found.message))
}
