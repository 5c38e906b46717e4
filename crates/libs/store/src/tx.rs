//! A transaction: reads, statements, and what is to be told to others once it has committed.

use std::ops::{Deref, DerefMut};

use crate::read::Read;
use crate::topic::Topic;
use crate::{Args, Sql, StoreError, args};

/// The transaction that a closure given to [`Db::write`](crate::Db::write) works in.
///
/// After a statement failed, the transaction can only be given up: every further statement answers
/// `StoreError::Aborted`, and so does a closure that answers `Ok` all the same. To try an insertion,
/// write `ON CONFLICT DO NOTHING` and look at the number of rows.
#[derive(Debug)]
pub struct Tx {
    pub(crate) read: Read,
    pub(crate) touched: Vec<Topic>,
    /// Names that only wake: the outbox, queues.
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

    /// Forgets what the last closure left behind.
    pub(crate) fn reset(&mut self) {
        self.read.failure = None;
        self.touched.clear();
        self.woken.clear();
        self.keeps_version = false;
    }

    /// Runs a statement and answers how many rows it changed.
    ///
    /// # Errors
    /// What the database refuses; see [`StoreError`].
    pub async fn execute(&mut self, sql: impl Into<Sql>, args: Args) -> Result<u64, StoreError> {
        self.read.run(sql.into(), args).await
    }

    /// Notes that what `topic` stands for changes with this transaction.
    pub fn touch(&mut self, topic: Topic) {
        if !self.touched.contains(&topic) {
            self.touched.push(topic);
        }
    }

    /// What this transaction writes gives nobody anything to do: [`Db::version`](crate::Db::version) stays as it is,
    /// and who rests goes on resting. For what is written again and again while nothing happens.
    pub fn keep_version(&mut self) {
        self.keeps_version = true;
    }

    /// Wakes whoever waits for `name` once this transaction has committed.
    pub(crate) fn wake(&mut self, name: String) {
        if !self.woken.contains(&name) {
            self.woken.push(name);
        }
    }

    /// Raises the version of each topic that was touched. Last before the commit, and in one order, so that these
    /// rows are held briefly and never crosswise.
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
