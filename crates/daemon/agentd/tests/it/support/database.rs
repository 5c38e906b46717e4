//! Creates a separate database for each test when the tests run on PostgreSQL.

use std::sync::atomic::{AtomicU32, Ordering};

use agentd_base::id::IdGenerator;
use agentd_base::{Clock, Entropy, Secret};
use agentd_core::migrations::MIGRATIONS;
use agentd_store::{DatabaseUrl, Db, DbOptions};
use sqlx::{Connection, Executor, PgConnection};
use tokio::sync::OnceCell;

/// A scratch database that is dropped together with this value.
pub struct ScratchDatabase {
    server: String,
    name: String,
    url: String,
}

impl ScratchDatabase {
    /// Creates a database, or returns `None` when the tests run on SQLite.
    pub async fn create() -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        static TEMPLATE: OnceCell<String> = OnceCell::const_new();
        let server = std::env::var("AGENTD_TEST_DATABASE_URL").ok()?;
        let template = TEMPLATE.get_or_init(|| create_template(&server)).await;
        let name = format!("it_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        run(&server, format!("CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")).await;
        let url = database_url(&server, &name);
        Some(Self { server, name, url })
    }

    pub fn url(&self) -> &str {
        &self.url
    }
}

fn database_url(server: &str, name: &str) -> String {
    let (base, _) = server.rsplit_once('/').expect("a database name in the URL");
    format!("{base}/{name}")
}

/// Creates a database with the whole schema, because copying it is much faster than running all migrations for each
/// test.
/// It is removed together with the throwaway server.
async fn create_template(server: &str) -> String {
    let name = format!("it_{}_template", std::process::id());
    run(server, format!("CREATE DATABASE {name}")).await;
    let folder = tempfile::tempdir().expect("a folder");
    let (clock, entropy) = (Clock::system(), Entropy::system());
    let options = DbOptions {
        url: DatabaseUrl::Postgres(Secret::new(database_url(server, &name))),
        data_dir: folder.path().to_owned(),
        ids: IdGenerator::new(clock.clone(), entropy.clone()),
        clock,
        entropy,
        migrations: MIGRATIONS,
    };
    Db::open(options).await.expect("create the schema").close().await;
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
        // Uses a separate runtime, because the runtime of the test is busy dropping this value.
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(run(&server, format!("DROP DATABASE {name} WITH (FORCE)")));
        });
        let _ = dropped.join();
    }
}
