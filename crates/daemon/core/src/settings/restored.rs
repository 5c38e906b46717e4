//! Settings that come out of an archive are held against what a change would have to pass.

use agentd_store::{Read, StoreError, Tx};
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use serde_json::Value;

use super::section::{Registered, Registry};
use super::store;
use crate::runtime::ValidateRestored;
use crate::vault;

/// Holds restored settings against the schemas and rules of their sections.
#[derive(Debug)]
pub struct ValidateSettings(pub Registry);

impl ValidateRestored for ValidateSettings {
    fn validate<'t>(&'t self, tx: &'t mut Tx) -> LocalBoxFuture<'t, Result<Option<String>, StoreError>> {
        find_fault(&self.0, tx).boxed_local()
    }
}

async fn find_fault(registry: &Registry, read: &mut Read) -> Result<Option<String>, StoreError> {
    // Secrets are sealed with the key of one data directory and never travel as rows.
    if !vault::is_empty(read).await? {
        return Ok(Some("its database holds secrets, which no backup puts there".to_owned()));
    }
    let stored = store::list_sections(read).await?;
    // A section that this program does not know is passed over when it is read, too.
    let known = stored.iter().filter_map(|(name, value)| Some((registry.find(name)?, value)));
    Ok(known.into_iter().find_map(|(section, value)| fault_of(section, value)))
}

fn fault_of(section: &Registered, stored: &Value) -> Option<String> {
    let unreadable = || Some(format!("its settings `{}` cannot be read", section.name));
    let Ok(loaded) = section.load(Some(stored)) else { return unreadable() };
    let Value::Object(fields) = loaded.view else { return unreadable() };
    let Ok(validated) = section.apply(None, &section.check(fields)) else { return unreadable() };
    let found = validated.problems.first()?;
    Some(format!("its settings hold {}.{}, which {}", section.name, found.field, found.message))
}
