//! Storage state and its validation.

use serde::{Deserialize, Serialize};

use super::databases::Database;
use crate::environment::origin_of;
use crate::{BrowserError, Cookie};

/// Maximum total size of all names and values.
pub const MAX_STATE_BYTES: usize = 8 << 20;
const MAX_ORIGINS: usize = 300;
/// Maximum number of omitted databases that are reported.
const MAX_LEFT_OUT: usize = 100;

/// Storage state. Values are omitted from debug output.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct StorageState {
    #[serde(default)]
    pub cookies: Vec<Cookie>,
    #[serde(default)]
    pub origins: Vec<OriginStorage>,
}

/// Storage of one origin.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OriginStorage {
    pub origin: String,
    #[serde(default)]
    pub local_storage: Vec<StoredItem>,
    #[serde(default, rename = "indexedDB", skip_serializing_if = "Vec::is_empty")]
    pub indexed_db: Vec<Database>,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredItem {
    pub name: String,
    pub value: String,
}

/// Saved state with the databases that it omits.
#[derive(Debug, Clone, PartialEq)]
pub struct SavedState {
    pub state: StorageState,
    /// Omitted databases, up to 100.
    pub left_out: Vec<SkippedDatabase>,
}

/// Omitted database: too large, or with contents that cannot be serialized (files, `WebCrypto` keys).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedDatabase {
    pub origin: String,
    pub database: String,
}

impl std::fmt::Debug for StorageState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StorageState").field("cookies", &self.cookies).field("origins", &self.origins).finish()
    }
}

impl std::fmt::Debug for OriginStorage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OriginStorage").field("origin", &self.origin).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for StoredItem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoredItem").field("name", &self.name).finish_non_exhaustive()
    }
}

impl StorageState {
    /// Validates the state.
    ///
    /// # Errors
    /// [`BrowserError::Invalid`] for an invalid state, [`BrowserError::LimitExceeded`] for one that is too large.
    pub fn check(&self) -> Result<(), BrowserError> {
        for OriginStorage { origin, indexed_db, .. } in &self.origins {
            let shown = &origin[..origin.floor_char_boundary(200)];
            if origin_of(origin).as_deref() != Some(origin) {
                return Err(BrowserError::Invalid(format!(
                    "`{shown}` is not an origin; use the form https://a.example"
                )));
            }
            for database in indexed_db {
                let wrong = |reason| BrowserError::Invalid(format!("a database of `{shown}` is invalid: {reason}"));
                database.check().map_err(wrong)?;
            }
        }
        if self.bytes() > MAX_STATE_BYTES || self.origins.len() > MAX_ORIGINS {
            let bounds = format!("{MAX_STATE_BYTES} bytes or {MAX_ORIGINS} origins");
            return Err(BrowserError::LimitExceeded(format!("the state exceeds {bounds}")));
        }
        Ok(())
    }

    pub(super) fn bytes(&self) -> usize {
        let cookies = self.cookies.iter().map(|cookie| cookie.name.len() + cookie.value.len());
        cookies.chain(self.origins.iter().map(OriginStorage::bytes)).sum()
    }
}

impl OriginStorage {
    fn bytes(&self) -> usize {
        let items = self.local_storage.iter().map(|item| item.name.len() + item.value.len());
        items.chain(self.indexed_db.iter().map(Database::bytes)).sum()
    }
}

impl SavedState {
    /// Adds the storage of an origin, with as many databases as fit.
    pub(super) fn add(
        &mut self,
        origin: String,
        local_storage: Vec<StoredItem>,
        databases: Vec<Database>,
        left_out: Vec<String>,
    ) {
        let mut stored = OriginStorage { origin: origin.clone(), local_storage, indexed_db: Vec::new() };
        let mut remaining = MAX_STATE_BYTES.saturating_sub(self.state.bytes() + stored.bytes());
        let mut names = left_out;
        for database in databases {
            let bytes = database.bytes();
            if bytes > remaining {
                names.push(database.name);
                continue;
            }
            remaining -= bytes;
            stored.indexed_db.push(database);
        }
        let named = names.into_iter().map(|database| SkippedDatabase { origin: origin.clone(), database });
        self.left_out.extend(named.take(MAX_LEFT_OUT.saturating_sub(self.left_out.len())));
        if !stored.local_storage.is_empty() || !stored.indexed_db.is_empty() {
            self.state.origins.push(stored);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn oversized_databases_are_reported_and_others_kept() {
        let database = |name: &str, bytes: usize| -> Database {
            let records = json!([{"key": 1, "value": "x".repeat(bytes)}]);
            let store = json!({"name": "s", "autoIncrement": false, "records": records, "indexes": []});
            serde_json::from_value(json!({"name": name, "version": 1, "stores": [store]})).unwrap()
        };
        let mut saved = SavedState { state: StorageState::default(), left_out: Vec::new() };
        let databases = vec![database("small", 10), database("large", MAX_STATE_BYTES), database("second", 10)];
        saved.add("https://a.example".to_owned(), Vec::new(), databases, vec!["files".to_owned()]);
        saved.add(
            "https://b.example".to_owned(),
            Vec::new(),
            vec![database("full", MAX_STATE_BYTES - 100)],
            Vec::new(),
        );
        let kept: Vec<_> = saved.state.origins[0].indexed_db.iter().map(|database| &*database.name).collect();
        assert_eq!((kept, saved.state.origins.len()), (vec!["small", "second"], 1));
        let left_out: Vec<_> =
            saved.left_out.iter().map(|remaining| (&*remaining.origin, &*remaining.database)).collect();
        assert_eq!(
            left_out,
            [("https://a.example", "files"), ("https://a.example", "large"), ("https://b.example", "full")]
        );
        saved.state.check().unwrap();
    }
}
