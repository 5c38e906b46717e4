//! Leases: what one daemon at a time works on.
//!
//! A lease is columns of a row: an `owner`, the time it ends, and a `fence`, which counts how often the row was claimed and
//! only rises. A holder names owner and fence in every change, so one that lost its lease gets
//! [`StoreError::LostLease`] and changes nothing, however late it wakes. The queue of the store has its own rows and
//! the same rules ([`agentd_store::Lease`]).
//!
//! - [`LeaseTable`] describes a table whose rows are leased, [`HeldRow`] is a row that is held.
//! - [`take`] holds work that has a name instead of a row of its own, in the table `leases`.
//! - [`hold`] does something while a lease is renewed.

use std::time::Duration;

use agentd_store::{Args, Db, Durability, Lease, Read, Row, StoreError, Tx, args, in_list};

/// Rows that one statement renews.
const RENEWED_AT_ONCE: usize = 64;

/// A table whose rows are leased. Its columns for owners and fences, if it has any, are called `owner` and `fence`.
#[derive(Debug, PartialEq, Eq)]
pub struct LeaseTable {
    pub table: &'static str,
    /// The column of the primary key.
    pub key: &'static str,
    /// The column with the end of the lease.
    pub until: &'static str,
    /// What is true of rows that are held, besides `owner` and `fence`.
    pub held: &'static str,
}

impl LeaseTable {
    /// The lease that a claimed row shows, with its columns `owner` and `fence`.
    ///
    /// # Errors
    /// `StoreError::Column` if the row has other columns.
    pub fn held(&'static self, row: &Row) -> Result<HeldRow, StoreError> {
        Ok(HeldRow { table: self, key: row.get(self.key)?, owner: row.get("owner")?, fence: row.get("fence")? })
    }

    /// The lease of a row that was read earlier.
    #[must_use]
    pub fn held_by(&'static self, key: &str, owner: &str, fence: i64) -> HeldRow {
        HeldRow { table: self, key: key.to_owned(), owner: owner.to_owned(), fence }
    }

    /// Extends every lease of an owner.
    ///
    /// # Errors
    /// The database's refusal.
    pub async fn extend_all(&self, tx: &mut Tx, owner: &str, length: Duration) -> Result<(), StoreError> {
        let Self { table, until, held, .. } = self;
        let ends_at = tx.clock().now() + length;
        tx.execute(format!("UPDATE {table} SET {until} = $1 WHERE {held} AND owner = $2"), args![ends_at, owner])
            .await?;
        Ok(())
    }

    /// Extends the leases with these keys, as far as they are the owner's. `None` for a table without owners, whose keys
    /// only their holder knows.
    ///
    /// # Errors
    /// The database's refusal.
    pub async fn extend_some(
        &self,
        tx: &mut Tx,
        owner: Option<&str>,
        keys: &[impl AsRef<str>],
        length: Duration,
    ) -> Result<(), StoreError> {
        let Self { table, key, until, held } = self;
        let ends_at = tx.clock().now() + length;
        for keys in keys.chunks(RENEWED_AT_ONCE) {
            let mut values = args![ends_at];
            let of_owner = owner.map(|owner| format!(" AND owner = ${}", values.push(owner))).unwrap_or_default();
            let list = in_list(&mut values, &keys.iter().map(AsRef::as_ref).collect::<Vec<&str>>());
            let sql = format!("UPDATE {table} SET {until} = $1 WHERE {key} IN ({list}) AND {held}{of_owner}");
            tx.execute(sql, values).await?;
        }
        Ok(())
    }
}

/// A row that is held here, unless its lease ran out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldRow {
    table: &'static LeaseTable,
    key: String,
    owner: String,
    fence: i64,
}

impl HeldRow {
    #[must_use]
    pub fn owner(&self) -> &str {
        &self.owner
    }

    #[must_use]
    pub fn fence(&self) -> i64 {
        self.fence
    }

    /// Changes the row. `$1` to `$3` belong to the lease, `values` begin with `$4`.
    ///
    /// # Errors
    /// `StoreError::LostLease`, or the database's refusal.
    pub async fn update(&self, tx: &mut Tx, change: &str, values: Args) -> Result<(), StoreError> {
        let mut args = args![&self.key, &self.owner, self.fence];
        args.append(values);
        let LeaseTable { table, key, held, .. } = self.table;
        let sql = format!("UPDATE {table} SET {change} WHERE {key} = $1 AND owner = $2 AND fence = $3 AND {held}");
        match tx.execute(sql, args).await? {
            0 => Err(self.lost()),
            _ => Ok(()),
        }
    }

    /// Extends the lease to `length` from now.
    ///
    /// # Errors
    /// `StoreError::LostLease`, or the database's refusal.
    pub async fn extend(&self, tx: &mut Tx, length: Duration) -> Result<(), StoreError> {
        let ends_at = tx.clock().now() + length;
        self.update(tx, &format!("{} = $4", self.table.until), args![ends_at]).await
    }

    /// Whether the row is held still.
    ///
    /// # Errors
    /// The database's refusal.
    pub async fn is_held(&self, read: &mut Read) -> Result<bool, StoreError> {
        let LeaseTable { table, key, held, .. } = self.table;
        let sql = format!("SELECT 1 AS held FROM {table} WHERE {key} = $1 AND owner = $2 AND fence = $3 AND {held}");
        Ok(read.fetch_optional(sql, args![&self.key, &self.owner, self.fence]).await?.is_some())
    }

    fn lost(&self) -> StoreError {
        StoreError::LostLease { item: self.key.clone() }
    }
}

static NAMED: LeaseTable = LeaseTable { table: "leases", key: "name", until: "lease_until", held: "1 = 1" };

/// Takes the lease of this name for `owner`, or extends the lease `held` of it. `None` while somebody else holds it. With
/// a database for this daemon alone, the leases of others are those of daemons that are gone.
///
/// # Errors
/// The database's refusal.
pub async fn take(
    tx: &mut Tx,
    name: &str,
    owner: &str,
    held: Option<&HeldRow>,
    length: Duration,
) -> Result<Option<HeldRow>, StoreError> {
    if let Some(held) = held {
        match held.extend(tx, length).await {
            Ok(()) => return Ok(Some(held.clone())),
            Err(StoreError::LostLease { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    let (now, is_alone) = (tx.clock().now(), tx.is_exclusive());
    // A lease that ends later than any that is given was given by a clock that was set back since.
    let sql = "INSERT INTO leases (name, owner, fence, lease_until) VALUES ($1, $2, 1, $3) \
               ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, fence = leases.fence + 1, \
               lease_until = excluded.lease_until WHERE leases.lease_until <= $4 OR leases.lease_until > $3 \
               OR ($5 = 1 AND leases.owner <> $2) RETURNING name, owner, fence";
    let row = tx.fetch_optional(sql, args![name, owner, now + length, now, is_alone]).await?;
    row.map(|row| NAMED.held(&row)).transpose()
}

/// Gives a named lease back: others may take it at once.
///
/// # Errors
/// `StoreError::LostLease`, or the database's refusal.
pub async fn give_back(tx: &mut Tx, held: &HeldRow) -> Result<(), StoreError> {
    held.update(tx, "lease_until = 0", args![]).await
}

/// A lease that can be renewed.
pub trait Renew: Clone + Send + Sync + 'static {
    /// Extends it to `length` from now.
    fn renew(&self, tx: &mut Tx, length: Duration) -> impl Future<Output = Result<(), StoreError>> + Send;
}

impl Renew for HeldRow {
    async fn renew(&self, tx: &mut Tx, length: Duration) -> Result<(), StoreError> {
        self.extend(tx, length).await
    }
}

impl Renew for Lease {
    async fn renew(&self, tx: &mut Tx, length: Duration) -> Result<(), StoreError> {
        tx.heartbeat(self, length).await
    }
}

/// Does something while a lease is renewed, and drops it where the lease is lost.
///
/// # Errors
/// Those of the work, or `StoreError::LostLease`.
pub async fn hold<T: Send, E: From<StoreError> + Send>(
    db: &Db,
    lease: &impl Renew,
    length: Duration,
    work: impl Future<Output = Result<T, E>> + Send,
) -> Result<T, E> {
    tokio::select! {
        // Work that is done when the lease runs out is done; the transaction that records it checks the lease.
        biased;
        done = work => done,
        lost = keep(db, lease, length) => Err(lost.into()),
    }
}

/// Renews a lease until it is lost.
async fn keep(db: &Db, lease: &impl Renew, length: Duration) -> StoreError {
    loop {
        tokio::time::sleep(length / 3).await;
        let held = lease.clone();
        match db.write_locking(Durability::Relaxed, async move |tx: &mut Tx| held.renew(tx, length).await).await {
            Err(lost @ StoreError::LostLease { .. }) => return lost,
            // The database may be back before the lease is over.
            Err(error) => tracing::warn!(%error, "a lease could not be renewed"),
            Ok(()) => {}
        }
    }
}
