//! Settings that are no section: rows of a domain that belong to an export all the same.

use agentd_base::FieldProblem;
use agentd_store::{Read, StoreError, Tx};
use futures_util::future::{BoxFuture, LocalBoxFuture};
use serde_json::Value;

use crate::settings::safety::{SafetyReport, SafetyScope};

/// Something that a setting names and another part of the daemon has.
pub trait FindsNamed: Send + Sync {
    /// The section and the field that name it.
    fn named_by(&self) -> (&'static str, &'static str);

    /// Why this is no name of such a thing.
    fn problem<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Option<String>>;
}

/// What came of an import.
#[derive(Debug, Default)]
pub struct KeeperImport {
    pub problems: Vec<FieldProblem>,
    /// Secrets that were there and had to go, because what they are sent to has changed.
    pub dropped_secrets: Vec<String>,
    pub safety: SafetyReport,
}

/// A part of the daemon that keeps settings in rows of its own.
pub trait PortableSection: Send + Sync {
    /// Its name among the categories.
    fn name(&self) -> &'static str;

    /// All of them, without secrets.
    fn export<'r>(&'r self, read: &'r mut Read) -> BoxFuture<'r, Result<Value, StoreError>>;

    /// Takes out of an export what a key that may only read is not shown.
    fn conceal(&self, exported: &mut Value);

    /// Lays an export over what is there; its safety settings only if `safety` includes them. Where something is wrong,
    /// the transaction is given up.
    fn import<'t>(
        &'t self,
        tx: &'t mut Tx,
        exported: &'t Value,
        safety: SafetyScope,
    ) -> LocalBoxFuture<'t, Result<KeeperImport, StoreError>>;

    /// What follows the commit of an import.
    fn imported(&self) -> BoxFuture<'_, ()>;
}
