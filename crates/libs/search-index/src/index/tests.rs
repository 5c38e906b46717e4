//! Data that exceeds the memory limits is written immediately, without advancing the cursor.

use agentd_base::Timestamp;

use super::*;
use crate::model::{AgentKey, Change, Document, Filter, Mode, SearchRequest, SourceKey};
use crate::search::scan::{Scan, Selection};
use crate::vectors::quantize::Query;

fn open(folder: &Path) -> (Index, Opened) {
    let options = IndexOptions { dimensions: 4, embedding_model: "model".to_owned() };
    let (mut index, opened) = Index::open(folder, options).unwrap();
    index.bounds = Bounds { words: 30, vectors: 10 };
    (index, opened)
}

fn feed(index: &Index, rows: std::ops::Range<u64>) {
    for row in rows {
        let document = Document {
            row: RowNumber(row),
            agent: AgentKey(1),
            source: SourceKey(0),
            occurred_at: Timestamp::from_micros(0),
            text: "the copper lantern",
            vectors: vec![vec![1.0, row as f32 / 1000.0, 0.0, 0.0]],
        };
        index.apply(&[Change::Add(document)]).unwrap();
    }
}

fn total(index: &Index) -> usize {
    let request = SearchRequest {
        mode: Mode::Hybrid,
        text: "lantern",
        vector: Some(&[1.0, 0.0, 0.0, 0.0]),
        filter: Filter::default(),
        offset: 0,
        limit: 5,
    };
    index.search(&request).unwrap().total
}

#[test]
fn memory_is_bounded_without_a_flush() {
    let folder = tempfile::tempdir().unwrap();
    let (index, _) = open(folder.path());
    feed(&index, 1..200);
    assert_eq!(total(&index), 199);
    let state = index.state.read();
    assert!(state.open_words <= 34 && state.open_vectors <= 11);
    assert!(state.text.iter().filter(|part| matches!(part.terms, crate::text::Terms::Memory(_))).count() <= 1);
    drop(state);
    while index.maintain().unwrap() {}
    assert!(index.size().text_parts < 10, "{:?}", index.size());
    assert_eq!(total(&index), 199);
    index.flush(b"at 200").unwrap();
    // Data spilled after the flush does not belong to it.
    feed(&index, 200..300);
    assert_eq!(total(&index), 299);
    drop(index);
    let (index, opened) = open(folder.path());
    assert_eq!((opened.cursor.as_deref(), total(&index)), (Some(b"at 200".as_slice()), 199));
    feed(&index, 190..300);
    assert_eq!(total(&index), 299);
}

/// Each document has the same cosine as in a single-threaded scan, regardless of the number of threads.
#[test]
fn scan_results_are_independent_of_the_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let (mut index, _) = open(folder.path());
    index.bounds = Bounds { words: 10_000, vectors: 150 };
    feed(&index, 1..700);
    // Indexes the same rows again, so that positions of old vectors are unused.
    feed(&index, 300..450);
    let state = index.state.read();
    let wanted = Selection {
        kernel: index.kernel,
        query: Arc::new(Query::new(&[0.6, 0.8, 0.0, 0.0])),
        context: Arc::new(state.documents.alive().clone()),
    };
    let scanned = |threads, is_late: bool| {
        let mut cosine = vec![f32::NEG_INFINITY; state.documents.slot_count() as usize];
        let scan = Scan::begin_with((threads, 1), &index.state, &state, wanted.clone(), vec![vec![7.0; 3]]);
        if is_late {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        scan.finish(&state, &mut cosine);
        cosine
    };
    let alone = scanned(1, false);
    assert_eq!(alone.iter().filter(|cosine| cosine.is_finite()).count(), 699);
    for threads in 2..=7 {
        assert_eq!(scanned(threads, false), alone, "{threads} threads");
        assert_eq!(scanned(threads, true), alone, "{threads} threads that did all of it");
    }
    // A search that ends early must not leave a helper that reads while the state changes.
    drop(Scan::begin_with((7, 1), &index.state, &state, wanted.clone(), Vec::new()));
    drop(state);
    feed(&index, 700..701);
}
