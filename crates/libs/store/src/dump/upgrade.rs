//! Dumps of older schemas: loaded into a database of that time, which then takes the steps that any database of that
//! time takes. Always SQLite, because its tables, columns and steps are those of PostgreSQL.

use std::path::Path;

use tokio::io::{AsyncRead, AsyncWrite};

use super::load::{Lines, check_header, load_rows};
use super::write::write;
use crate::{Db, StoreError, Tx};

pub(super) async fn upgrade<R, W>(db: &Db, source: &mut R, sink: &mut W, folder: &Path) -> Result<bool, StoreError>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send,
{
    let migrations = db.shared().migrations;
    let known = migrations.last().map_or(0, |last| last.version);
    let mut lines = Lines::new(source);
    let made = check_header(&mut lines, known).await?;
    if made == known {
        return Ok(false);
    }
    let of_that_time = &migrations[..migrations.partition_point(|step| step.version <= made)];
    let scratch = db.open_scratch(folder, of_that_time).await?;
    let loaded = load_rows(&scratch, lines, async |_: &mut Tx| Ok(())).await;
    scratch.close().await;
    loaded?;
    let scratch = db.open_scratch(folder, migrations).await.map_err(blame_rows)?;
    let written = async { write(&mut scratch.read_snapshot().await?, sink, &[]).await }.await;
    scratch.close().await;
    written.map(|_| true)
}

/// A step that succeeds on every database of ours fails because of the rows, unless the disk is full.
fn blame_rows(error: StoreError) -> StoreError {
    let cause = match &error {
        StoreError::Migration { source, .. } => source.downcast_ref::<StoreError>(),
        StoreError::MigrationForeignKeys { .. } => None,
        _ => return error,
    };
    match cause {
        Some(cause) if cause.is_unavailable() => cause.clone(),
        Some(cause) => StoreError::dump(format!("its rows do not fit the newer schema: {error}: {cause}")),
        None => StoreError::dump(format!("its rows do not fit the newer schema: {error}")),
    }
}
