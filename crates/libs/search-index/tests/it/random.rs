//! Random operations on an index, whose results are compared with the model after each step.

use std::collections::{HashMap, HashSet};

use agentd_base::Timestamp;
use agentd_search_index::{
    AgentKey, COSINE_FLOOR, Change, Document, Filter, Index, Mode, OpenState, RowNumber, RowSet, SearchRequest,
    SourceKey,
};
use proptest::prelude::*;

use crate::model::{Known, Model, Wanted};
use crate::support::{DIMENSIONS, open};

const WORDS: [&str; 12] = [
    "river", "mountain", "lantern", "copper", "violin", "harbor", "meadow", "thunder", "walked?", "walking", "東京",
    "café",
];

#[derive(Clone, Debug)]
enum Step {
    Apply(Vec<Edit>),
    Flush,
    Maintain,
    /// Closes without a flush and opens again: unflushed changes are applied again.
    Reopen,
    Warm,
    Search {
        mode: Mode,
        words: Vec<usize>,
        vector: Vec<i8>,
        wanted: Wanted,
        offset: usize,
        limit: usize,
    },
}

#[derive(Clone, Debug)]
enum Edit {
    Add { row: Option<usize>, agent: u64, source: u64, minute: i64, words: Vec<usize>, vectors: Vec<Vec<i8>> },
    Remove(usize),
    SetVectors(usize, Vec<Vec<i8>>),
}

fn vector() -> impl Strategy<Value = Vec<i8>> {
    proptest::collection::vec(-9_i8..10, DIMENSIONS).prop_filter("has a direction", |v| v.iter().any(|n| *n != 0))
}

fn vectors() -> impl Strategy<Value = Vec<Vec<i8>>> {
    prop_oneof![1 => Just(0), 4 => Just(1), 1 => Just(3)].prop_flat_map(|n| proptest::collection::vec(vector(), n))
}

fn words(range: std::ops::Range<usize>) -> impl Strategy<Value = Vec<usize>> {
    proptest::collection::vec(0..WORDS.len(), range)
}

/// Generates times, mostly slightly later than the last one (a negative value is an increment), on a coarse grid so
/// that limits are met exactly.
fn minute() -> impl Strategy<Value = i64> {
    prop_oneof![3 => prop_oneof![Just(-1_i64), Just(-20), Just(-80)], 1 => (0_i64..20).prop_map(|n| n * 20)]
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        6 => (proptest::option::weighted(0.15, 0_usize..50), 0_u64..3, 0_u64..3, minute(), words(0..8), vectors()).prop_map(
            |(row, agent, source, minute, words, vectors)| Edit::Add { row, agent, source, minute, words, vectors }
        ),
        2 => (0_usize..50).prop_map(Edit::Remove),
        1 => (0_usize..50, vectors()).prop_map(|(row, vectors)| Edit::SetVectors(row, vectors)),
    ]
}

fn wanted() -> impl Strategy<Value = Wanted> {
    let minute =
        || proptest::option::weighted(0.2, (0_i64..20).prop_map(|m| Timestamp::from_micros(m * 20 * 60_000_000)));
    let rows = || proptest::option::weighted(0.2, proptest::collection::vec(1_u64..60, 0..30));
    (
        proptest::option::weighted(0.3, 0_u64..4),
        proptest::bool::ANY,
        prop_oneof![3 => Just(Vec::new()), 1 => proptest::collection::vec(0_u64..4, 1..3)],
        minute(),
        minute(),
        rows(),
        rows(),
    )
        .prop_map(|(agent, and_of_none, sources, from, until, rows, exclude)| Wanted {
            agent,
            and_of_none,
            sources,
            from,
            until,
            rows,
            exclude,
        })
}

fn step() -> impl Strategy<Value = Step> {
    let mode = prop_oneof![Just(Mode::Keyword), Just(Mode::Semantic), Just(Mode::Hybrid)];
    let search = (mode, words(1..4), vector(), wanted(), 0_usize..6, 0_usize..20).prop_map(
        |(mode, mut words, vector, wanted, offset, limit)| {
            words.sort_unstable();
            words.dedup();
            Step::Search { mode, words, vector, wanted, offset, limit }
        },
    );
    prop_oneof![
        4 => proptest::collection::vec(edit(), 1..12).prop_map(Step::Apply),
        2 => Just(Step::Flush),
        2 => Just(Step::Maintain),
        1 => Just(Step::Reopen),
        1 => Just(Step::Warm),
        6 => search,
    ]
}

fn text(words: &[usize]) -> String {
    words.iter().map(|word| WORDS[*word]).collect::<Vec<_>>().join(" ")
}

fn floats(vectors: &[Vec<i8>]) -> Vec<Vec<f32>> {
    vectors.iter().map(|vector| vector.iter().map(|n| f32::from(*n)).collect()).collect()
}

/// Index, model, and the changes since the last flush.
struct Life {
    folder: tempfile::TempDir,
    index: Option<Index>,
    model: Model,
    next_row: u64,
    last_minute: i64,
    log: Vec<Edit>,
    flushed: usize,
}

impl Life {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (index, _) = open(folder.path());
        Self {
            folder,
            index: Some(index),
            model: Model::default(),
            next_row: 1,
            last_minute: 0,
            log: Vec::new(),
            flushed: 0,
        }
    }

    fn index(&self) -> &Index {
        self.index.as_ref().unwrap()
    }

    fn row_at(&self, position: usize) -> Option<u64> {
        (!self.model.documents.is_empty())
            .then(|| self.model.documents.keys().nth(position % self.model.documents.len()).copied())
            .flatten()
    }

    /// Resolves random positions to rows, updates the model, and returns the edit for the index.
    fn pin(&mut self, edit: Edit) -> Option<Edit> {
        match edit {
            Edit::Add { row, agent, source, minute, words, vectors } => {
                let row = row.and_then(|position| self.row_at(position)).unwrap_or_else(|| {
                    self.next_row += 1;
                    self.next_row
                });
                let minute = if minute < 0 { self.last_minute - minute } else { minute };
                self.last_minute = minute;
                let known = Known {
                    row,
                    agent,
                    source,
                    occurred_at: Timestamp::from_micros(minute * 60_000_000),
                    text: text(&words),
                    vectors: floats(&vectors),
                };
                self.model.documents.insert(row, known);
                Some(Edit::Add { row: Some(row as usize), agent, source, minute, words, vectors })
            }
            Edit::Remove(position) => {
                let row = self.row_at(position)?;
                self.model.documents.remove(&row);
                Some(Edit::Remove(row as usize))
            }
            Edit::SetVectors(position, vectors) => {
                let row = self.row_at(position)?;
                if let Some(known) = self.model.documents.get_mut(&row) {
                    known.vectors = floats(&vectors);
                }
                Some(Edit::SetVectors(row as usize, vectors))
            }
        }
    }

    fn apply_edits(&self, edits: &[Edit]) {
        let texts: Vec<String> = edits
            .iter()
            .map(|edit| if let Edit::Add { words, .. } = edit { text(words) } else { String::new() })
            .collect();
        let changes: Vec<Change<'_>> = edits
            .iter()
            .zip(&texts)
            .map(|(edit, text)| match edit {
                Edit::Add { row, agent, source, minute, vectors, .. } => Change::Add(Document {
                    row: RowNumber(row.unwrap() as u64),
                    agent: AgentKey(*agent),
                    source: SourceKey(*source),
                    occurred_at: Timestamp::from_micros(minute * 60_000_000),
                    text,
                    vectors: floats(vectors),
                }),
                Edit::Remove(row) => Change::Remove(RowNumber(*row as u64)),
                Edit::SetVectors(row, vectors) => Change::SetVectors(RowNumber(*row as u64), floats(vectors)),
            })
            .collect();
        self.index().apply(&changes).unwrap();
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Apply(edits) => {
                let edits: Vec<Edit> = edits.into_iter().filter_map(|edit| self.pin(edit)).collect();
                self.apply_edits(&edits);
                self.log.extend(edits);
            }
            Step::Flush => {
                self.index().flush(&self.log.len().to_le_bytes()).unwrap();
                self.flushed = self.log.len();
            }
            Step::Maintain => while self.index().maintain().unwrap() {},
            Step::Warm => self.index().warm().unwrap(),
            Step::Reopen => {
                drop(self.index.take());
                let (index, opened) = open(self.folder.path());
                self.index = Some(index);
                if self.flushed == 0 && opened.cursor.is_none() {
                    assert_eq!(opened.state, OpenState::Fresh);
                } else {
                    assert_eq!(opened.state, OpenState::CaughtUp);
                    assert_eq!(opened.cursor.as_deref(), Some(self.flushed.to_le_bytes().as_slice()));
                }
                self.apply_edits(&self.log[self.flushed..]);
            }
            Step::Search { mode, words, vector, wanted, offset, limit } => {
                self.compare(mode, &text(&words), &floats(&[vector])[0], &wanted, offset, limit);
            }
        }
        self.compare_contents();
    }

    fn compare_contents(&self) {
        let rows: Vec<(RowNumber, bool)> =
            self.model.documents.values().map(|known| (RowNumber(known.row), !known.vectors.is_empty())).collect();
        assert_eq!(self.index().rows(), rows);
        assert_eq!(self.index().len(), rows.len());
    }

    fn compare(&self, mode: Mode, text: &str, vector: &[f32], wanted: &Wanted, offset: usize, limit: usize) {
        let mut model = self.model.clone();
        for known in model.documents.values_mut() {
            let held = self.index().vectors_of(RowNumber(known.row)).unwrap();
            assert_eq!(held.len(), known.vectors.len());
            known.vectors = held;
        }
        // The limit is applied to the scan's 4 bits; a document within their error may be on either side.
        let lengths = vector.iter().fold((0.0, 0.0), |(sum, square), n| (sum + n.abs(), square + n * n));
        let (sum, length) = (lengths.0, lengths.1.sqrt());
        let is_near_floor = |held: &Vec<f32>| {
            let dot: f32 = held.iter().zip(vector).map(|(a, b)| a * b).sum();
            let step = held.iter().fold(0.0_f32, |greatest, n| greatest.max(n.abs())) / 7.0;
            (dot / length - COSINE_FLOOR).abs() <= step / 2.0 * sum / length + 0.01
        };
        let near_floor: HashSet<u64> = model
            .documents
            .values()
            .filter(|known| mode != Mode::Keyword && known.vectors.iter().any(is_near_floor))
            .map(|known| known.row)
            .collect();
        let set =
            |rows: &Option<Vec<u64>>| rows.as_ref().map(|rows| rows.iter().copied().map(RowNumber).collect::<RowSet>());
        let (only, exclude) = (set(&wanted.rows), set(&wanted.exclude));
        let sources: Vec<SourceKey> = wanted.sources.iter().copied().map(SourceKey).collect();
        let filter = Filter {
            agent: wanted.agent.map(AgentKey),
            and_of_none: wanted.and_of_none,
            sources: &sources,
            from: wanted.from,
            until: wanted.until,
            rows: only.as_ref(),
            exclude: exclude.as_ref(),
        };
        let request = SearchRequest { mode, text, vector: Some(vector), filter, offset, limit };
        let page = self.index().search(&request).unwrap();
        let all = self.index().search(&SearchRequest { offset: 0, limit: usize::MAX, ..request }).unwrap();
        let any_vector = model.documents.values().any(|known| !known.vectors.is_empty());
        let degraded = mode == Mode::Hybrid && !any_vector && !model.documents.is_empty();
        assert_eq!(page.degraded, degraded);
        let mode = if degraded { Mode::Keyword } else { mode };
        assert_eq!((all.total, all.hits.len()), (page.total, page.total));
        let expected: Vec<_> = all.hits.iter().skip(offset).take(limit).copied().collect();
        assert_eq!(page.hits, expected, "a page is a cut of the whole");
        let most = match mode {
            Mode::Keyword => 2.5,
            Mode::Semantic => 1.3,
            Mode::Hybrid => 3.5,
        };
        let model: HashMap<u64, f64> = model.search(mode, text, vector, wanted).into_iter().collect();
        let mut scores = Vec::new();
        for hit in &all.hits {
            let Some(score) = model.get(&hit.row.0) else {
                assert!(near_floor.contains(&hit.row.0), "{hit:?} should not match in {mode:?}");
                continue;
            };
            let expected = (score / most).clamp(0.0, 1.0);
            assert!((f64::from(hit.score) - expected).abs() < 0.005, "{hit:?} should score {expected} in {mode:?}");
            scores.push(*score);
        }
        for pair in scores.windows(2) {
            assert!(pair[0] > pair[1] - 0.02, "out of order: {scores:?}");
        }
        let found: HashSet<u64> = all.hits.iter().map(|hit| hit.row.0).collect();
        for row in model.keys().filter(|row| !found.contains(*row)) {
            assert!(near_floor.contains(row), "{row} should match in {mode:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, max_shrink_iters: 400, ..ProptestConfig::default() })]
    #[test]
    fn index_behaves_like_the_model(steps in proptest::collection::vec(step(), 1..40)) {
        let mut life = Life::new();
        for step in steps {
            life.take(step);
        }
    }
}
