//! Change log of the database, written by triggers and read by the simulation independently of the daemons.

use std::path::Path;

use agentd_base::id::IdGenerator;
use agentd_base::{Entropy, MockClock, Timestamp};
use agentd_core::migrations::MIGRATIONS;
use agentd_store::testing::open_simulated;
use agentd_store::{Args, DatabaseUrl, Db, DbOptions, Row, StoreError, Tx, args};
use tokio::runtime::Runtime;
use tokio::task::LocalSet;

use super::world::Life;

/// State of a row before or after a change.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Side {
    pub status: String,
    pub owner: Option<String>,
    pub fence: i64,
    pub due: Option<i64>,
    pub attempt: i64,
    /// Identification of the row, as words separated by spaces.
    pub about: String,
}

/// An inserted or updated row, in commit order.
#[derive(Debug, Clone)]
pub struct Change {
    pub seq: i64,
    /// Life that made the change, and the time on its clock.
    pub life: Life,
    pub clock: i64,
    pub kind: String,
    pub id: String,
    /// `None` for an inserted row.
    pub old: Option<Side>,
    pub new: Side,
}

pub struct Ledger {
    db: Option<Db>,
    read_to: i64,
    actor: Option<(Life, Timestamp)>,
    local: LocalSet,
    runtime: Runtime,
}

fn side(row: &Row, which: &str) -> Result<Side, StoreError> {
    let owner: Option<String> = row.get(&format!("{which}_owner"))?;
    Ok(Side {
        status: row.get(&format!("{which}_status"))?,
        // Without the process id, which differs in every run.
        owner: owner.map(|owner| owner.split('@').next().unwrap_or_default().to_owned()),
        fence: row.get(&format!("{which}_fence"))?,
        due: row.get(&format!("{which}_due"))?,
        attempt: row.get(&format!("{which}_attempt"))?,
        about: row.get(&format!("{which}_about"))?,
    })
}

fn change(row: &Row) -> Result<Change, StoreError> {
    let is_new: bool = row.get("is_new")?;
    Ok(Change {
        seq: row.get("seq")?,
        life: row.get("life")?,
        clock: row.get("clock")?,
        kind: row.get("kind")?,
        id: row.get("id")?,
        old: if is_new { None } else { Some(side(row, "old")?) },
        new: side(row, "new")?,
    })
}

impl Ledger {
    pub fn open(folder: &Path, database: &Path) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let (local, entropy) = (LocalSet::new(), Entropy::seeded(0));
        let clock = MockClock::new(Timestamp::from_micros(0)).clock();
        let options = DbOptions {
            url: DatabaseUrl::Sqlite { path: database.to_owned() },
            data_dir: folder.join("ledger"),
            ids: IdGenerator::new(clock.clone(), entropy.clone()),
            clock,
            entropy,
            migrations: MIGRATIONS,
        };
        let db = local.block_on(&runtime, open_simulated(options)).expect("the database opens");
        Self { db: Some(db), read_to: 0, actor: None, local, runtime }
    }

    fn db(&self) -> &Db {
        self.db.as_ref().expect("the database is open")
    }

    /// Sets the life that is recorded for subsequent changes, and the time on its clock.
    pub fn set_actor(&mut self, life: Life, clock: Timestamp) {
        if self.actor == Some((life, clock)) {
            return;
        }
        self.actor = Some((life, clock));
        let note = async move |tx: &mut Tx| {
            tx.execute("UPDATE simulated_actor SET life = $1, clock = $2", args![life, clock]).await
        };
        self.local.block_on(&self.runtime, self.db().write_relaxed::<_, StoreError, _>(note)).expect("an actor");
    }

    /// Returns the changes since the last call.
    pub fn read_new_changes(&mut self) -> Vec<Change> {
        let rows = self.rows("SELECT * FROM simulated_changes WHERE seq > $1 ORDER BY seq", args![self.read_to]);
        let changes: Vec<Change> = rows.iter().map(|row| change(row).expect("a change")).collect();
        self.read_to = changes.last().map_or(self.read_to, |change| change.seq);
        changes
    }

    /// Executes statements that change the data or the schema.
    pub fn change(&self, statements: Vec<String>) {
        let change = async move |tx: &mut Tx| {
            for statement in &statements {
                tx.execute(statement.clone(), args![]).await?;
            }
            Ok::<_, StoreError>(())
        };
        self.local.block_on(&self.runtime, self.db().write(change)).expect("execute the statements");
    }

    pub fn rows(&self, sql: &str, args: Args) -> Vec<Row> {
        let sql = sql.to_owned();
        let read = async { self.db().read().await?.fetch_all(sql, args).await };
        self.local.block_on(&self.runtime, read).expect("rows")
    }

    pub fn number(&self, sql: &str) -> i64 {
        self.rows(sql, args![]).first().and_then(|row| row.first::<Option<i64>>().expect("a number")).unwrap_or(0)
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        let _entered = self.runtime.enter();
        self.db = None;
        drop(std::mem::take(&mut self.local));
    }
}
