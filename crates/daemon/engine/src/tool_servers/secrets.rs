//! Write-only values of a registration in the vault, and their handling on changes.

use std::collections::BTreeSet;

use agentd_base::{Problems, Secret, SecretUpdate};
use agentd_core::vault::{SealedUrl, UnknownMask, Vault, VaultError, require_reentry};
use agentd_store::{Read, Tx};

use super::change::{SecretChanges, ToolServerId};
use super::error::ToolServerError;

/// Changes to the vault: a value is stored, `None` is cleared. Names as in the vault.
pub(super) type SecretWrites = Vec<(String, Option<Secret>)>;

/// Kind of a secret: environment variable or header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Environment,
    Header,
}

impl Kind {
    pub(super) fn field(self) -> &'static str {
        match self {
            Self::Environment => "env",
            Self::Header => "headers",
        }
    }

    fn vault_name(self, name: &str) -> String {
        match self {
            Self::Environment => format!("env.{name}"),
            Self::Header => format!("header.{name}"),
        }
    }
}

/// Vault scope of a registration's secrets.
pub(super) fn scope(id: &ToolServerId) -> String {
    format!("tool_servers.{id}")
}

/// Whether credentials in a URL must be dropped although the new URL still has placeholders for them.
pub(super) fn loses_url_secrets(before: &str, after: &str) -> bool {
    SealedUrl::new(after, Some(before), UnknownMask::Leave).is_ok_and(|sealed| sealed.dropped)
}

/// Applies changes to the names that have a value. If `is_destination_changed` is set, no value is kept: a user who may
/// edit a registration must not obtain its secrets by redirecting them.
pub(super) fn apply(
    kind: Kind,
    names: &mut BTreeSet<String>,
    changes: SecretChanges,
    is_destination_changed: bool,
    check: impl Fn(&str, &str) -> Option<&'static str>,
    problems: &mut Problems,
) -> SecretWrites {
    let mut writes = SecretWrites::new();
    let mut unconfirmed = if is_destination_changed { std::mem::take(names) } else { BTreeSet::new() };
    for (name, change) in changes {
        let name = if kind == Kind::Header { name.to_ascii_lowercase() } else { name };
        let field = || format!("{}.{}", kind.field(), name.chars().take(64).collect::<String>());
        match change {
            None => {
                if names.remove(&name) | unconfirmed.remove(&name) {
                    writes.push((kind.vault_name(&name), None));
                }
            }
            Some(SecretUpdate::New(value)) => {
                if let Some(problem) = check(&name, value.expose()) {
                    problems.add(field(), problem);
                }
                unconfirmed.remove(&name);
                writes.push((kind.vault_name(&name), Some(value)));
                names.insert(name);
            }
            Some(SecretUpdate::Shown(_)) => {
                let is_known = names.contains(&name) || unconfirmed.contains(&name);
                problems.require(is_known, &field(), "has no value yet; enter one");
            }
        }
    }
    for name in unconfirmed {
        require_reentry(format!("{}.{name}", kind.field()), problems);
    }
    writes
}

/// Clears the values of all `names`.
pub(super) fn clear_all(kind: Kind, names: &BTreeSet<String>) -> SecretWrites {
    names.iter().map(|name| (kind.vault_name(name), None)).collect()
}

pub(super) async fn write(
    tx: &mut Tx,
    vault: &Vault,
    id: &ToolServerId,
    writes: &SecretWrites,
) -> Result<(), ToolServerError> {
    for (name, secret) in writes {
        match secret {
            Some(secret) => vault.put(tx, &scope(id), name, secret).await?,
            None => vault.clear(tx, &scope(id), name).await?,
        }
    }
    Ok(())
}

/// Returns the values by name, or a sentence that names the missing one.
pub(super) async fn read(
    read: &mut Read,
    vault: &Vault,
    id: &ToolServerId,
    kind: Kind,
    names: &BTreeSet<String>,
) -> Result<Result<Vec<(String, Secret)>, String>, ToolServerError> {
    let mut values = Vec::with_capacity(names.len());
    for name in names {
        match vault.get_in(read, &scope(id), &kind.vault_name(name)).await {
            Ok(Some(secret)) => values.push((name.clone(), secret)),
            // A backup without secrets was restored.
            Ok(None) => return Ok(Err(format!("the value of {}.{name} is missing; enter it again", kind.field()))),
            // A secret that cannot be decrypted must not make the other servers unavailable.
            Err(error @ VaultError::Unsealable { .. }) => return Ok(Err(error.to_string())),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Ok(values))
}

/// Returns the names without a value; all of them after a restore without secrets.
pub(super) async fn missing(
    read: &mut Read,
    vault: &Vault,
    id: &ToolServerId,
    kind: Kind,
    names: &BTreeSet<String>,
) -> Result<BTreeSet<String>, ToolServerError> {
    let mut missing = BTreeSet::new();
    for name in names {
        if !vault.contains(read, &scope(id), &kind.vault_name(name)).await? {
            missing.insert(name.clone());
        }
    }
    Ok(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn absent_names_keep_their_values_and_null_clears() {
        let (mut known, mut problems) = (names(&["A", "B"]), Problems::new());
        let changes: SecretChanges =
            serde_json::from_value(serde_json::json!({"B": null, "C": "c", "A": {"set": true}})).unwrap();
        let writes = apply(Kind::Environment, &mut known, changes, false, |_, _| None, &mut problems);
        assert!(problems.is_empty());
        assert_eq!(known, names(&["A", "C"]));
        let written: Vec<(&str, bool)> = writes.iter().map(|(name, value)| (name.as_str(), value.is_some())).collect();
        assert_eq!(written, [("env.B", false), ("env.C", true)]);
    }

    #[test]
    fn values_are_not_kept_for_a_new_destination() {
        let (mut known, mut problems) = (names(&["a", "b", "c"]), Problems::new());
        let changes: SecretChanges =
            serde_json::from_value(serde_json::json!({"A": {"set": true}, "B": "new", "C": null})).unwrap();
        apply(Kind::Header, &mut known, changes, true, |_, _| None, &mut problems);
        let fields: Vec<String> =
            problems.into_result().unwrap_err().into_iter().map(|problem| problem.field).collect();
        assert_eq!(fields, ["headers.a"]);
    }
}
