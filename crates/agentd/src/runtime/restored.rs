//! What comes out of an archive was written by anybody who could write to it.

use agentd_store::{StoreError, Tx};
use futures_util::future::LocalBoxFuture;

/// A domain that holds rows from an archive against its own types, before they are the daemon's.
pub trait ValidateRestored: Send + Sync {
    /// Looks at the rows that were just loaded. The answer is what could not have been written by the
    /// domain itself, as the end of a sentence; then all of it is taken back.
    fn validate<'t>(&'t self, tx: &'t mut Tx) -> LocalBoxFuture<'t, Result<Option<String>, StoreError>>;
}
