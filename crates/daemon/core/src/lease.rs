//! Leases with fencing: each leased item has at most one owner among all daemons.
//!
//! A lease is stored in columns of a row: an `owner`, an expiry time, and a `fence` that increases with every claim.
//! Every update by the holder is conditional on owner and fence. A holder that lost its lease gets
//! [`StoreError::LostLease`] and changes nothing, however late it resumes. The queue of the store applies the same
//! rules to its own rows ([`agentd_store::Lease`]).
//!
//! - [`LeaseTable`] describes a table whose rows are leased; [`HeldRow`] is the lease of one row.
//! - [`acquire`] leases a name, for work without a row of its own, in the table `leases`.
//! - [`run_until_lost`] runs a future while it renews a lease.

use std::time::Duration;

use agentd_store::{Args, Db, Durability, Lease, Read, Row, StoreError, Tx, args, in_list};

/// Maximum number of leases that one statement renews.
const RENEWAL_BATCH_SIZE: usize = 64;

/// Table whose rows are leased. Its columns for owners and fences, if it has any, are called `owner` and `fence`.
#[derive(Debug, PartialEq, Eq)]
pub struct LeaseTable {
    pub table: &'static str,
    /// Name of the primary key column.
    pub key: &'static str,
    /// Name of the column with the expiry time of the lease.
    pub until: &'static str,
    /// SQL condition of leased rows, in addition to `owner` and `fence`.
    pub held: &'static str,
}

impl LeaseTable {
    /// Reads the lease of a claimed row from its columns `owner` and `fence`.
    ///
    /// # Errors
    /// `StoreError::Column` if one of the columns is missing.
    pub fn lease_from_row(&'static self, row: &Row) -> Result<HeldRow, StoreError> {
        Ok(HeldRow { table: self, key: row.get(self.key)?, owner: row.get("owner")?, fence: row.get("fence")? })
    }

    /// Rebuilds the lease of a row that was read earlier.
    #[must_use]
    pub fn lease(&'static self, key: &str, owner: &str, fence: i64) -> HeldRow {
        HeldRow { table: self, key: key.to_owned(), owner: owner.to_owned(), fence }
    }

    /// Extends all leases of an owner to `length` from now.
    ///
    /// # Errors
    /// `StoreError` if the update fails.
    pub async fn extend_all(&self, tx: &mut Tx, owner: &str, length: Duration) -> Result<(), StoreError> {
        let Self { table, until, held, .. } = self;
        let ends_at = tx.clock().now() + length;
        tx.execute(format!("UPDATE {table} SET {until} = $1 WHERE {held} AND owner = $2"), args![ends_at, owner])
            .await?;
        Ok(())
    }

    /// Extends the leases with these keys that belong to `owner`. `None` is for tables without an owner column, where
    /// only the holder knows the keys.
    ///
    /// # Errors
    /// `StoreError` if an update fails.
    pub async fn extend_some(
        &self,
        tx: &mut Tx,
        owner: Option<&str>,
        keys: &[impl AsRef<str>],
        length: Duration,
    ) -> Result<(), StoreError> {
        let Self { table, key, until, held } = self;
        let ends_at = tx.clock().now() + length;
        for keys in keys.chunks(RENEWAL_BATCH_SIZE) {
            let mut values = args![ends_at];
            let owner_condition =
                owner.map(|owner| format!(" AND owner = ${}", values.push(owner))).unwrap_or_default();
            let list = in_list(&mut values, &keys.iter().map(AsRef::as_ref).collect::<Vec<&str>>());
            let sql = format!("UPDATE {table} SET {until} = $1 WHERE {key} IN ({list}) AND {held}{owner_condition}");
            tx.execute(sql, values).await?;
        }
        Ok(())
    }
}

/// Lease of a row, as held by this process. It may have expired.
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

    /// Updates the row if the lease is still held. `$1` to `$3` are reserved; `values` start at `$4`.
    ///
    /// # Errors
    /// `StoreError::LostLease` if the lease was lost; another `StoreError` if the update fails.
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
    /// `StoreError::LostLease` if the lease was lost; another `StoreError` if the update fails.
    pub async fn extend(&self, tx: &mut Tx, length: Duration) -> Result<(), StoreError> {
        let ends_at = tx.clock().now() + length;
        self.update(tx, &format!("{} = $4", self.table.until), args![ends_at]).await
    }

    /// Whether the lease is still held.
    ///
    /// # Errors
    /// `StoreError` if the query fails.
    pub async fn is_held(&self, read: &mut Read) -> Result<bool, StoreError> {
        let LeaseTable { table, key, held, .. } = self.table;
        let sql = format!("SELECT 1 AS held FROM {table} WHERE {key} = $1 AND owner = $2 AND fence = $3 AND {held}");
        Ok(read.fetch_optional(sql, args![&self.key, &self.owner, self.fence]).await?.is_some())
    }

    fn lost(&self) -> StoreError {
        StoreError::LostLease { item: self.key.clone() }
    }
}

static NAMED_LEASES: LeaseTable = LeaseTable { table: "leases", key: "name", until: "lease_until", held: "1 = 1" };

/// Acquires the lease `name` for `owner`, or extends the lease `held`. Returns `None` while another owner holds it.
/// With a database that only this daemon uses, leases of other owners are left over from earlier processes.
///
/// # Errors
/// `StoreError` if the update fails.
pub async fn acquire(
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
    // A lease that expires later than one granted now comes from a clock that was set back since; it may be replaced.
    let sql = "INSERT INTO leases (name, owner, fence, lease_until) VALUES ($1, $2, 1, $3) \
               ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, fence = leases.fence + 1, \
               lease_until = excluded.lease_until WHERE leases.lease_until <= $4 OR leases.lease_until > $3 \
               OR ($5 = 1 AND leases.owner <> $2) RETURNING name, owner, fence";
    let row = tx.fetch_optional(sql, args![name, owner, now + length, now, is_alone]).await?;
    row.map(|row| NAMED_LEASES.lease_from_row(&row)).transpose()
}

/// Releases a named lease. Other owners can acquire it immediately.
///
/// # Errors
/// `StoreError::LostLease` if the lease was lost; another `StoreError` if the update fails.
pub async fn release(tx: &mut Tx, held: &HeldRow) -> Result<(), StoreError> {
    held.update(tx, "lease_until = 0", args![]).await
}

/// A lease that can be renewed.
pub trait Renew: Clone + Send + Sync + 'static {
    /// Extends the lease to `length` from now.
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

/// Runs `work` while renewing a lease, and cancels it if the lease is lost.
///
/// # Errors
/// The error of `work`, or `StoreError::LostLease`.
pub async fn run_until_lost<T: Send, E: From<StoreError> + Send>(
    db: &Db,
    lease: &impl Renew,
    length: Duration,
    work: impl Future<Output = Result<T, E>> + Send,
) -> Result<T, E> {
    tokio::select! {
        // Finished work wins over a lost lease: the transaction that records the result checks the lease.
        biased;
        done = work => done,
        lost = renew_until_lost(db, lease, length) => Err(lost.into()),
    }
}

async fn renew_until_lost(db: &Db, lease: &impl Renew, length: Duration) -> StoreError {
    loop {
        tokio::time::sleep(length / 3).await;
        let held = lease.clone();
        match db.write_locking(Durability::Relaxed, async move |tx: &mut Tx| held.renew(tx, length).await).await {
            Err(lost @ StoreError::LostLease { .. }) => return lost,
            // The database may be available again before the lease expires.
            Err(error) => tracing::warn!(%error, "failed to renew lease"),
            Ok(()) => {}
        }
    }
}
