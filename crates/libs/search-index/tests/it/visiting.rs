//! Iteration over all vectors.

use agentd_search_index::{
    AgentKey, Change, Document, Index, IndexError, IndexedDocument, RowNumber, SourceKey, analyze,
};
use tempfile::tempdir;

use crate::support::{add, along, document, open};

fn visited(index: &Index, rows: &[RowNumber]) -> Vec<(u64, Vec<f32>)> {
    let mut visited = Vec::new();
    index.visit_vectors(rows, |row, direction| visited.push((row.0, direction.to_vec()))).unwrap();
    visited
}

fn rows(index: &Index, agent: Option<u64>) -> Vec<u64> {
    index.rows_with_vectors(agent.map(AgentKey)).into_iter().map(|row| row.0).collect()
}

#[test]
fn rows_with_vectors_are_filtered_by_agent() {
    let folder = tempdir().unwrap();
    let (index, _) = open(folder.path());
    let document_of =
        |row, agent, vectors: Vec<Vec<f32>>| Document { agent: AgentKey(agent), vectors, ..document(row, "text") };
    add(
        &index,
        vec![
            document_of(9, 1, vec![along(0, 0.1)]),
            document_of(2, 2, vec![along(1, 0.1)]),
            document_of(5, 1, vec![]),
            document_of(4, 1, vec![along(2, 0.1)]),
        ],
    );
    assert_eq!((rows(&index, None), rows(&index, Some(1)), rows(&index, Some(7))), (vec![2, 4, 9], vec![4, 9], vec![]));
    let before = index.revision();
    index.apply(&[Change::Remove(RowNumber(4))]).unwrap();
    assert_ne!(index.revision(), before);
    assert_eq!(rows(&index, Some(1)), [9]);
}

#[test]
fn directions_are_independent_of_storage_and_order() {
    let (one_folder, other_folder) = (tempdir().unwrap(), tempdir().unwrap());
    let feed = |index: &Index, order: &[u64]| {
        for row in order {
            let vectors = (0..row % 3 + 1).map(|part| along((row + part) as usize, 0.2)).collect();
            add(index, vec![Document { vectors, ..document(*row, "text") }]);
        }
    };
    let (one, _) = open(one_folder.path());
    feed(&one, &[1, 2, 3, 4, 5]);
    let (other, _) = open(other_folder.path());
    feed(&other, &[5, 3]);
    other.flush(b"here").unwrap();
    feed(&other, &[4, 9, 1, 2]);
    other.apply(&[Change::Remove(RowNumber(9))]).unwrap();
    let all = one.rows_with_vectors(None);
    assert_eq!(visited(&one, &all), visited(&other, &all));
    assert_eq!(visited(&one, &[RowNumber(77), RowNumber(3)]).len(), 1);
    // A single vector is its own direction; several have the direction of their sum.
    let single = &visited(&one, &[RowNumber(3)])[0].1;
    let exact = one.vector_of(RowNumber(3)).unwrap().unwrap();
    assert!(single.iter().zip(&exact).all(|(coarse, exact)| (coarse - exact).abs() < 0.01), "{single:?} {exact:?}");
    let double: Vec<f32> = one
        .vectors_of(RowNumber(4))
        .unwrap()
        .into_iter()
        .reduce(|sum, next| sum.iter().zip(&next).map(|(a, b)| a + b).collect())
        .unwrap();
    let seen = &visited(&one, &[RowNumber(4)])[0].1;
    assert!(seen.iter().zip(&double).all(|(coarse, exact)| (coarse - exact).abs() < 0.02), "{seen:?} {double:?}");
}

#[test]
fn indexed_data_equals_the_input() {
    let folder = tempdir().unwrap();
    let (index, _) = open(folder.path());
    let fed =
        Document { agent: AgentKey(3), source: SourceKey(4), ..document(8, "The fox reads build_index.rs aloud") };
    let words = analyze(fed.text).iter().filter(|token| token.is_counted).count();
    let expected =
        IndexedDocument { agent: fed.agent, source: fed.source, occurred_at: fed.occurred_at, words: words as u32 };
    add(&index, vec![fed]);
    assert_eq!((index.document(RowNumber(8)), index.document(RowNumber(9))), (Some(expected), None));
}

#[test]
fn truncated_file_is_rejected() {
    let folder = tempdir().unwrap();
    let (index, _) = open(folder.path());
    add(&index, vec![Document { vectors: vec![along(0, 0.1)], ..document(1, "text") }]);
    index.flush(b"here").unwrap();
    // Tests the coarse bytes; the fine ones are the remaining files.
    let is_coarse = |name: &str| name.starts_with("vectors-") && !name.contains('.');
    let file = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| is_coarse(&path.file_name().unwrap().to_string_lossy()))
        .unwrap();
    std::fs::File::options().write(true).open(file).unwrap().set_len(8).unwrap();
    let answer = index.visit_vectors(&[RowNumber(1)], |_, _| ());
    assert!(matches!(answer, Err(IndexError::Damaged { .. })), "{answer:?}");
}
