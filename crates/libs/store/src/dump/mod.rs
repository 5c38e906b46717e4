//! Logical dumps: every table as JSON lines from one consistent state, readable by both databases.

pub(crate) mod catalog;
mod format;
mod load;
mod upgrade;
pub(crate) mod write;

use std::path::Path;

use tokio::io::{AsyncRead, AsyncWrite};

pub use self::format::DumpSummary;
use crate::{Db, StoreError, Tx};

impl Db {
    /// Writes the whole database to `sink`, except the tables in `exclude`. Does not block writers.
    ///
    /// # Errors
    /// Errors of reading the database or writing to `sink`.
    pub async fn dump<W>(&self, sink: &mut W, exclude: &[&str]) -> Result<DumpSummary, StoreError>
    where
        W: AsyncWrite + Unpin + Send,
    {
        write::write(&mut self.read_snapshot().await?, sink, exclude).await
    }

    /// Empties every table and loads a dump in one transaction: on any failure the old contents remain. Tables missing
    /// from the dump stay empty. Leases are released, all topics count as changed, and the database gets a new
    /// [`database_id`](Self::database_id).
    ///
    /// Blocks the writer until it has finished: drain first.
    ///
    /// # Errors
    /// `StoreError::Dump` if the input is not a dump, is truncated, or has another schema version; see
    /// [`upgrade_dump`](Self::upgrade_dump).
    pub async fn load<R>(&self, source: &mut R) -> Result<DumpSummary, StoreError>
    where
        R: AsyncRead + Unpin + Send,
    {
        self.load_validated(source, async |_: &mut Tx| Ok(())).await
    }

    /// Like [`load`](Self::load), but calls `validate` before the commit; an error from it rolls back the load.
    ///
    /// # Errors
    /// Errors of [`load`](Self::load) and of `validate`.
    pub async fn load_validated<R, J>(&self, source: &mut R, validate: J) -> Result<DumpSummary, StoreError>
    where
        R: AsyncRead + Unpin + Send,
        J: AsyncFn(&mut Tx) -> Result<(), StoreError> + Send + 'static,
    {
        load::load(self, source, validate).await
    }

    /// Converts a dump of an older schema to the current schema and writes it to `sink`. Returns `false` and writes
    /// nothing if the schema is current. Uses a temporary SQLite database in `folder` and leaves it there; this
    /// database is not read.
    ///
    /// # Errors
    /// `StoreError::Dump` if the input is not a dump, is truncated, has a newer schema, or has rows that violate it.
    pub async fn upgrade_dump<R, W>(&self, source: &mut R, sink: &mut W, folder: &Path) -> Result<bool, StoreError>
    where
        R: AsyncRead + Unpin + Send,
        W: AsyncWrite + Unpin + Send,
    {
        upgrade::upgrade(self, source, sink, folder).await
    }
}
