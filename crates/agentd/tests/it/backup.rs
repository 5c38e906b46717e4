//! Backups at the seam of the domain: what an archive carries over, and what it refuses.
//!
//! Bringing to rest is stood in for; `cli.rs` has the real one.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use agentd::backup::{Backup, BackupError, Quiesce, RestoreReport};
use agentd::ground::{DataDir, Ground, TaskPanics};
use agentd::settings::Vault;
use agentd_base::id::IdGenerator;
use agentd_base::{Entropy, MockClock, Secret, Timestamp, sha256};
use agentd_store::{DatabaseUrl, Db, DbOptions, MIGRATIONS, StoreError, Tx, args};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use tokio_util::sync::CancellationToken;

use crate::support::{START, ScratchDatabase};

#[derive(Default)]
struct Rest {
    is_resting: Arc<AtomicBool>,
    rests: AtomicU32,
}

impl Quiesce for Rest {
    fn quiesce(&self) -> BoxFuture<'_, Result<Box<dyn Send + Sync>, String>> {
        struct Resting(Arc<AtomicBool>);
        impl Drop for Resting {
            fn drop(&mut self) {
                self.0.store(false, Ordering::SeqCst);
            }
        }
        self.rests.fetch_add(1, Ordering::SeqCst);
        self.is_resting.store(true, Ordering::SeqCst);
        let resting: Box<dyn Send + Sync> = Box::new(Resting(Arc::clone(&self.is_resting)));
        async { Ok(resting) }.boxed()
    }
}

struct Fixture {
    ground: Ground,
    backup: Backup,
    vault: Vault,
    rest: Arc<Rest>,
    _folder: tempfile::TempDir,
    _database: Option<ScratchDatabase>,
}

impl Fixture {
    /// On the database that the tests run on.
    async fn new() -> Self {
        let database = ScratchDatabase::create().await;
        Self::on(database).await
    }

    /// On SQLite, whatever the tests run on.
    async fn embedded() -> Self {
        Self::on(None).await
    }

    async fn on(database: Option<ScratchDatabase>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = DataDir::open(&folder.path().join("data")).unwrap();
        let clock = MockClock::new(Timestamp::parse(START).unwrap()).clock();
        let entropy = Entropy::system();
        let ids = IdGenerator::new(clock.clone(), entropy.clone());
        let address = database.as_ref().map(|database| Secret::new(database.url().to_owned()));
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
        let ground = Ground { db, clock, instance: ids.next_ulid().into(), ids, entropy, data_dir, draining, panics };
        let rest = Arc::new(Rest::default());
        let vault = Vault::open(&ground.db, &ground.entropy, &ground.data_dir.secret_key()).await.unwrap();
        let backup = Backup::new(&ground, vault.clone(), Arc::clone(&rest) as _);
        Self { ground, backup, vault, rest, _folder: folder, _database: database }
    }

    fn root(&self) -> &Path {
        self.ground.data_dir.root()
    }

    fn write(&self, path: &str, content: &[u8]) {
        let path = self.root().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    async fn set_mark(&self, text: &str) {
        let text = text.to_owned();
        self.ground
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
        self.ground.db.write::<_, StoreError, _>(keep).await.unwrap();
    }

    /// Names and plaintexts.
    async fn secrets(&self) -> Vec<(String, String)> {
        let mut read = self.ground.db.read().await.unwrap();
        let mut secrets = Vec::new();
        for (scope, name) in self.vault.names(&mut read).await.unwrap() {
            let secret = self.vault.get_in(&mut read, &scope, &name).await.unwrap().unwrap();
            secrets.push((name, secret.expose().to_owned()));
        }
        secrets
    }

    /// Everything that a backup carries: rows, files with their modes, links, secrets.
    async fn state(&self) -> Vec<String> {
        let mut read = self.ground.db.read().await.unwrap();
        let rows = read.fetch_all("SELECT consumer FROM cursors ORDER BY consumer", args![]).await.unwrap();
        let mut state: Vec<String> =
            rows.iter().map(|row| format!("row {}", row.get::<String>("consumer").unwrap())).collect();
        for folder in ["agents", "avatars", "recordings"] {
            describe(self.root(), &self.root().join(folder), &mut state);
        }
        state
    }

    async fn archive(&self, passphrase: Option<&str>) -> Vec<u8> {
        let stream = self.backup.create(passphrase.map(|text| Secret::new(text.into()))).await.unwrap();
        let mut stream = std::pin::pin!(stream);
        let mut archive = Vec::new();
        while let Some(chunk) = stream.next().await {
            archive.extend_from_slice(&chunk.unwrap());
        }
        archive
    }

    async fn restore(&self, archive: &[u8], passphrase: Option<&str>) -> Result<RestoreReport, BackupError> {
        // In pieces that fall anywhere.
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

/// A daemon with something of everything.
async fn filled(fixture: Fixture) -> Fixture {
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
    for (target, link) in [("notes.txt", "agents/ada/link"), ("/etc", "agents/ada/outside"), ("../..", "agents/up")] {
        std::os::unix::fs::symlink(target, fixture.root().join(link)).unwrap();
    }
    fixture.set_secret("openai", "sk-one").await;
    fixture.set_secret("mistral", "sk-two").await;
    fixture
}

#[tokio::test]
async fn an_archive_carries_everything_over_and_nothing_else() {
    let old = filled(Fixture::new().await).await;
    let archive = old.archive(None).await;
    let state = old.state().await;
    assert!(state.len() > 60, "{state:#?}");
    for new in [Fixture::new().await, Fixture::embedded().await] {
        new.set_mark("of the new one").await;
        new.write("agents/other/file", b"of the new one");
        new.write("recordings/file", b"of the new one");
        new.write("models/own.gguf", b"stays");
        let report = new.restore(&archive, None).await.unwrap();
        assert_eq!(new.state().await, state);
        assert_eq!((report.rows >= 50, report.files), (true, 6));
        assert!(!new.root().join("models/large.gguf").exists() && new.root().join("models/own.gguf").exists());
        assert_eq!(new.leftovers(), Vec::<String>::new());
        assert!(!new.rest.is_resting.load(Ordering::SeqCst), "it is ready again");
    }
}

#[tokio::test]
async fn it_moves_between_the_databases_and_back() {
    let old = filled(Fixture::new().await).await;
    let state = old.state().await;
    let embedded = Fixture::embedded().await;
    embedded.restore(&old.archive(None).await, None).await.unwrap();
    let again = Fixture::new().await;
    again.restore(&embedded.archive(None).await, None).await.unwrap();
    assert_eq!(again.state().await, state);
}

#[tokio::test]
async fn secrets_travel_only_under_a_passphrase() {
    let old = filled(Fixture::new().await).await;
    let plain = old.archive(None).await;
    let sealed = old.archive(Some("correct horse")).await;
    for archive in [&plain, &sealed] {
        let text = unzip(archive).unwrap();
        assert!(!text.windows(6).any(|window| window == b"sk-one" || window == b"sk-two"));
    }

    let new = Fixture::new().await;
    let report = new.restore(&plain, None).await.unwrap();
    assert_eq!(report.secrets_missing.len(), 2);
    assert!(matches!(new.restore(&plain, Some("correct horse")).await, Err(BackupError::NoSecrets)));

    // What the daemon knows already need not be entered again; what the archive does not know goes.
    new.set_secret("openai", "sk-mine").await;
    new.set_secret("groq", "sk-other").await;
    let report = new.restore(&plain, None).await.unwrap();
    assert_eq!(report.secrets_missing.iter().map(|name| name.name.as_str()).collect::<Vec<_>>(), ["mistral"]);
    assert_eq!(new.secrets().await, [("openai".to_owned(), "sk-mine".to_owned())]);

    let before = new.state().await;
    assert!(matches!(new.restore(&sealed, Some("wrong house")).await, Err(BackupError::WrongPassphrase)));
    assert_eq!(new.state().await, before);
    assert_eq!(new.leftovers(), Vec::<String>::new());
    let report = new.restore(&sealed, Some("correct horse")).await.unwrap();
    assert!(report.secrets_missing.is_empty());
    assert_eq!(new.secrets().await, old.secrets().await);
    assert!(matches!(
        old.backup.create(Some(Secret::new("short".into()))).await.map(|_| ()),
        Err(BackupError::ShortPassphrase { .. })
    ));
}

#[tokio::test]
async fn a_cut_off_or_changed_archive_changes_nothing() {
    let old = filled(Fixture::new().await).await;
    let archive = old.archive(None).await;
    let new = Fixture::new().await;
    new.set_mark("stays").await;
    new.write("agents/stays/file", b"stays");
    let before = new.state().await;
    let entropy = Entropy::seeded(7);
    let mut offsets: Vec<usize> = (0..20).map(|_| (entropy.unit() * archive.len() as f64) as usize).collect();
    offsets.extend([0, 1, archive.len() - 1, archive.len() - 8, archive.len() - 9]);
    for offset in offsets {
        let outcome = new.restore(&archive[..offset], None).await;
        assert!(matches!(outcome, Err(BackupError::Archive { .. })), "cut at {offset}: {outcome:?}");
        let mut changed = archive.clone();
        let place = offset.min(archive.len() - 1).max(10);
        changed[place] ^= 0x10;
        // In a run of equal bytes another code may mean the same: then nothing was changed.
        if unzip(&changed) != unzip(&archive) {
            let outcome = new.restore(&changed, None).await;
            assert!(outcome.is_err(), "changed at {place}");
        }
        assert_eq!(new.state().await, before);
        assert_eq!(new.leftovers(), Vec::<String>::new());
    }
    assert_eq!(new.rest.rests.load(Ordering::SeqCst), 0, "nothing is brought to rest for a bad archive");
    new.restore(&archive, None).await.unwrap();
    assert_eq!(new.state().await, old.state().await);
}

fn unzip(archive: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(archive).read_to_end(&mut plain).ok().map(|_| plain)
}

/// Unpacks an archive, lets `change` work on its entries, and packs it again with right sums of
/// the compression: only our own checks can notice.
fn repack(archive: &[u8], mut change: impl FnMut(&mut tar::Header, &mut Vec<u8>, &mut Vec<u8>) -> bool) -> Vec<u8> {
    let mut reader = tar::Archive::new(flate2::read::GzDecoder::new(archive));
    let mut writer = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    for entry in reader.entries().unwrap() {
        let mut entry = entry.unwrap();
        let mut header = entry.header().clone();
        let mut name = entry.path_bytes().into_owned();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        if !change(&mut header, &mut name, &mut content) {
            continue;
        }
        header.set_size(content.len() as u64);
        // Written by hand: the library would refuse the names that we want to try.
        if name.len() <= 100 {
            let field = &mut header.as_old_mut().name;
            field.fill(0);
            field[..name.len()].copy_from_slice(&name);
            header.set_cksum();
            writer.append(&header, content.as_slice()).unwrap();
        }
    }
    writer.into_inner().unwrap().finish().unwrap()
}

#[tokio::test]
async fn an_archive_made_to_harm_is_refused() {
    let old = Fixture::new().await;
    old.write("agents/ada/notes.txt", b"remember");
    old.write("agents/ada/more.txt", b"more");
    let archive = old.archive(None).await;
    let new = Fixture::new().await;
    new.write("agents/stays/file", b"stays");
    let before = new.state().await;
    let is_notes = |name: &[u8]| name.ends_with(b"notes.txt");

    let mut harmful: Vec<(&str, Vec<u8>)> = Vec::new();
    for name in ["../escaped", "agents/../../escaped", "/tmp/escaped", "agents/ada/./x", "models/x", "secret.key"] {
        let renamed = repack(&archive, |_, path, _| {
            if is_notes(path) {
                *path = name.as_bytes().to_vec();
            }
            true
        });
        harmful.push((name, renamed));
    }
    for (what, kind) in [
        ("hard link", tar::EntryType::Link),
        ("pipe", tar::EntryType::Fifo),
        ("device", tar::EntryType::Char),
        ("pax header", tar::EntryType::XHeader),
        ("sparse", tar::EntryType::GNUSparse),
    ] {
        let retyped = repack(&archive, |header, path, _| {
            if is_notes(path) {
                header.set_entry_type(kind);
                header.set_link_name("/etc/passwd").unwrap();
            }
            true
        });
        harmful.push((what, retyped));
    }
    let mut number = 0;
    harmful.push((
        "another content",
        repack(&archive, |_, path, content| {
            if is_notes(path) {
                content[0] = b'X';
            }
            true
        }),
    ));
    harmful.push(("a missing file", repack(&archive, |_, path, _| !is_notes(path))));
    harmful.push(("no list", repack(&archive, |_, path, _| path != b"contents.jsonl")));
    harmful.push(("no manifest", repack(&archive, |_, path, _| path != b"manifest.json")));
    harmful.push(("no database", repack(&archive, |_, path, _| path != b"database.jsonl")));
    harmful.push((
        "twice the same",
        repack(&archive, |_, path, _| {
            if path.ends_with(b"more.txt") {
                *path = b"agents/ada/notes.txt".to_vec();
            }
            number += 1;
            true
        }),
    ));
    assert!(number > 4);
    // Through a link: first the link, then a file below it.
    harmful.push((
        "through a link",
        repack(&archive, |header, path, content| {
            if path.ends_with(b"more.txt") {
                *path = b"agents/way".to_vec();
                header.set_entry_type(tar::EntryType::Symlink);
                header.set_link_name("/tmp").unwrap();
                content.clear();
            } else if is_notes(path) {
                *path = b"agents/way/escaped".to_vec();
            }
            true
        }),
    ));
    let mut not_ours = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    not_ours.write_all(&[0; 2048]).unwrap();
    harmful.push(("an empty archive", not_ours.finish().unwrap()));
    harmful.push(("no archive", b"PK\x03\x04 something else".repeat(100)));

    for (what, archive) in harmful {
        let outcome = new.restore(&archive, None).await;
        assert!(matches!(outcome, Err(BackupError::Archive { .. })), "{what}: {outcome:?}");
        assert_eq!(new.state().await, before, "{what}");
        assert_eq!(new.leftovers(), Vec::<String>::new(), "{what}");
    }
    assert!(!Path::new("/tmp/escaped").exists());

    let newer = repack(&archive, |_, path, content| {
        if path == b"manifest.json" {
            *content = String::from_utf8(content.clone())
                .unwrap()
                .replace("\"format_version\": 1", "\"format_version\": 2")
                .into();
        }
        true
    });
    assert!(matches!(new.restore(&newer, None).await, Err(BackupError::NewerFormat { found: 2, known: 1 })));
    assert_eq!(new.state().await, before);
}

#[tokio::test]
async fn work_goes_on_during_a_backup() {
    let fixture = Arc::new(filled(Fixture::new().await).await);
    let is_done = Arc::new(AtomicBool::new(false));
    let writing = tokio::spawn({
        let (fixture, is_done) = (Arc::clone(&fixture), Arc::clone(&is_done));
        async move {
            let mut written = 0;
            while !is_done.load(Ordering::SeqCst) {
                fixture.set_mark(&format!("during {written:05}")).await;
                fixture.write("agents/ada/log.txt", "x".repeat(written * 97).as_bytes());
                written += 1;
            }
            written
        }
    });
    for _ in 0..5 {
        let archive = fixture.archive(None).await;
        let new = Fixture::embedded().await;
        new.restore(&archive, None).await.unwrap();
        // A state that once was: what was written is there without a gap.
        let during: Vec<String> = new.state().await.into_iter().filter(|line| line.starts_with("row during")).collect();
        for (number, line) in during.iter().enumerate() {
            assert_eq!(line, &format!("row during {number:05}"));
        }
    }
    is_done.store(true, Ordering::SeqCst);
    assert!(writing.await.unwrap() > 0);
}

#[tokio::test]
async fn one_at_a_time() {
    let fixture = filled(Fixture::new().await).await;
    // Incompressible and larger than every buffer, so that the archive waits for its reader.
    let mut noise = vec![0; 4 * 1024 * 1024];
    Entropy::seeded(3).fill(&mut noise);
    fixture.write("agents/ada/noise.bin", &noise);
    let first = fixture.backup.create(None).await.unwrap();
    assert!(matches!(fixture.backup.create(None).await.map(|_| ()), Err(BackupError::Busy)));
    assert!(matches!(fixture.restore(b"", None).await, Err(BackupError::Busy)));
    // A reader that goes away ends the backup.
    drop(first);
    loop {
        match fixture.backup.create(None).await {
            Ok(_) => break,
            Err(BackupError::Busy) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn what_a_killed_restore_left_is_finished_or_forgotten() {
    let fixture = filled(Fixture::new().await).await;
    let before = fixture.state().await;
    // Killed while it unpacked.
    fixture.write("restore-01abc/agents/half", b"half");
    assert!(!fixture.backup.finish_interrupted().await.unwrap());
    assert_eq!((fixture.state().await, fixture.leftovers()), (before.clone(), Vec::new()));

    // Killed before the database was replaced, then after it.
    let id = fixture.ground.db.database_id().await.unwrap();
    for (journal_id, is_finished) in [(id.as_str(), false), ("another", true)] {
        fixture.write("restore-01abc/agents/new/file", b"new");
        fixture.write("restore-01abc/avatars/new", b"new");
        std::fs::create_dir_all(fixture.root().join("restore-01abc/recordings")).unwrap();
        let journal = serde_json::json!({"database_id": journal_id, "folder": "restore-01abc"});
        fixture.write("restore.json", journal.to_string().as_bytes());
        assert_eq!(fixture.backup.finish_interrupted().await.unwrap(), is_finished);
        assert_eq!(fixture.leftovers(), Vec::<String>::new());
        assert_eq!(fixture.root().join("agents/new/file").exists(), is_finished);
        assert_eq!(fixture.root().join("agents/ada").exists(), !is_finished);
    }
}
