//! `IndexedDB` database in Playwright's format.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Maximum version, the largest integer that JavaScript represents exactly.
const MAX_VERSION: u64 = (1 << 53) - 1;

/// Database with its contents, which are omitted from debug output.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Database {
    pub name: String,
    version: u64,
    stores: Vec<ObjectStore>,
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ObjectStore {
    name: String,
    auto_increment: bool,
    #[serde(flatten)]
    path: KeyPath,
    records: Vec<Map<String, Value>>,
    indexes: Vec<Index>,
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Index {
    name: String,
    #[serde(flatten)]
    path: KeyPath,
    multi_entry: bool,
    unique: bool,
}

/// Key path within a value: one path, several, or none.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct KeyPath {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key_path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key_path_array: Option<Vec<String>>,
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Database {
    /// Checks the structure. The browser checks the values.
    pub(super) fn check(&self) -> Result<(), String> {
        if !(1..=MAX_VERSION).contains(&self.version) {
            return Err(format!("its version must be between 1 and {MAX_VERSION}"));
        }
        for store in &self.stores {
            if store.path.has_both() || store.indexes.iter().any(|index| index.path.has_both() || !index.path.has_any())
            {
                return Err("each index needs either `keyPath` or `keyPathArray`, and each store at most one of them"
                    .to_owned());
            }
            for record in &store.records {
                let has = |name: &str, encoded: &str| {
                    usize::from(record.contains_key(name)) + usize::from(record.contains_key(encoded))
                };
                if has("value", "valueEncoded") != 1 {
                    return Err("each record needs either `value` or `valueEncoded`".to_owned());
                }
                let keys = has("key", "keyEncoded");
                let is_keyed =
                    if store.path.has_any() { keys == 0 } else { keys == 1 || (keys == 0 && store.auto_increment) };
                if !is_keyed {
                    return Err("a record has too many keys or too few".to_owned());
                }
            }
        }
        Ok(())
    }

    /// Size of the serialized form in bytes.
    pub(super) fn bytes(&self) -> usize {
        let mut counter = ByteCounter(0);
        // Counting does not fail.
        let _ = serde_json::to_writer(&mut counter, self);
        counter.0
    }
}

impl KeyPath {
    fn has_any(&self) -> bool {
        self.key_path.is_some() || self.key_path_array.is_some()
    }

    fn has_both(&self) -> bool {
        self.key_path.is_some() && self.key_path_array.is_some()
    }
}

/// Writer that only counts bytes.
struct ByteCounter(usize);

impl std::io::Write for ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn with(record: Value, store: Value) -> Result<(), String> {
        let mut whole = json!({"name": "s", "autoIncrement": false, "records": [record], "indexes": []});
        whole.as_object_mut().unwrap().extend(store.as_object().unwrap().clone());
        let database = json!({"name": "d", "version": 1, "stores": [whole]});
        let database: Database = serde_json::from_value(database).unwrap();
        assert_eq!(serde_json::to_string(&database).unwrap().len(), database.bytes());
        database.check()
    }

    #[test]
    fn records_need_a_value_and_the_key_of_their_store() {
        let value = json!({"value": null});
        let keyed = json!({"value": 1, "keyEncoded": {"d": "2026-01-01T00:00:00.000Z"}});
        let cases = [
            (&keyed, json!({}), true),
            (&value, json!({}), false),
            (&value, json!({"autoIncrement": true}), true),
            (&value, json!({"keyPath": "id"}), true),
            (&value, json!({"keyPathArray": ["a", "b"]}), true),
            (&value, json!({"keyPath": "id", "keyPathArray": ["a"]}), false),
            (&keyed, json!({"keyPath": "id"}), false),
            (&json!({"key": 1}), json!({}), false),
            (&json!({"key": 1, "value": 1, "valueEncoded": 1}), json!({}), false),
            (&keyed, json!({"indexes": [{"name": "i", "multiEntry": false, "unique": true}]}), false),
            (&keyed, json!({"indexes": [{"name": "i", "keyPath": "", "multiEntry": false, "unique": true}]}), true),
        ];
        for (record, store, is_valid) in cases {
            assert_eq!(with(record.clone(), store.clone()).is_ok(), is_valid, "{record} {store}");
        }
        for version in [0, MAX_VERSION + 1] {
            let database = json!({"name": "d", "version": version, "stores": []});
            assert!(serde_json::from_value::<Database>(database).unwrap().check().is_err(), "{version}");
        }
    }
}
