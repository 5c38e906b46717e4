//! Upgrade of dumps with an older schema: the dump is loaded into a temporary database of that schema, which is then
//! migrated. Always uses SQLite, because both dialects have the same tables, columns and migrations.

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
    let version = check_header(&mut lines, known).await?;
    if version == known {
        return Ok(false);
    }
    let matching = &migrations[..migrations.partition_point(|step| step.version <= version)];
    let scratch = db.open_scratch(folder, matching).await?;
    let loaded = load_rows(&scratch, lines, async |_: &mut Tx| Ok(())).await;
    scratch.close().await;
    loaded?;
    let scratch = db.open_scratch(folder, migrations).await.map_err(into_dump_error)?;
    let written = async { write(&mut scratch.read_snapshot().await?, sink, &[]).await }.await;
    scratch.close().await;
    written.map(|_| true)
}

/// Attributes a failed migration to the rows of the dump, unless the disk is full.
fn into_dump_error(error: StoreError) -> StoreError {
    let cause = match &error {
        StoreError::Migration { source, .. } => source.downcast_ref::<StoreError>(),
        StoreError::MigrationForeignKeys { .. } => None,
        _ => return error,
    };
    match cause {
        Some(cause) if cause.is_unavailable() => cause.clone(),
        Some(cause) => StoreError::dump(format!("its rows do not match the current schema: {error}: {cause}")),
        None => StoreError::dump(format!("its rows do not match the current schema: {error}")),
    }
}
