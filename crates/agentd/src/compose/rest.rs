//! How the daemon comes to rest for a restore.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::backup::Quiesce;
use crate::monitoring::Readiness;

/// Requests and replies under way have this long to end.
const REST_LIMIT: Duration = Duration::from_secs(30);

/// Makes the daemon unready and waits until nothing works on its data.
pub(super) struct Rest {
    pub(super) readiness: Readiness,
}

impl Quiesce for Rest {
    fn quiesce(&self) -> BoxFuture<'_, Result<Box<dyn Send + Sync>, String>> {
        async {
            let restoring = self
                .readiness
                .begin_restore()
                .ok_or_else(|| "it is starting, going down, or in another restore".to_owned())?;
            if !self.readiness.wait_until_quiet(REST_LIMIT).await {
                return Err(format!("requests under way did not end within {} seconds", REST_LIMIT.as_secs()));
            }
            let restoring: Box<dyn Send + Sync> = Box::new(restoring);
            Ok(restoring)
        }
        .boxed()
    }
}
