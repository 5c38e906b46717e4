//! Backups tested through the domain's interface: content of archives and rejected archives.
//!
//! Quiescing the daemon is faked here; `cli/restore.rs` tests the real one.

mod carrying;
mod older;
pub mod refusing;
mod shapes;
mod tampering;
mod turns;

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use agentd_automation::hooks::ValidateHooks;
use agentd_automation::scheduler::ValidateJobs;
use agentd_base::id::IdGenerator;
use agentd_base::{Entropy, MockClock, Secret, Timestamp, sha256};
use agentd_core::migrations::MIGRATIONS;
use agentd_core::runtime::{AppContext, DataDir, LiveFeed, Recorder, TaskPanics, ValidateRestored};
use agentd_core::settings::{Registry, ValidateSettings};
use agentd_core::vault::Vault;
use agentd_engine::agents::ValidateAgents;
use agentd_integrations::channels::ValidateChannels;
use agentd_operations::backup::{
    Backup, BackupError, Quiesce, RestoreReport, RestoreValidators, Unreadable, WhileBusy,
};
use agentd_store::{DatabaseUrl, Db, DbOptions, StoreError, Tx, args};
use agentd_telemetry::Tracer;
use agentd_testing_store::faults::{Break, Commit, Proxy};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use tokio_util::sync::CancellationToken;

use crate::support::{START, ScratchDatabase};

#[derive(Default)]
struct FakeQuiesce {
    is_quiesced: Arc<AtomicBool>,
    quiesce_count: AtomicU32,
    /// If set, the response to the first commit after quiescing is lost.
    proxy: Mutex<Option<Proxy>>,
}

impl Quiesce for FakeQuiesce {
    fn quiesce(&self) -> BoxFuture<'_, Result<Box<dyn Send + Sync>, String>> {
        struct QuiescedGuard(Arc<AtomicBool>);
        impl Drop for QuiescedGuard {
            fn drop(&mut self) {
                self.0.store(false, Ordering::SeqCst);
            }
        }
        if let Some(proxy) = &*self.proxy.lock().unwrap() {
            proxy.plan(Break::Commit(Commit::NotAnswered));
        }
        self.quiesce_count.fetch_add(1, Ordering::SeqCst);
        self.is_quiesced.store(true, Ordering::SeqCst);
        let guard: Box<dyn Send + Sync> = Box::new(QuiescedGuard(Arc::clone(&self.is_quiesced)));
        async { Ok(guard) }.boxed()
    }
}

fn validators() -> RestoreValidators {
    let validators: [Box<dyn ValidateRestored>; 5] = [
        Box::new(ValidateAgents),
        Box::new(ValidateSettings(Registry::new())),
        Box::new(ValidateJobs),
        Box::new(ValidateHooks),
        Box::new(ValidateChannels),
    ];
    Arc::new(validators)
}

struct Fixture {
    context: AppContext,
    backup: Backup,
    vault: Vault,
    rest: Arc<FakeQuiesce>,
    _folder: tempfile::TempDir,
    _database: Option<ScratchDatabase>,
}

impl Fixture {
    /// Uses the database that the tests run on.
    async fn new() -> Self {
        let database = ScratchDatabase::create().await;
        Self::on(database).await
    }

    /// Uses SQLite regardless of the database that the tests run on.
    async fn embedded() -> Self {
        Self::on(None).await
    }

    async fn on(database: Option<ScratchDatabase>) -> Self {
        let address = database.as_ref().map(|database| Secret::new(database.url().to_owned()));
        Self::at(address, database).await
    }

    async fn at(address: Option<Secret>, database: Option<ScratchDatabase>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = DataDir::open(&folder.path().join("data")).unwrap();
        let clock = MockClock::new(Timestamp::parse(START).unwrap()).clock();
        let entropy = Entropy::system();
        let ids = IdGenerator::new(clock.clone(), entropy.clone());
        let db = Db::open(DbOptions {
            url: DatabaseUrl::parse(address.as_ref(), data_dir.root()).unwrap(),
            data_dir: data_dir.root().to_path_buf(),
            clock: clock.clone(),
            ids: ids.clone(),
            entropy: entropy.clone(),
            migrations: MIGRATIONS,
        })
        .await
        .unwrap();
        let data_dir = Arc::new(data_dir);
        let draining = CancellationToken::new();
        let panics = TaskPanics::default();
        let context = AppContext {
            db,
            clock,
            instance: ids.next_ulid().into(),
            ids,
            entropy,
            data_dir,
            draining,
            panics,
            feed: LiveFeed::default(),
            recorder: Recorder::default(),
            tracer: Tracer::off(),
        };
        let rest = Arc::new(FakeQuiesce::default());
        let vault = Vault::open(&context.db, &context.entropy, &context.data_dir.secret_key()).await.unwrap();
        let backup = Backup::new(&context, vault.clone(), Arc::clone(&rest) as _, validators());
        Self { context, backup, vault, rest, _folder: folder, _database: database }
    }

    fn root(&self) -> &Path {
        self.context.data_dir.root()
    }

    fn write(&self, path: &str, content: &[u8]) {
        let path = self.root().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    async fn set_mark(&self, text: &str) {
        let text = text.to_owned();
        self.context
            .db
            .write(async move |tx: &mut Tx| {
                tx.execute(
                    "INSERT INTO cursors (consumer, tx_id, seq, updated_at) VALUES ($1, 0, 0, 0) \
                     ON CONFLICT (consumer) DO NOTHING",
                    args![&text],
                )
                .await?;
                Ok::<_, StoreError>(())
            })
            .await
            .unwrap();
    }

    async fn set_secret(&self, name: &'static str, secret: &str) {
        let (vault, secret) = (self.vault.clone(), Secret::new(secret.to_owned()));
        let keep = async move |tx: &mut Tx| vault.put(tx, "providers", name, &secret).await;
        self.context.db.write::<_, StoreError, _>(keep).await.unwrap();
    }

    /// Returns the names and plain texts of all secrets.
    async fn secrets(&self) -> Vec<(String, String)> {
        let mut read = self.context.db.read().await.unwrap();
        let mut secrets = Vec::new();
        for (scope, name) in self.vault.names(&mut read).await.unwrap() {
            let secret = self.vault.get_in(&mut read, &scope, &name).await.unwrap().unwrap();
            secrets.push((name, secret.expose().to_owned()));
        }
        secrets
    }

    /// Describes everything that a backup contains: rows, files with their modes, and links.
    async fn state(&self) -> Vec<String> {
        let mut read = self.context.db.read().await.unwrap();
        let rows = read.fetch_all("SELECT consumer FROM cursors ORDER BY consumer", args![]).await.unwrap();
        let mut state: Vec<String> =
            rows.iter().map(|row| format!("row {}", row.get::<String>("consumer").unwrap())).collect();
        for folder in ["agents", "avatars", "recordings"] {
            describe(self.root(), &self.root().join(folder), &mut state);
        }
        state
    }

    async fn archive(&self, passphrase: Option<&str>) -> Vec<u8> {
        let stream = self
            .backup
            .create(passphrase.map(|text| Secret::new(text.into())), Unreadable::Refuse)
            .await
            .unwrap()
            .stream;
        let mut stream = std::pin::pin!(stream);
        let mut archive = Vec::new();
        while let Some(chunk) = stream.next().await {
            archive.extend_from_slice(&chunk.unwrap());
        }
        archive
    }

    async fn restore(&self, archive: &[u8], passphrase: Option<&str>) -> Result<RestoreReport, BackupError> {
        // Splits the archive at arbitrary positions.
        let pieces: Vec<Result<Bytes, std::io::Error>> =
            archive.chunks(1021).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
        self.backup.restore(stream::iter(pieces), passphrase.map(|text| Secret::new(text.into()))).await
    }

    fn leftovers(&self) -> Vec<String> {
        let names = std::fs::read_dir(self.root()).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter_map(|name| name.into_string().ok()).filter(|name| name.starts_with("restore")).collect()
    }
}

fn describe(root: &Path, folder: &Path, state: &mut Vec<String>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        let name = format!("{:?}", path.strip_prefix(root).unwrap());
        let found = path.symlink_metadata().unwrap();
        if found.is_symlink() {
            state.push(format!("link {name} {:?}", std::fs::read_link(&path).unwrap()));
        } else if found.is_dir() {
            state.push(format!("folder {name}"));
            describe(root, &path, state);
        } else {
            let hash = hex::encode(sha256(&std::fs::read(&path).unwrap()));
            state.push(format!("file {name} {:o} {hash}", found.permissions().mode() & 0o777));
        }
    }
}

/// Fills a fixture with samples of everything that a backup contains.
async fn fill(fixture: Fixture) -> Fixture {
    use std::os::unix::ffi::OsStrExt;
    for number in 0..50 {
        fixture.set_mark(&format!("mark {number}")).await;
    }
    fixture.write("agents/ada/notes.txt", b"remember");
    fixture.write("agents/ada/deep/er/Gr\u{fc}\u{df}e.bin", &vec![7; 300_000]);
    fixture.write(&format!("agents/ada/{}/{}", "long".repeat(30), "name".repeat(50)), b"long");
    fixture.write("agents/ada/run.sh", b"#!/bin/sh\n");
    fixture.write("avatars/owner.png", b"png");
    fixture.write("models/large.gguf", b"is not carried");
    std::fs::create_dir_all(fixture.root().join("agents/empty")).unwrap();
    let script = fixture.root().join("agents/ada/run.sh");
    std::fs::set_permissions(script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let odd = Path::new("agents/ada").join(std::ffi::OsStr::from_bytes(b"\xff\\x"));
    std::fs::write(fixture.root().join(odd), b"odd").unwrap();
    for (target, link) in [("notes.txt", "agents/ada/link"), ("../../notes.txt", "agents/ada/deep/er/up")] {
        std::os::unix::fs::symlink(target, fixture.root().join(link)).unwrap();
    }
    fixture.set_secret("openai", "sk-one").await;
    fixture.set_secret("mistral", "sk-two").await;
    fixture
}

fn unzip(archive: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(archive).read_to_end(&mut plain).ok().map(|_| plain)
}
