//! Blocks the writers of the database, so that a test can act exactly before a commit.

use agentd_store::{Dialect, StoreError, Tx, args};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::TestApp;

/// Blocks writes to a table while it exists; on SQLite, blocks all writes.
pub struct HeldWrites {
    release: watch::Sender<bool>,
    holding: JoinHandle<Result<(), StoreError>>,
}

impl TestApp {
    /// Returns when the writers are blocked. Reads continue.
    pub async fn hold_writes(&self, table: &'static str) -> HeldWrites {
        let db = self.running().context().db.clone();
        let (release, released) = watch::channel(false);
        let (held, mut is_held) = watch::channel(false);
        let holding = tokio::spawn(async move {
            db.write(async move |tx: &mut Tx| {
                if tx.dialect() == Dialect::Postgres {
                    tx.execute(format!("LOCK TABLE {table} IN EXCLUSIVE MODE"), args![]).await?;
                }
                held.send_replace(true);
                // An error means that the test has ended.
                let _ = released.clone().wait_for(|is_released| *is_released).await;
                Ok(())
            })
            .await
        });
        is_held.wait_for(|is_held| *is_held).await.expect("the writers are blocked");
        HeldWrites { release, holding }
    }
}

impl HeldWrites {
    pub async fn release(self) {
        self.release.send_replace(true);
        self.holding.await.expect("no panic").expect("end the blocking transaction");
    }
}
