//! A database of its own for each test, when the tests run on PostgreSQL.

use std::sync::atomic::{AtomicU32, Ordering};

use agentd_base::id::IdGenerator;
use agentd_base::{Clock, Entropy, Secret};
use agentd_core::migrations::MIGRATIONS;
use agentd_store::{DatabaseUrl, Db, DbOptions};
use sqlx::{Connection, Executor, PgConnection};
use tokio::sync::OnceCell;

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
        static TEMPLATE: OnceCell<String> = OnceCell::const_new();
        let server = std::env::var("AGENTD_TEST_DATABASE_URL").ok()?;
        let template = TEMPLATE.get_or_init(|| make_template(&server)).await;
        let name = format!("it_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        run(&server, format!("CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")).await;
        let url = address(&server, &name);
        Some(Self { server, name, url })
    }

    pub fn url(&self) -> &str {
        &self.url
    }
}

fn address(server: &str, name: &str) -> String {
    let (base, _) = server.rsplit_once('/').expect("a database name in the address");
    format!("{base}/{name}")
}

/// A database with the whole schema: copying it takes a fraction of what migrating each anew does. It goes with the
/// throwaway server.
async fn make_template(server: &str) -> String {
    let name = format!("it_{}_template", std::process::id());
    run(server, format!("CREATE DATABASE {name}")).await;
    let folder = tempfile::tempdir().expect("a folder");
    let (clock, entropy) = (Clock::system(), Entropy::system());
    let options = DbOptions {
        url: DatabaseUrl::Postgres(Secret::new(address(server, &name))),
        data_dir: folder.path().to_owned(),
        ids: IdGenerator::new(clock.clone(), entropy.clone()),
        clock,
        entropy,
        migrations: MIGRATIONS,
    };
    Db::open(options).await.expect("the schema can be made").close().await;
    name
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
