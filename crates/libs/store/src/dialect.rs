//! Everything that SQLite and PostgreSQL say differently, in one place. All other SQL is one text.

/// Which database is behind a handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    Sqlite,
    Postgres,
}

impl Dialect {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }

    /// Chooses between two texts.
    #[must_use]
    pub fn pick(self, sqlite: &'static str, postgres: &'static str) -> &'static str {
        match self {
            Self::Sqlite => sqlite,
            Self::Postgres => postgres,
        }
    }

    /// Bounds outbox reads: an event is visible only when no transaction that began before its own
    /// can still commit, else a late commit would appear behind a cursor that has passed it. SQLite
    /// has one writer, so there everything committed is final.
    pub(crate) fn settled_events(self) -> &'static str {
        self.pick("1 = 1", "tx_id < pg_snapshot_xmin(pg_current_snapshot())::text::bigint")
    }

    /// Locks rows for this transaction and leaves out those that another one holds. SQLite needs
    /// none: there is one writer.
    #[must_use]
    pub fn skip_locked(self) -> &'static str {
        self.pick("", "FOR UPDATE SKIP LOCKED")
    }

    /// Holds a row that was read as it is until the end of the transaction, for others that do the same. SQLite
    /// needs none.
    #[must_use]
    pub fn share_lock(self) -> &'static str {
        self.pick("", "FOR SHARE")
    }

    /// Holds a row that was read for this transaction alone. SQLite needs none.
    #[must_use]
    pub fn exclusive_lock(self) -> &'static str {
        self.pick("", "FOR UPDATE")
    }
}
