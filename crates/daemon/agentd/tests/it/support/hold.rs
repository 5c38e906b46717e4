//! Holds the database's writers still, so that a test can do something exactly before a commit.

use agentd_store::{Dialect, StoreError, Tx, args};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::TestApp;

/// While this lives, nothing is written to a table: on SQLite nothing at all.
pub struct HeldWrites {
    release: watch::Sender<bool>,
    holding: JoinHandle<Result<(), StoreError>>,
}

impl TestApp {
    /// Answers when the writers stand still. Reading goes on.
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
                // An error says that the test is over.
                let _ = released.clone().wait_for(|is_released| *is_released).await;
                Ok(())
            })
            .await
        });
        is_held.wait_for(|is_held| *is_held).await.expect("the writers are held");
        HeldWrites { release, holding }
    }
}

impl HeldWrites {
    pub async fn release(self) {
        self.release.send_replace(true);
        self.holding.await.expect("no panic").expect("the transaction that held the others ends");
    }
}
