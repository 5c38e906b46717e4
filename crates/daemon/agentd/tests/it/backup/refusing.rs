//! Rejected archives leave nothing behind.

use super::*;

#[tokio::test]
async fn truncated_or_changed_archive_changes_nothing() {
    let old = fill(Fixture::new().await).await;
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
        let position = offset.min(archive.len() - 1).max(10);
        changed[position] ^= 0x10;
        // In a run of equal bytes, a changed code may decode to the same content.
        if unzip(&changed) != unzip(&archive) {
            let outcome = new.restore(&changed, None).await;
            assert!(outcome.is_err(), "changed at {position}");
        }
        assert_eq!(new.state().await, before);
        assert_eq!(new.leftovers(), Vec::<String>::new());
    }
    assert_eq!(new.rest.quiesce_count.load(Ordering::SeqCst), 0, "an invalid archive does not quiesce the daemon");
    new.restore(&archive, None).await.unwrap();
    assert_eq!(new.state().await, old.state().await);
}

/// Unpacks an archive, lets `change` edit or drop each entry, and packs it again with valid checksums of the
/// compression, so that only the daemon's own checks can reject it.
pub fn repack(archive: &[u8], mut change: impl FnMut(&mut tar::Header, &mut Vec<u8>, &mut Vec<u8>) -> bool) -> Vec<u8> {
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
        // Written directly: the library would reject some of the tested names.
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
async fn malicious_archive_is_rejected() {
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
        "changed content",
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
        "duplicate name",
        repack(&archive, |_, path, _| {
            if path.ends_with(b"more.txt") {
                *path = b"agents/ada/notes.txt".to_vec();
            }
            number += 1;
            true
        }),
    ));
    assert!(number > 4);
    // A symbolic link, followed by a file below it.
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
                .replace("\"format_version\": 2", "\"format_version\": 3")
                .into();
        }
        true
    });
    assert!(matches!(new.restore(&newer, None).await, Err(BackupError::NewerFormat { found: 3, known: 2 })));
    assert_eq!(new.state().await, before);
}
