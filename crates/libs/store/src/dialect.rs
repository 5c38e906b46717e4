//! Differences between SQLite and PostgreSQL. All other SQL is shared.

/// Database engine behind a handle.
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

    /// Returns the text for this dialect.
    #[must_use]
    pub fn pick(self, sqlite: &'static str, postgres: &'static str) -> &'static str {
        match self {
            Self::Sqlite => sqlite,
            Self::Postgres => postgres,
        }
    }

    /// Restricts reads to settled events: no transaction that began earlier can still commit. Otherwise a late commit
    /// would appear behind a cursor that has passed it. SQLite has one writer, so every committed event is settled.
    pub(crate) fn settled_events(self) -> &'static str {
        self.pick("1 = 1", "tx_id < pg_snapshot_xmin(pg_current_snapshot())::text::bigint")
    }

    /// Locks rows for this transaction and skips rows that are locked. Empty on SQLite, which has one writer.
    #[must_use]
    pub fn skip_locked(self) -> &'static str {
        self.pick("", "FOR UPDATE SKIP LOCKED")
    }

    /// Takes a shared lock on the rows until the end of the transaction. Empty on SQLite.
    #[must_use]
    pub fn share_lock(self) -> &'static str {
        self.pick("", "FOR SHARE")
    }

    /// Takes an exclusive lock on the rows until the end of the transaction. Empty on SQLite.
    #[must_use]
    pub fn exclusive_lock(self) -> &'static str {
        self.pick("", "FOR UPDATE")
    }
}
