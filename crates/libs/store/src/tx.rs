//! Transactions: reads, statements, and notifications to send after the commit.

use std::ops::{Deref, DerefMut};

use crate::read::Read;
use crate::topic::Topic;
use crate::{Args, Sql, StoreError, args};

/// Transaction passed to a closure of [`Db::write`](crate::Db::write).
///
/// After a failed statement the transaction can only be rolled back: every further statement returns
/// `StoreError::Aborted`, and so does a closure that ignores the failure. To attempt an insertion, use `ON CONFLICT DO
/// NOTHING` and check the number of rows.
#[derive(Debug)]
pub struct Tx {
    pub(crate) read: Read,
    pub(crate) touched: Vec<Topic>,
    /// Wake-up signals: the outbox, queues.
    pub(crate) woken: Vec<String>,
    pub(crate) keeps_version: bool,
}

impl Deref for Tx {
    type Target = Read;

    fn deref(&self) -> &Read {
        &self.read
    }
}

impl DerefMut for Tx {
    fn deref_mut(&mut self) -> &mut Read {
        &mut self.read
    }
}

impl Tx {
    pub(crate) fn new(read: Read) -> Self {
        Self { read, touched: Vec::new(), woken: Vec::new(), keeps_version: false }
    }

    /// Clears the state of the previous closure.
    pub(crate) fn reset(&mut self) {
        self.read.failure = None;
        self.touched.clear();
        self.woken.clear();
        self.keeps_version = false;
    }

    /// Runs a statement and returns the number of changed rows.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn execute(&mut self, sql: impl Into<Sql>, args: Args) -> Result<u64, StoreError> {
        self.read.run(sql.into(), args).await
    }

    /// Records that this transaction changes the data of `topic`.
    pub fn touch(&mut self, topic: Topic) {
        if !self.touched.contains(&topic) {
            self.touched.push(topic);
        }
    }

    /// Leaves [`Db::version`](crate::Db::version) unchanged, because the writes of this transaction create no work. For
    /// periodic writes that must not wake idle workers.
    pub fn keep_version(&mut self) {
        self.keeps_version = true;
    }

    /// Wakes the watchers of `name` once this transaction has committed.
    pub(crate) fn wake(&mut self, name: String) {
        if !self.woken.contains(&name) {
            self.woken.push(name);
        }
    }

    /// Increments the version of each touched topic. Runs last before the commit and in a fixed order, so that the rows
    /// are locked briefly and without deadlocks.
    pub(crate) async fn bump_versions(&mut self, shard: usize) -> Result<(), StoreError> {
        let mut touched = self.touched.clone();
        touched.sort_unstable();
        for topic in touched {
            self.execute(
                "INSERT INTO topics (name, shard, version) VALUES ($1, $2, 1) \
                 ON CONFLICT (name, shard) DO UPDATE SET version = topics.version + 1",
                args![topic.name(), shard],
            )
            .await?;
        }
        Ok(())
    }
}
