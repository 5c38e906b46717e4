//! Settings outside of sections: rows of other domains that are part of an export, and references to their objects.

use agentd_base::FieldProblem;
use agentd_store::{Read, StoreError, Tx};
use futures_util::future::{BoxFuture, LocalBoxFuture};
use serde_json::Value;

use crate::settings::safety::{SafetyReport, SafetyScope};

/// Validates a reference of a setting to an object of another domain.
pub trait ValidateReference: Send + Sync {
    /// Returns the section and field that contain the reference.
    fn named_by(&self) -> (&'static str, &'static str);

    /// Returns the problem if `name` does not refer to an existing object.
    fn problem<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Option<String>>;
}

/// Result of importing a portable section.
#[derive(Debug, Default)]
pub struct PortableImport {
    pub problems: Vec<FieldProblem>,
    /// Secrets that were dropped because their destination changed.
    pub dropped_secrets: Vec<String>,
    pub safety: SafetyReport,
}

/// Settings that a domain stores in its own tables.
pub trait PortableSection: Send + Sync {
    /// Returns the name among the categories.
    fn name(&self) -> &'static str;

    /// Exports all settings without secrets.
    fn export<'r>(&'r self, read: &'r mut Read) -> BoxFuture<'r, Result<Value, StoreError>>;

    /// Removes data from an export that keys with the scope `read` must not see.
    fn redact_for_read_scope(&self, exported: &mut Value);

    /// Merges an export into the current settings; safety settings only if `safety` includes them. If there are
    /// problems, the transaction is rolled back.
    fn import<'t>(
        &'t self,
        tx: &'t mut Tx,
        exported: &'t Value,
        safety: SafetyScope,
    ) -> LocalBoxFuture<'t, Result<PortableImport, StoreError>>;

    /// Called after the commit of an import.
    fn imported(&self) -> BoxFuture<'_, ()>;
}
