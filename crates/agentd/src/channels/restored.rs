//! Messages and those who write them, out of an archive: what names no platform, or no place to answer, is refused, and
//! connections begin anew.

use agentd_store::{StoreError, Tx};
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;

use super::store;
use crate::runtime::ValidateRestored;

/// Holds restored rows of channels against their types.
#[derive(Debug)]
pub struct ValidateChannels;

impl ValidateRestored for ValidateChannels {
    fn validate<'t>(&'t self, tx: &'t mut Tx) -> LocalBoxFuture<'t, Result<Option<String>, StoreError>> {
        find_fault(tx).boxed_local()
    }
}

async fn find_fault(tx: &mut Tx) -> Result<Option<String>, StoreError> {
    store::delete_connections(tx).await?;
    match store::read_all(tx).await {
        Ok(()) => Ok(None),
        Err(StoreError::Column { column, source }) => {
            Ok(Some(format!("the {column} of a row about chat platforms cannot be read: {source}")))
        }
        Err(error) => Err(error),
    }
}
