//! A database of its own for each test, when the tests run on PostgreSQL.

use std::sync::atomic::{AtomicU32, Ordering};

use sqlx::{Connection, Executor, PgConnection};

/// Dropped with the value.
pub struct ScratchDatabase {
    server: String,
    name: String,
    url: String,
}

impl ScratchDatabase {
    /// `None` when the tests run on SQLite.
    pub async fn create() -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let server = std::env::var("AGENTD_TEST_DATABASE_URL").ok()?;
        let name = format!("it_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        run(&server, format!("CREATE DATABASE {name}")).await;
        let (base, _) = server.rsplit_once('/').expect("a database name in the address");
        let url = format!("{base}/{name}");
        Some(Self { server, name, url })
    }

    pub fn url(&self) -> &str {
        &self.url
    }
}

async fn run(server: &str, statement: String) {
    let mut connection = PgConnection::connect(server).await.expect("the server answers");
    connection.execute(sqlx::AssertSqlSafe(statement)).await.expect("the statement runs");
    connection.close().await.expect("the connection closes");
}

impl Drop for ScratchDatabase {
    fn drop(&mut self) {
        let (server, name) = (self.server.clone(), self.name.clone());
        // A runtime of its own: this runs while the test's is busy dropping us.
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(run(&server, format!("DROP DATABASE {name} WITH (FORCE)")));
        });
        let _ = dropped.join();
    }
}
