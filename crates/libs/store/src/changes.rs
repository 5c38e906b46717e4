//! Change logs for data derived from rows and stored outside the database. Each reader stores its own position and
//! catches up from there.
//!
//! Unlike events, changes are visible as soon as they are committed, so that an acknowledged change is visible
//! everywhere. A reader may therefore see a change twice; its position only moves past changes before which no
//! transaction can still commit. A log records which rows changed, not their content: the rows are authoritative.
//! Positions belong to one [`Db::database_id`](crate::Db::database_id); a database restored from a backup has a new id
//! and empty logs.

use agentd_base::Timestamp;

use crate::outbox::Seq;
use crate::read::Read;
use crate::{Dialect, StoreError, Tx, args};

/// Well below the parameter limits of both databases.
const ROWS_PER_STATEMENT: usize = 500;

/// Name of a change log: `const EPISODES: ChangeLog = ChangeLog::new("memory.episodes");`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangeLog(&'static str);

impl ChangeLog {
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self(name)
    }

    /// Returns the `store_info` name that holds the position of the last pruned change.
    fn floor_name(self) -> String {
        format!("changes.{}.floor", self.0)
    }
}

/// Entry of a change log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// Position of the change; unique in its log.
    pub position: Seq,
    /// Row that was added, changed or deleted; `None` if any row may have changed.
    pub row: Option<i64>,
}

/// Page of changes after a position.
#[derive(Debug, Clone, Default)]
pub struct ChangesPage {
    /// Changes in order.
    pub changes: Vec<Change>,
    /// Position to store: no further change can appear before it.
    pub position: Seq,
    /// Position of the next page, if there may be more changes.
    pub more_after: Option<Seq>,
    /// Id of the database; positions of another database are meaningless here.
    pub database_id: String,
}

fn changes_after(dialect: Dialect) -> String {
    let settled = dialect.pick("1", "(tx_id < pg_snapshot_xmin(pg_current_snapshot())::text::bigint)::int::bigint");
    // SQLite would compare the pair with every change; the unary plus makes it use the order of `seq`.
    let after_place = dialect.pick("+log = $1 AND $2 = $2 AND seq > $3", "log = $1 AND (tx_id, seq) > ($2, $3)");
    let order = dialect.pick("seq", "tx_id, seq");
    format!(
        "SELECT tx_id, seq, row_number, {settled} AS is_settled FROM changes \
         WHERE {after_place} ORDER BY {order} LIMIT $4"
    )
}

impl Read {
    /// Returns up to `limit` changes after `after`, or `None` if some of them were pruned and the reader must start
    /// over.
    pub async fn changes_after(
        &mut self,
        log: ChangeLog,
        after: Seq,
        limit: u32,
    ) -> Result<Option<ChangesPage>, StoreError> {
        let sql = changes_after(self.dialect());
        let rows = self.fetch_all(sql, args![log.0, after.transaction, after.number, limit]).await?;
        let mut page = ChangesPage { position: after, ..ChangesPage::default() };
        let mut last = after;
        let mut is_settled = true;
        for row in &rows {
            last = Seq { transaction: row.get("tx_id")?, number: row.get("seq")? };
            is_settled &= row.get::<bool>("is_settled")?;
            if is_settled {
                page.position = last;
            }
            page.changes.push(Change { position: last, row: row.get("row_number")? });
        }
        if rows.len() == limit as usize {
            page.more_after = Some(last);
        }
        // Read last, to detect changes pruned and a database loaded in the meantime.
        let mut floor = Seq::START;
        let sql = "SELECT name, value FROM store_info WHERE name IN ($1, 'database_id')";
        for row in self.fetch_all(sql, args![log.floor_name()]).await? {
            let value: String = row.get("value")?;
            match row.get::<String>("name")?.as_str() {
                "database_id" => page.database_id = value,
                _ => floor = value.parse().unwrap_or(Seq::START),
            }
        }
        Ok((after >= floor).then_some(page))
    }

    /// Returns the position of the last settled change. A new reader stores it before it reads the rows.
    pub async fn last_change(&mut self, log: ChangeLog) -> Result<Seq, StoreError> {
        let settled = self.dialect().settled_events();
        let sql = format!(
            "SELECT tx_id, seq FROM changes WHERE log = $1 AND {settled} ORDER BY tx_id DESC, seq DESC LIMIT 1"
        );
        match self.fetch_optional(sql, args![log.0]).await? {
            Some(row) => Ok(Seq { transaction: row.get("tx_id")?, number: row.get("seq")? }),
            None => self.changes_floor(log).await,
        }
    }

    async fn changes_floor(&mut self, log: ChangeLog) -> Result<Seq, StoreError> {
        let row = self.fetch_optional("SELECT value FROM store_info WHERE name = $1", args![log.floor_name()]).await?;
        let Some(row) = row else { return Ok(Seq::START) };
        Ok(row.get::<String>("value")?.parse().unwrap_or(Seq::START))
    }
}

impl Tx {
    /// Records that this transaction adds, changes or deletes `row`; `None` means any row may change.
    pub async fn log_change(&mut self, log: ChangeLog, row: Option<i64>) -> Result<(), StoreError> {
        let now = self.clock().now();
        self.execute("INSERT INTO changes (log, row_number, created_at) VALUES ($1, $2, $3)", args![log.0, row, now])
            .await?;
        Ok(())
    }

    /// Records many changes with few statements.
    pub async fn log_changes(&mut self, log: ChangeLog, rows: &[i64]) -> Result<(), StoreError> {
        let now = self.clock().now();
        for batch in rows.chunks(ROWS_PER_STATEMENT) {
            let mut args = args![log.0, now];
            let rows: Vec<String> = batch.iter().map(|row| format!("($1, ${}, $2)", args.push(*row))).collect();
            let sql = format!("INSERT INTO changes (log, row_number, created_at) VALUES {}", rows.join(", "));
            self.execute(sql, args).await?;
        }
        Ok(())
    }

    /// Deletes up to `limit` changes older than `before` and returns their number.
    pub async fn prune_changes(&mut self, log: ChangeLog, before: Timestamp, limit: u32) -> Result<u64, StoreError> {
        let settled = self.dialect().settled_events();
        let sql = format!(
            "SELECT tx_id, seq, created_at FROM changes WHERE log = $1 AND {settled} ORDER BY tx_id, seq LIMIT $2"
        );
        let mut floor = None;
        for row in self.fetch_all(sql, args![log.0, limit]).await? {
            if row.get::<Timestamp>("created_at")? >= before {
                break;
            }
            floor = Some(Seq { transaction: row.get("tx_id")?, number: row.get("seq")? });
        }
        let Some(floor) = floor else { return Ok(0) };
        self.execute(
            "INSERT INTO store_info (name, value) VALUES ($1, $2) \
             ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            args![log.floor_name(), floor.to_string()],
        )
        .await?;
        let until_floor =
            self.dialect().pick("+log = $1 AND $2 = $2 AND seq <= $3", "log = $1 AND (tx_id, seq) <= ($2, $3)");
        let sql = format!("DELETE FROM changes WHERE {until_floor}");
        self.execute(sql, args![log.0, floor.transaction, floor.number]).await
    }

    /// Empties every log after a load or renumbering, which changes the database id.
    pub(crate) async fn forget_changes(&mut self) -> Result<(), StoreError> {
        self.execute("DELETE FROM changes", args![]).await?;
        self.execute("DELETE FROM store_info WHERE name LIKE 'changes.%'", args![]).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use agentd_base::id::IdGenerator;
    use agentd_base::{Clock, Entropy};

    use super::*;
    use crate::{DatabaseUrl, Db, DbOptions, OWN_MIGRATIONS};

    /// The query runs after every change and before every search, so its cost must not depend on the length of the log.
    #[tokio::test]
    async fn query_scans_only_changes_after_the_position() {
        let folder = tempfile::tempdir().unwrap();
        let (clock, entropy) = (Clock::system(), Entropy::seeded(7));
        let options = DbOptions {
            url: DatabaseUrl::Sqlite { path: folder.path().join("agentd.db") },
            data_dir: folder.path().to_owned(),
            ids: IdGenerator::new(clock.clone(), entropy.clone()),
            clock,
            entropy,
            migrations: OWN_MIGRATIONS,
        };
        let db = Db::open(options).await.unwrap();
        let mut read = db.read().await.unwrap();
        let sql = format!("EXPLAIN QUERY PLAN {}", changes_after(Dialect::Sqlite));
        let plan = read.fetch_all(sql, args!["a", 0i64, 7i64, 1i64]).await.unwrap();
        let steps: Vec<String> = plan.iter().map(|row| row.get("detail").unwrap()).collect();
        assert_eq!(steps, ["SEARCH changes USING INTEGER PRIMARY KEY (rowid>?)"]);
        drop(read);
        db.close().await;
    }
}
