//! Content of archives.

use super::*;

#[tokio::test]
async fn archive_restores_everything_and_nothing_else() {
    let old = fill(Fixture::new().await).await;
    let archive = old.archive(None).await;
    let state = old.state().await;
    assert!(state.len() > 60, "{state:#?}");
    for new in [Fixture::new().await, Fixture::embedded().await] {
        new.set_mark("written before the restore").await;
        new.write("agents/other/file", b"written before the restore");
        new.write("recordings/file", b"written before the restore");
        new.write("models/own.gguf", b"stays");
        let report = new.restore(&archive, None).await.unwrap();
        assert_eq!(new.state().await, state);
        assert_eq!((report.rows >= 50, report.files), (true, 6));
        assert!(!new.root().join("models/large.gguf").exists() && new.root().join("models/own.gguf").exists());
        assert_eq!(new.leftovers(), Vec::<String>::new());
        assert!(!new.rest.is_quiesced.load(Ordering::SeqCst), "the daemon has resumed");
    }
}

#[tokio::test]
async fn archive_moves_between_databases_in_both_directions() {
    let old = fill(Fixture::new().await).await;
    let state = old.state().await;
    let embedded = Fixture::embedded().await;
    embedded.restore(&old.archive(None).await, None).await.unwrap();
    let again = Fixture::new().await;
    again.restore(&embedded.archive(None).await, None).await.unwrap();
    assert_eq!(again.state().await, state);
}

#[tokio::test]
async fn secrets_are_archived_only_with_a_passphrase() {
    let old = fill(Fixture::new().await).await;
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

    // A daemon restoring its own archive retains the secrets that it has; secrets that the archive
    // does not contain are deleted.
    old.set_secret("groq", "sk-other").await;
    let report = old.restore(&plain, None).await.unwrap();
    assert!(report.secrets_missing.is_empty());
    assert_eq!(old.secrets().await.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["mistral", "openai"]);
    // Rows of another daemon might direct a secret to another server, so the secrets are deleted.
    new.set_secret("openai", "sk-mine").await;
    assert_eq!(new.restore(&plain, None).await.unwrap().secrets_missing.len(), 2);
    assert_eq!(new.secrets().await, []);

    let before = new.state().await;
    assert!(matches!(new.restore(&sealed, Some("wrong house")).await, Err(BackupError::WrongPassphrase)));
    assert_eq!(new.state().await, before);
    assert_eq!(new.leftovers(), Vec::<String>::new());
    let report = new.restore(&sealed, Some("correct horse")).await.unwrap();
    assert!(report.secrets_missing.is_empty());
    assert_eq!(new.secrets().await, old.secrets().await);
    assert!(matches!(
        old.backup.create(Some(Secret::new("short".into())), Unreadable::Refuse).await.map(|_| ()),
        Err(BackupError::ShortPassphrase { .. })
    ));
}

#[tokio::test]
async fn daemon_keeps_working_during_a_backup() {
    let fixture = Arc::new(fill(Fixture::new().await).await);
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
        // Each archive is a consistent snapshot: the rows written before it are present without a gap.
        let during: Vec<String> = new.state().await.into_iter().filter(|line| line.starts_with("row during")).collect();
        for (number, line) in during.iter().enumerate() {
            assert_eq!(line, &format!("row during {number:05}"));
        }
    }
    is_done.store(true, Ordering::SeqCst);
    assert!(writing.await.unwrap() > 0);
}
