//! Search behaviour by example.

use std::collections::BTreeSet;
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_search_index::{
    AgentKey, Change, Document, Filter, Index, IndexError, IndexOptions, Mode, OpenState, RowNumber, SearchRequest,
};
use tempfile::tempdir;

use crate::support::{DIMENSIONS, add, along, document, found, keyword, minutes, open, options, request, rows};

#[test]
fn document_is_found_between_addition_and_removal() {
    let folder = tempdir().unwrap();
    let (index, opened) = open(folder.path());
    assert_eq!((opened.state, opened.cursor), (OpenState::Fresh, None));
    add(&index, vec![document(1, "The fox jumps"), document(2, "A lazy dog")]);
    assert_eq!(found(&index, "foxes jumping"), [1]);
    index.apply(&[Change::Add(document(1, "It is a cat now"))]).unwrap();
    assert_eq!((found(&index, "fox"), found(&index, "cats")), (vec![], vec![1]));
    index.apply(&[Change::Remove(RowNumber(1)), Change::Remove(RowNumber(7))]).unwrap();
    assert_eq!((found(&index, "cats"), index.len(), index.contains(RowNumber(1))), (vec![], 1, false));
}

#[test]
fn neighbours_add_weight_but_do_not_match() {
    let folder = tempdir().unwrap();
    let (index, _) = open(folder.path());
    let talk = |row, text| Document { agent: AgentKey(7), ..document(row, text) };
    add(
        &index,
        vec![
            talk(1, "Do you like the violin"),
            talk(2, "Yes, since school"),
            talk(900, "The violin broke"),
            talk(901, "A violin string, that is"),
        ],
    );
    let hits = keyword(&index, "violin");
    assert_eq!(hits.total, 3);
    assert_eq!(rows(&hits)[2], 1, "two that speak of it side by side are better than one alone: {hits:?}");
}

/// Only a few of many documents are rescored; a page with all of them rescores all.
#[test]
fn short_page_contains_the_best_of_many() {
    const ROWS: u64 = 10_000;
    const WORDS: [&str; 7] = ["fox", "harbour", "violin", "Ada: tea", "what is rain", "Bob: fox", "seven"];
    let folder = tempdir().unwrap();
    let (index, _) = open(folder.path());
    let vector = |seed: u64| -> Vec<f32> {
        let number = |axis: u64| ((seed * 7919 + axis * 104_729) % 2003) as f32 / 1001.5 - 1.0;
        (0..DIMENSIONS as u64).map(number).collect()
    };
    let text = |row: u64| format!("{} {}", WORDS[(row % 7) as usize], WORDS[(row / 11 % 7) as usize]);
    // Agents speak alone for a while, then in turns.
    let agent_of = |row: u64| AgentKey(if row % 1000 < 500 { row / 1000 % 3 } else { row % 3 });
    let texts: Vec<String> = (0..ROWS).map(text).collect();
    let documents = texts.iter().zip(0_u64..).map(|(text, row)| Document {
        agent: agent_of(row),
        vectors: match row % 17 {
            0 => Vec::new(),
            1 => vec![vector(row), vector(row + 1)],
            _ => vec![vector(row)],
        },
        ..document(row, text)
    });
    for documents in documents.collect::<Vec<_>>().chunks(500) {
        add(&index, documents.to_vec());
    }
    let compare = || {
        for (asked, text) in ["fox in the harbour", "Ada and the rain", "tea on 7 May", "violin"].iter().enumerate() {
            let vector = vector(asked as u64 * 31 + 5);
            for (mode, agent) in [
                (Mode::Hybrid, None),
                (Mode::Semantic, None),
                (Mode::Keyword, None),
                (Mode::Semantic, Some(AgentKey(1))),
            ] {
                let filter = Filter { agent, ..Filter::default() };
                let part = |offset, limit| {
                    let asked = SearchRequest { offset, limit, filter, ..request(mode, text, Some(&vector)) };
                    index.search(&asked).unwrap()
                };
                let page = |limit| part(0, limit);
                // Twice: the first search fills caches that the second one uses.
                let (_, few, all) = (page(10), page(10), page(20_000));
                let middle: Vec<_> = (200..320).step_by(30).flat_map(|offset| part(offset, 30).hits).collect();
                assert_eq!(middle[..], all.hits[200..320], "pages are cuts of one order, {mode:?} {agent:?} {text}");
                assert!(all.hits.len() > 500, "{}", all.hits.len());
                assert_eq!((few.total, &few.hits[..]), (all.total, &all.hits[..10]), "{mode:?} {agent:?} {text}");
            }
        }
    };
    for row in (0..ROWS).step_by(23) {
        index.apply(&[Change::Remove(RowNumber(row))]).unwrap();
    }
    compare();
    // A replaced document moves away from its neighbours, which become adjacent after the removal.
    for row in (0..ROWS).filter(|row| row % 11 == 3 || row % 3 == 1) {
        let vectors = vec![vector(row + 2), vector(row + 3)];
        add(&index, vec![Document { agent: agent_of(row), vectors, ..document(row, &texts[row as usize]) }]);
    }
    compare();
    index.flush(b"all").unwrap();
    assert!(index.maintain().unwrap(), "the share of deleted rows triggers a rewrite");
    while index.maintain().unwrap() {}
    compare();
}

/// The scan compares four bits per number, so its results are rescored; nearly nothing is missed.
#[test]
fn nearest_documents_equal_those_of_an_exact_comparison() {
    const NUMBERS: usize = 384;
    let folder = tempdir().unwrap();
    let options = IndexOptions { dimensions: NUMBERS, embedding_model: "model-a".to_owned() };
    let (index, _) = Index::open(folder.path(), options).unwrap();
    let mut seed = 7_u64;
    let mut vector = |around: Option<&Vec<f32>>, share: f32| -> Vec<f32> {
        let mut number = |position: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let own = (seed >> 40) as f32 / (1 << 23) as f32 - 1.0;
            own * share + around.map_or(0.0, |around| around[position])
        };
        (0..NUMBERS).map(&mut number).collect()
    };
    let centres: Vec<Vec<f32>> = (0..3).map(|_| vector(None, 1.0)).collect();
    let held: Vec<Vec<f32>> = (0..4500).map(|row| vector(Some(&centres[row % 3]), 0.8)).collect();
    // Each document has its own agent, so that no document has neighbours.
    let documents = held.iter().zip(0_u64..).map(|(vector, row)| Document {
        agent: AgentKey(row),
        vectors: vec![vector.clone()],
        ..document(row, "")
    });
    add(&index, documents.collect());
    let cosine = |a: &[f32], b: &[f32]| {
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
        dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
    };
    let mut missed = 0;
    for position in 0..30 {
        let asked = vector(Some(&held[position * 131]), 0.5);
        let mut exact: Vec<(f32, u64)> = held.iter().map(|held| cosine(held, &asked)).zip(0..).collect();
        exact.sort_by(|a, b| b.0.total_cmp(&a.0));
        let request = SearchRequest { limit: 100, ..request(Mode::Semantic, "", Some(&asked)) };
        let found = index.search(&request).unwrap();
        assert!(found.total > 1000, "many are near: {}", found.total);
        let hits = found.hits;
        // Some of them are equally near within 16 bits.
        let near: BTreeSet<u64> = exact[..10].iter().map(|(_, row)| *row).collect();
        assert_eq!(hits[..10].iter().map(|hit| hit.row.0).collect::<BTreeSet<_>>(), near);
        let found: Vec<u64> = hits.iter().map(|hit| hit.row.0).collect();
        missed += exact[..100].iter().filter(|(_, row)| !found.contains(row)).count();
    }
    assert!(missed <= 15, "of 3,000 that are near {missed} are missed");
}

#[test]
fn texts_in_all_scripts_are_found() {
    let folder = tempdir().unwrap();
    let (index, _) = open(folder.path());
    let texts = [
        "昨日東京都に行きました",
        "Я люблю чай с мёдом",
        "أحب القهوة",
        "I write C++ and C#",
        "mail ada@example.org",
        "see build_index.rs",
        "La Straße ist groß",
        "naïve café",
        "ภาษาไทย",
        "서울 날씨",
        "node.js v1.2",
    ];
    add(&index, (1..).zip(texts).map(|(row, text)| document(row, text)).collect());
    for (query, row) in [
        ("東京", 1),
        ("都", 1),
        ("ＭЁДОМ", 2),
        ("القهوة", 3),
        ("c++", 4),
        ("C#", 4),
        ("ada@example.org", 5),
        ("ADA", 5),
        ("build_index.rs", 6),
        ("strasse", 7),
        ("GROSS", 7),
        ("cafe", 8),
        ("naive", 8),
        ("ไทย", 9),
        ("날씨", 10),
        ("node.js", 11),
        ("v1.2", 11),
        ("node", 11),
    ] {
        assert_eq!(rows(&keyword(&index, query)).first(), Some(&row).filter(|_| query != "ＭЁДОМ"), "{query}");
    }
}

#[test]
fn hostile_queries_are_plain_text() {
    let folder = tempdir().unwrap();
    let (index, _) = open(folder.path());
    add(&index, vec![document(1, "the and of AND OR NOT near quote"), document(2, "plain words")]);
    let long = "x".repeat(100_000);
    let many = (0..20_000).map(|n| format!("w{n} ")).collect::<String>() + "plain";
    for query in
        ["\"quote", "quote:*", "(quote", "quote AND", "-quote", "quote\0", "🦀 quote 🦀", "\u{202e}quote\u{202c}"]
    {
        assert_eq!(found(&index, query), [1], "{query:?}");
    }
    for query in ["", " ", "\0", "🦀", "\"\"", long.as_str(), many.as_str()] {
        assert_eq!(keyword(&index, query).total, 0, "{}", query.len());
    }
    assert_eq!(found(&index, "the of"), [1], "stop words alone are searched all the same");
}

#[test]
fn hybrid_without_vector_is_degraded_and_semantic_fails() {
    let folder = tempdir().unwrap();
    let (index, _) = open(folder.path());
    add(&index, vec![document(1, "violin")]);
    let hits = index.search(&request(Mode::Hybrid, "violin", None)).unwrap();
    assert_eq!((rows(&hits), hits.degraded), (vec![1], true));
    assert!(matches!(index.search(&request(Mode::Semantic, "violin", None)), Err(IndexError::QueryVector { .. })));
    for bad in [vec![0.0; DIMENSIONS], vec![1.0; 3], vec![f32::NAN; DIMENSIONS]] {
        assert!(index.search(&request(Mode::Semantic, "violin", Some(&bad))).is_err());
        let change = Change::SetVectors(RowNumber(1), vec![bad]);
        assert!(index.apply(&[Change::Remove(RowNumber(1)), change]).is_err());
        assert!(index.contains(RowNumber(1)), "a batch with a bad vector changes nothing");
    }
    let query = along(2, 0.0);
    index.apply(&[Change::SetVectors(RowNumber(1), vec![along(2, 0.1)])]).unwrap();
    let hits = index.search(&request(Mode::Hybrid, "unrelated", Some(&query))).unwrap();
    assert_eq!((rows(&hits), hits.degraded), (vec![1], false));
}

#[test]
fn document_is_scored_by_its_best_vector() {
    let folder = tempdir().unwrap();
    let (index, _) = open(folder.path());
    let with = |row, vectors| Document { vectors, ..document(row, "") };
    add(
        &index,
        vec![with(1, vec![along(0, 0.0), along(4, 0.0)]), with(2, vec![along(4, 0.9)]), with(3, vec![along(0, 0.3)])],
    );
    let query = along(4, 0.0);
    let hits = index.search(&request(Mode::Semantic, "", Some(&query))).unwrap();
    assert_eq!((rows(&hits), hits.total), (vec![1, 2], 2));
    let similar = index.similar(RowNumber(1), &Filter::default(), 10).unwrap();
    assert_eq!(similar.iter().map(|hit| hit.row.0).collect::<Vec<_>>(), [3, 2]);
    assert!(similar[0].score > 0.9 && similar[0].score <= 1.0);
    assert!(index.similar(RowNumber(9), &Filter::default(), 10).is_err());
    let held = index.vector_of(RowNumber(2)).unwrap().unwrap();
    let length: f32 = held.iter().map(|n| n * n).sum();
    assert!((length - 1.0).abs() < 1e-3);
}

#[test]
fn equal_scores_are_ordered_by_time_and_row_and_pages_do_not_overlap() {
    let folder = tempdir().unwrap();
    let (index, _) = open(folder.path());
    let documents = (1..=250)
        .map(|row| Document { occurred_at: minutes((row % 5) as i64), ..document(row, "same text") })
        .collect();
    add(&index, documents);
    let whole = index.search(&SearchRequest { limit: 1000, ..request(Mode::Keyword, "text", None) }).unwrap();
    let mut expected: Vec<u64> = (1..=250).collect();
    expected.sort_by_key(|row| std::cmp::Reverse((row % 5, *row)));
    assert_eq!(rows(&whole), expected);
    let mut paged = Vec::new();
    for offset in (0..260).step_by(7) {
        let page = index.search(&SearchRequest { offset, limit: 7, ..request(Mode::Keyword, "text", None) }).unwrap();
        assert_eq!(page.total, 250);
        paged.extend(rows(&page));
    }
    assert_eq!(paged, expected);
    let beyond = SearchRequest { offset: usize::MAX, limit: usize::MAX, ..request(Mode::Keyword, "text", None) };
    assert_eq!(index.search(&beyond).unwrap().hits, []);
}

#[test]
fn speaker_names_are_removed_before_embedding() {
    let folder = tempdir().unwrap();
    let (index, _) = open(folder.path());
    let message = |row, text| Document { agent: AgentKey(1), ..document(row, text) };
    add(&index, vec![message(1, "Ada: a"), message(2, "Ada: b"), message(3, "Ada: c"), message(4, "Bob: d")]);
    let strip = |text| index.embedding_query(text, Some(AgentKey(1))).unwrap();
    assert_eq!(strip("What is Ada's favourite colour?"), "What is favourite colour?");
    assert_eq!(strip("What does Bob like?"), "What does Bob like?", "said too seldom to be a speaker");
    assert_eq!(strip("Ada colour"), "Ada colour", "too little would be left");
    assert_eq!(index.embedding_query("Does Ada sing", Some(AgentKey(2))).unwrap(), "Does Ada sing");
}

#[test]
fn change_of_model_retains_words_and_drops_vectors() {
    let folder = tempdir().unwrap();
    let (index, _) = open(folder.path());
    add(&index, vec![Document { vectors: vec![along(1, 0.0)], ..document(1, "violin") }]);
    index.flush(b"one").unwrap();
    drop(index);
    for (dimensions, model) in [(DIMENSIONS, "model-b"), (3, "model-a")] {
        let changed = IndexOptions { dimensions, embedding_model: model.to_owned() };
        let (index, opened) = Index::open(folder.path(), changed).unwrap();
        assert!(matches!(opened.state, OpenState::VectorsDropped { .. }), "{:?}", opened.state);
        assert_eq!(opened.cursor.as_deref(), Some(b"one".as_slice()));
        assert_eq!((found(&index, "violin"), index.size().with_vectors), (vec![1], 0));
    }
    // Without a flush with the other model, its own vectors are gone anyway: the files were removed.
    let (index, opened) = open(folder.path());
    assert!(matches!(opened.state, OpenState::Rebuilt { .. }), "{:?}", opened.state);
    assert!(index.is_empty());
}

#[test]
fn folder_can_only_be_opened_once() {
    let folder = tempdir().unwrap();
    let (index, _) = open(folder.path());
    assert!(matches!(Index::open(folder.path(), options()), Err(IndexError::Locked(_))));
    drop(index);
    open(folder.path());
}

#[test]
fn reset_leaves_nothing_behind() {
    let folder = tempdir().unwrap();
    let (index, _) = open(folder.path());
    add(&index, vec![Document { vectors: vec![along(1, 0.0)], ..document(1, "violin") }]);
    index.flush(b"one").unwrap();
    add(&index, vec![document(2, "violin")]);
    index.reset().unwrap();
    assert!(index.is_empty() && found(&index, "violin").is_empty());
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["lock"]);
    add(&index, vec![document(3, "violin")]);
    index.flush(b"two").unwrap();
    drop(index);
    let (index, opened) = open(folder.path());
    assert_eq!((opened.cursor.as_deref(), found(&index, "violin")), (Some(b"two".as_slice()), vec![3]));
}

#[test]
fn deleted_document_is_removed_from_files_by_maintenance() {
    let folder = tempdir().unwrap();
    let (index, _) = open(folder.path());
    add(&index, vec![document(1, "xylophone"), document(2, "violin")]);
    index.flush(b"one").unwrap();
    index.apply(&[Change::Remove(RowNumber(1))]).unwrap();
    while index.maintain().unwrap() {}
    index.flush(b"two").unwrap();
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        assert!(!bytes.windows(6).any(|window| window == b"xyloph"));
    }
    assert_eq!(found(&index, "violin"), [2]);
    assert!(index.disk_bytes() > 0 && index.memory_bytes() > 0);
}

#[test]
fn searches_run_concurrently_with_changes() {
    let folder = tempdir().unwrap();
    let (index, _) = open(folder.path());
    add(&index, vec![Document { vectors: vec![along(1, 0.0)], ..document(1, "anchor stays") }]);
    let (index, query) = (&index, along(1, 0.0));
    let done = &std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for round in 0..60_u64 {
                let documents = (0..20)
                    .map(|n| Document { vectors: vec![along(3, 0.1)], ..document(10 + round * 20 + n, "passing by") })
                    .collect();
                add(index, documents);
                let gone: Vec<_> = (0..15).map(|n| Change::Remove(RowNumber(10 + round * 20 + n))).collect();
                index.apply(&gone).unwrap();
                index.flush(&round.to_le_bytes()).unwrap();
                while index.maintain().unwrap() {}
            }
            done.store(true, std::sync::atomic::Ordering::Release);
        });
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Acquire) {
                    for mode in [Mode::Keyword, Mode::Semantic, Mode::Hybrid] {
                        let hits = index.search(&request(mode, "anchor", Some(&query))).unwrap();
                        assert_eq!((rows(&hits), hits.total), (vec![1], 1));
                    }
                    index.warm().unwrap();
                }
            });
        }
    });
    assert_eq!((index.len(), index.size().with_vectors), (1 + 60 * 5, 1 + 60 * 5));
    let hits =
        index.search(&SearchRequest { limit: 1000, ..request(Mode::Semantic, "", Some(&along(3, 0.1))) }).unwrap();
    assert_eq!(hits.hits.len(), 60 * 5);
}

#[test]
fn speakers_dates_and_questions_affect_the_order() {
    let folder = tempdir().unwrap();
    let (index, _) = open(folder.path());
    let at = |row: u64, day: i64, text| Document {
        agent: AgentKey(1),
        occurred_at: Timestamp::parse("2023-05-01T12:00:00Z").unwrap() + Duration::from_secs(day as u64 * 86_400),
        ..document(row, text)
    };
    add(
        &index,
        vec![
            at(1, 0, "Ada: I found a lantern"),
            at(2, 6, "Bob: I found a lantern"),
            at(3, 12, "Ada: is it a lantern?"),
            at(4, 20, "Ada: no"),
            at(5, 24, "Bob: no"),
            at(6, 40, "Bob: I lost a lantern in the end"),
        ],
    );
    let first = |query| rows(&keyword(&index, query))[0];
    assert_eq!(first("Which lantern did Ada find"), 1);
    assert_eq!(first("Which lantern did Bob find"), 2);
    assert_eq!(first("the lantern on 7 May"), 2);
    assert_eq!(first("the lantern in June 2023"), 6);
    let order = rows(&keyword(&index, "lantern"));
    assert_eq!(order[3], 3, "a question comes last: {order:?}");
}
