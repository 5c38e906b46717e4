//! Truncated, modified or leftover files: the index opens in the state of a flush, or reports that it starts over. It
//! never panics or returns wrong results.

use std::fs;
use std::path::{Path, PathBuf};

use agentd_search_index::{Change, Document, Index, Mode, OpenState, RowNumber};
use tempfile::tempdir;

use crate::support::{add, along, document, found, open, options, request, rows};

/// Creates and closes an index with two flushes and a removal.
fn written(folder: &Path) {
    let (index, _) = open(folder);
    let with = |row, text, axis| Document { vectors: vec![along(axis, 0.3)], ..document(row, text) };
    add(&index, vec![with(1, "copper lantern", 1), with(2, "copper violin", 2), with(3, "harbor", 3)]);
    index.flush(b"one").unwrap();
    add(&index, vec![with(4, "violin harbor", 4)]);
    index.apply(&[Change::Remove(RowNumber(2))]).unwrap();
    index.flush(b"two").unwrap();
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| !path.ends_with("lock"));
    files.sort();
    files
}

fn copy(from: &Path, to: &Path) {
    for path in files(from) {
        fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

fn check_answers(index: &Index) -> Result<(), agentd_search_index::IndexError> {
    let query = along(4, 0.3);
    let hits = index.search(&request(Mode::Keyword, "violin", None))?;
    assert_eq!(rows(&hits), [4]);
    let hits = index.search(&request(Mode::Semantic, "", Some(&query)))?;
    // The third document is closest to the fourth.
    assert_eq!(rows(&hits)[0], 4);
    let similar = index.similar(RowNumber(4), &Default::default(), 5)?;
    assert_eq!(similar.len(), 1);
    Ok(())
}

/// Opens a damaged folder: the index returns the written state, reports damage, or starts over; after a reset it works.
fn survives(folder: &Path, what: &str) {
    let (index, opened) = open(folder);
    match opened.state {
        OpenState::CaughtUp => {
            assert_eq!(opened.cursor.as_deref(), Some(b"two".as_slice()), "{what}");
            if let Err(error) = check_answers(&index) {
                assert!(error.is_damage(), "{what}: {error}");
            } else {
                // Damaged data must not be used unnoticed.
                assert!(what.contains("unharmed") || index.warm().is_ok(), "{what}");
            }
        }
        OpenState::Rebuilt { reason } => {
            assert!(!reason.is_empty() && index.is_empty() && opened.cursor.is_none(), "{what}");
        }
        OpenState::Fresh => assert!(what.contains("manifest"), "{what}"),
        OpenState::VectorsDropped { .. } => panic!("{what}"),
    }
    index.reset().unwrap();
    add(&index, vec![document(9, "after the storm")]);
    index.flush(b"new").unwrap();
    drop(index);
    let (index, opened) = open(folder);
    assert_eq!((opened.cursor.as_deref(), found(&index, "storm")), (Some(b"new".as_slice()), vec![9]), "{what}");
}

#[test]
fn truncation_of_every_file_is_survived() {
    let original = tempdir().unwrap();
    written(original.path());
    for path in files(original.path()) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let bytes = fs::read(&path).unwrap();
        for length in (0..bytes.len()).step_by(if name == "manifest" { 1 } else { 7 }) {
            let folder = tempdir().unwrap();
            copy(original.path(), folder.path());
            fs::write(folder.path().join(&name), &bytes[..length]).unwrap();
            survives(folder.path(), &format!("{name} cut to {length}"));
        }
        let folder = tempdir().unwrap();
        copy(original.path(), folder.path());
        fs::remove_file(folder.path().join(&name)).unwrap();
        survives(folder.path(), &format!("{name} missing"));
        let folder = tempdir().unwrap();
        copy(original.path(), folder.path());
        fs::write(folder.path().join(&name), [&bytes[..], b"more"].concat()).unwrap();
        survives(folder.path(), &format!("{name} longer"));
    }
}

#[test]
fn every_modified_byte_is_detected() {
    let original = tempdir().unwrap();
    written(original.path());
    for path in files(original.path()) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let bytes = fs::read(&path).unwrap();
        for offset in 0..bytes.len() {
            let folder = tempdir().unwrap();
            copy(original.path(), folder.path());
            let mut flipped = bytes.clone();
            flipped[offset] ^= 0x41;
            fs::write(folder.path().join(&name), &flipped).unwrap();
            let (index, opened) = open(folder.path());
            if opened.state == OpenState::CaughtUp {
                let error = check_answers(&index).expect_err(&format!("{name}: byte {offset} was trusted"));
                assert!(error.is_damage(), "{name} {offset}: {error}");
                assert!(index.warm().is_err());
            } else {
                assert!(matches!(opened.state, OpenState::Rebuilt { .. }) && index.is_empty(), "{name} {offset}");
            }
        }
    }
}

#[test]
fn truncation_of_an_open_file_is_an_error_until_reset() {
    let folder = tempdir().unwrap();
    written(folder.path());
    for path in files(folder.path()) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name == "manifest" {
            continue;
        }
        let copied = tempdir().unwrap();
        copy(folder.path(), copied.path());
        let (index, _) = open(copied.path());
        check_answers(&index).unwrap();
        fs::OpenOptions::new().write(true).open(copied.path().join(&name)).unwrap().set_len(4).unwrap();
        let error = check_answers(&index).expect_err(&name);
        assert!(error.is_damage(), "{name}: {error}");
        index.reset().unwrap();
        add(&index, vec![document(5, "violin")]);
        assert_eq!(found(&index, "violin"), [5]);
    }
}

/// Copies the folder after each step, as a kill would leave it, with and without the last file complete.
#[test]
fn kill_at_any_time_leaves_the_state_of_a_flush() {
    let folder = tempdir().unwrap();
    let (index, _) = open(folder.path());
    let mut flushed: Option<(Vec<u8>, Vec<u64>)> = None;
    let mut alive: Vec<u64> = Vec::new();
    for round in 0..40_u64 {
        let documents = (0..8)
            .map(|n| Document { vectors: vec![along(n as usize, 0.3)], ..document(round * 8 + n + 1, "violin") })
            .collect();
        add(&index, documents);
        alive.extend(round * 8 + 1..=round * 8 + 8);
        let gone = alive.remove((round * 3) as usize % alive.len());
        index.apply(&[Change::Remove(RowNumber(gone))]).unwrap();
        match round % 3 {
            0 => {
                index.flush(&round.to_le_bytes()).unwrap();
                flushed = Some((round.to_le_bytes().to_vec(), alive.clone()));
            }
            1 => {
                index.maintain().unwrap();
            }
            _ => {}
        }
        let killed = tempdir().unwrap();
        copy(folder.path(), killed.path());
        fs::write(killed.path().join("manifest.new"), b"half").unwrap();
        fs::write(killed.path().join("text-999999"), b"half").unwrap();
        let (other, opened) = Index::open(killed.path(), options()).unwrap();
        let (cursor, mut rows) = flushed.clone().unwrap();
        rows.sort_unstable();
        assert_eq!((opened.state, opened.cursor), (OpenState::CaughtUp, Some(cursor)));
        assert_eq!(other.rows().iter().map(|(row, _)| row.0).collect::<Vec<_>>(), rows);
        assert!(other.rows().iter().all(|(_, has_vectors)| *has_vectors));
        other.warm().unwrap();
        assert!(files(killed.path()).iter().all(|path| !path.ends_with("text-999999")));
    }
}
