//! Logical dumps: every table as lines of JSON, from one consistent state, readable by either
//! database.

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
    /// Writes the whole database to `sink`, except the tables in `exclude`. Holds back no writer.
    ///
    /// # Errors
    /// When the database cannot be read or `sink` cannot be written.
    pub async fn dump<W>(&self, sink: &mut W, exclude: &[&str]) -> Result<DumpSummary, StoreError>
    where
        W: AsyncWrite + Unpin + Send,
    {
        write::write(&mut self.read_snapshot().await?, sink, exclude).await
    }

    /// Empties every table and loads a dump, all in one transaction: whatever goes wrong, the old
    /// contents stand. Tables that the dump does not have stay empty. Leases end. All topics count
    /// as changed, and the database has a new [`database_id`](Self::database_id).
    ///
    /// It holds the writer for as long as it takes: drain first.
    ///
    /// # Errors
    /// `StoreError::Dump` when the dump is not one, is cut off, or was made by a program with another
    /// schema; see [`upgrade_dump`](Self::upgrade_dump).
    pub async fn load<R>(&self, source: &mut R) -> Result<DumpSummary, StoreError>
    where
        R: AsyncRead + Unpin + Send,
    {
        self.load_validated(source, async |_: &mut Tx| Ok(())).await
    }

    /// Like [`load`](Self::load), but before anything is committed `validate` looks at what was loaded;
    /// what it answers with an error is taken back whole.
    ///
    /// # Errors
    /// As [`load`](Self::load), and what `validate` answers.
    pub async fn load_validated<R, J>(&self, source: &mut R, validate: J) -> Result<DumpSummary, StoreError>
    where
        R: AsyncRead + Unpin + Send,
        J: AsyncFn(&mut Tx) -> Result<(), StoreError> + Send + 'static,
    {
        load::load(self, source, validate).await
    }

    /// Writes a dump of an older schema to `sink` as one of this database's schema; answers whether that was needed,
    /// otherwise nothing is written. In between is a SQLite database in `folder`, which is left there. This database
    /// is not looked at.
    ///
    /// # Errors
    /// `StoreError::Dump` when the dump is not one, is cut off, is of a newer schema, or has rows that do not fit.
    pub async fn upgrade_dump<R, W>(&self, source: &mut R, sink: &mut W, folder: &Path) -> Result<bool, StoreError>
    where
        R: AsyncRead + Unpin + Send,
        W: AsyncWrite + Unpin + Send,
    {
        upgrade::upgrade(self, source, sink, folder).await
    }
}
