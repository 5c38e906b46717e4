//! Exclusive access to a data directory, and recovery from interrupted restores.

use super::*;

#[tokio::test]
async fn one_operation_runs_at_a_time() {
    let fixture = fill(Fixture::new().await).await;
    // Incompressible and larger than every buffer, so that the archive waits for its reader.
    let mut noise = vec![0; 4 * 1024 * 1024];
    Entropy::seeded(3).fill(&mut noise);
    fixture.write("agents/ada/noise.bin", &noise);
    let first = fixture.backup.create(None, Unreadable::Refuse).await.unwrap().stream;
    assert!(matches!(fixture.backup.create(None, Unreadable::Refuse).await.map(|_| ()), Err(BackupError::Busy)));
    assert!(matches!(fixture.restore(b"", None).await, Err(BackupError::Busy)));
    // The backup ends when its reader is dropped.
    drop(first);
    loop {
        match fixture.backup.create(None, Unreadable::Refuse).await {
            Ok(_) => break,
            Err(BackupError::Busy) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn killed_restore_is_completed_or_discarded() {
    let fixture = fill(Fixture::new().await).await;
    let before = fixture.state().await;
    // Killed while unpacking.
    fixture.write("restore-01abc/agents/half", b"half");
    assert!(!fixture.backup.finish_interrupted(WhileBusy::Refuse).await.unwrap());
    assert_eq!((fixture.state().await, fixture.leftovers()), (before.clone(), Vec::new()));

    // Killed before and after the database was replaced.
    let id = fixture.context.db.database_id().await.unwrap();
    for (journal_id, is_finished) in [(id.as_str(), false), ("another", true)] {
        fixture.write("restore-01abc/agents/new/file", b"new");
        fixture.write("restore-01abc/avatars/new", b"new");
        std::fs::create_dir_all(fixture.root().join("restore-01abc/recordings")).unwrap();
        let journal = serde_json::json!({"database_id": journal_id, "folder": "restore-01abc"});
        fixture.write("restore.json", journal.to_string().as_bytes());
        assert_eq!(fixture.backup.finish_interrupted(WhileBusy::Refuse).await.unwrap(), is_finished);
        assert_eq!(fixture.leftovers(), Vec::<String>::new());
        assert_eq!(fixture.root().join("agents/new/file").exists(), is_finished);
        assert_eq!(fixture.root().join("agents/ada").exists(), !is_finished);
    }
}

#[tokio::test]
async fn daemon_with_an_unconfirmed_commit_stays_quiesced_until_restart() {
    let Some(database) = ScratchDatabase::create().await else { return };
    let (proxy, address) = Proxy::start(database.url()).unwrap();
    let fixture = fill(Fixture::at(Some(Secret::new(address)), Some(database)).await).await;
    let (before, archive) = (fixture.state().await, fixture.archive(None).await);
    fixture.set_mark("later").await;
    fixture.write("agents/ada/notes.txt", b"forget");
    *fixture.rest.proxy.lock().unwrap() = Some(proxy);
    let outcome = fixture.restore(&archive, None).await;
    assert!(matches!(outcome, Err(BackupError::Unfinished { .. })), "{outcome:?}");
    assert!(fixture.rest.is_quiesced.load(Ordering::SeqCst));
    assert!(fixture.backup.finish_interrupted(WhileBusy::Refuse).await.unwrap());
    assert_eq!((fixture.state().await, fixture.leftovers()), (before, Vec::new()));
}

impl Fixture {
    /// Creates the backup service of another daemon on the same data directory and database.
    fn replica(&self) -> Backup {
        Backup::new(&self.context, self.vault.clone(), Arc::new(FakeQuiesce::default()), validators())
    }

    /// Begins a restore whose archive is sent by the test.
    fn begin_restore(&self) -> (ArchiveSender, tokio::task::JoinHandle<Result<RestoreReport, BackupError>>) {
        let (sender, receiver) = tokio::sync::mpsc::channel(1);
        let archive = stream::unfold(receiver, async |mut receiver| Some((receiver.recv().await?, receiver)));
        let backup = self.backup.clone();
        (sender, tokio::spawn(async move { backup.restore(archive, None).await }))
    }

    /// Waits until a restore has begun to unpack.
    async fn wait_for_unpacking(&self) {
        while self.leftovers().is_empty() {
            tokio::task::yield_now().await;
        }
    }
}

type ArchiveSender = tokio::sync::mpsc::Sender<Result<Bytes, std::io::Error>>;

#[tokio::test]
async fn replica_on_the_same_data_directory_does_not_disturb_a_restore() {
    let old = fill(Fixture::new().await).await;
    let (archive, state) = (old.archive(None).await, old.state().await);
    let new = Fixture::new().await;
    let replica = new.replica();
    let (uploading, restoring) = new.begin_restore();
    let (first, second) = archive.split_at(archive.len() / 2);
    uploading.send(Ok(Bytes::copy_from_slice(first))).await.unwrap();
    new.wait_for_unpacking().await;

    // A concurrent command is rejected as busy; a starting daemon waits.
    assert!(matches!(replica.finish_interrupted(WhileBusy::Refuse).await, Err(BackupError::Busy)));
    assert!(matches!(replica.create(None, Unreadable::Refuse).await.map(|_| ()), Err(BackupError::Busy)));
    let none = stream::iter(Vec::<Result<Bytes, std::io::Error>>::new());
    assert!(matches!(replica.restore(none, None).await, Err(BackupError::Busy)));
    let mut starting = std::pin::pin!(replica.finish_interrupted(WhileBusy::Wait));
    assert!(futures_util::poll!(&mut starting).is_pending());

    uploading.send(Ok(Bytes::copy_from_slice(second))).await.unwrap();
    drop(uploading);
    restoring.await.unwrap().unwrap();
    assert!(!starting.await.unwrap(), "nothing remains to be completed");
    assert_eq!((new.state().await, new.leftovers()), (state, Vec::new()));
}

#[tokio::test]
async fn disconnected_client_leaves_no_files() {
    let archive = fill(Fixture::new().await).await.archive(None).await;
    let new = Fixture::new().await;
    new.write("agents/stays/file", b"stays");
    let before = new.state().await;
    let (uploading, restoring) = new.begin_restore();
    uploading.send(Ok(Bytes::copy_from_slice(&archive[..archive.len() / 2]))).await.unwrap();
    new.wait_for_unpacking().await;
    // The server drops the request and its body when the connection breaks.
    restoring.abort();
    assert!(restoring.await.unwrap_err().is_cancelled());
    drop(uploading);
    while !new.leftovers().is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(new.state().await, before);
    // The lock is released asynchronously.
    while let Err(error) = new.restore(&archive, None).await {
        assert!(matches!(error, BackupError::Busy), "{error}");
    }
}

#[tokio::test]
async fn restore_is_rejected_while_other_daemons_use_the_database() {
    let Some(database) = ScratchDatabase::create().await else { return };
    let url = Secret::new(database.url().to_owned());
    let fixture = fill(Fixture::on(Some(database)).await).await;
    let archive = fixture.archive(None).await;
    let (db, before) = (&fixture.context.db, fixture.state().await);
    let folder = tempfile::tempdir().unwrap();
    let other = Db::open(DbOptions {
        url: DatabaseUrl::parse(Some(&url), folder.path()).unwrap(),
        data_dir: folder.path().to_path_buf(),
        clock: fixture.context.clock.clone(),
        ids: fixture.context.ids.clone(),
        entropy: fixture.context.entropy.clone(),
        migrations: MIGRATIONS,
    })
    .await
    .unwrap();
    // Wait until both daemons see each other.
    while (db.count_other_daemons().await.unwrap(), other.count_other_daemons().await.unwrap()) != (1, 1) {}
    let refused = fixture.restore(&archive, None).await.unwrap_err();
    assert!(matches!(refused, BackupError::OtherDaemons { count: 1 }), "{refused}");
    assert_eq!((fixture.rest.quiesce_count.load(Ordering::SeqCst), fixture.leftovers()), (0, Vec::new()));
    assert_eq!(fixture.state().await, before);
    other.close().await;
    // The server notices the closed connection after a delay.
    while db.count_other_daemons().await.unwrap() > 0 {}
    fixture.restore(&archive, None).await.unwrap();
}
