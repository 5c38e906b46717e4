//! Proves that what is derived agrees with the rows: the search index, the figures, the graph.
//!
//! Runs beside everything else: nothing is locked, and what memory changes meanwhile is looked at again
//! before it is said to disagree. It repairs nothing.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use agentd_search_index::{HeldDocument, Index, RowNumber, analyze};
use agentd_store::Read;
use serde::{Deserialize, Serialize};

use super::error::MemoryError;
use super::follower::{agent_key, blocking, row_number, source_key};
use super::service::Memory;
use super::store::counts::stored_figures;
use super::store::episodes::{IndexedRow, indexed_rows, indexed_rows_after, vectors_of};
use super::store::recount::{Broken, Rule, broken_rules, is_counted_by_rows, recounted_figures};

const BATCH: u32 = 500;
/// What disagrees so often, with the index brought up to date before each look, is no change under way.
const LOOKS: usize = 5;
/// Of episodes that disagree so many are named.
const NAMED: usize = 5;
/// The index holds 16 bits a number; what is farther from the row's vector is another one.
const LEAST_COSINE: f64 = 0.999;

/// What was compared, and what does not agree.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct MemoryCheck {
    /// Episodes that were looked for in the index.
    pub episodes: u64,
    /// Vectors that were compared.
    pub vectors: u64,
    /// Figures that were counted again.
    pub figures: u64,
    /// The search index was found damaged and was built anew before it was compared.
    pub rebuilt: Option<String>,
    pub disagreements: Vec<Disagreement>,
}

/// A way in which memory does not agree with itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "in", content = "what", rename_all = "snake_case")]
pub enum Disagreement {
    /// Between the search index and the rows.
    Index(String),
    /// Between figures that are kept and a recount.
    Figures(String),
    /// Between entities and relations and what episodes mention.
    Graph(String),
    /// Between vectors and episodes.
    Vectors(String),
}

impl Memory {
    /// Compares everything that is derived with the rows.
    ///
    /// # Errors
    /// The index cannot be opened, or the store's refusal; what disagrees is no error.
    pub async fn check(&self) -> Result<MemoryCheck, MemoryError> {
        let mut check = MemoryCheck::default();
        check_index(self, &mut check).await?;
        // One state of the database for all sums.
        let mut read = self.context().db.read_snapshot().await?;
        let recounted = recounted_figures(&mut read).await?;
        let mut stored = stored_figures(&mut read).await?;
        stored.retain(|(kind, _), _| is_counted_by_rows(kind));
        check.figures = recounted.len() as u64;
        for (name, amount) in &recounted {
            let kept = stored.remove(name).unwrap_or_default();
            check.compare_figure(name, kept, *amount);
        }
        for (name, kept) in &stored {
            check.compare_figure(name, *kept, 0);
        }
        for broken in broken_rules(&mut read).await? {
            check.disagreements.push(disagreement(&broken));
        }
        Ok(check)
    }
}

impl MemoryCheck {
    fn compare_figure(&mut self, (kind, name): &(String, String), kept: i64, recounted: i64) {
        if kept != recounted {
            let of = if name.is_empty() { String::new() } else { format!(" of `{name}`") };
            let what = format!("`{kind}`{of} is {kept}, a recount says {recounted}");
            self.disagreements.push(Disagreement::Figures(what));
        }
    }
}

fn disagreement(broken: &Broken) -> Disagreement {
    let Broken { rule, count, named } = broken;
    let such = named.join(", ");
    match rule {
        Rule::Mentions => Disagreement::Graph(format!("{count} entities have other mentions than episodes: {such}")),
        Rule::Relations => Disagreement::Graph(format!("{count} relations have another weight than episodes: {such}")),
        Rule::MentionsBelong => {
            Disagreement::Graph(format!("{count} mentions belong to no episode or entity, in rows {such}"))
        }
        Rule::RelationsBelong => Disagreement::Graph(format!("{count} relations belong to no episode, in rows {such}")),
        Rule::VectorsBelong => Disagreement::Vectors(format!("{count} vectors belong to no episode, in rows {such}")),
        Rule::VectorsHaveModel => Disagreement::Vectors(format!("{count} episodes have vectors of no model: {such}")),
    }
}

/// How the index disagrees with a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    Absent,
    Stranger,
    Facts,
    Words,
    Vectors,
}

impl Fault {
    const ALL: [Self; 5] = [Self::Absent, Self::Stranger, Self::Facts, Self::Words, Self::Vectors];

    fn describe(self) -> &'static str {
        match self {
            Self::Absent => "episodes are not in the search index",
            Self::Stranger => "entries of the search index are no episodes any more",
            Self::Facts => "episodes have another agent, source or date in the search index",
            Self::Words => "episodes have other words in the search index",
            Self::Vectors => "episodes have other vectors in the search index",
        }
    }
}

/// Rows as the database has them, with their vectors of the index's model.
struct Batch {
    rows: Vec<IndexedRow>,
    vectors: BTreeMap<i64, Vec<Vec<f32>>>,
}

/// Compares the search index with the rows.
async fn check_index(memory: &Memory, check: &mut MemoryCheck) -> Result<(), MemoryError> {
    let index = memory.follower().current().await?;
    let here = Arc::clone(&index);
    match blocking(move || here.warm()).await {
        Err(MemoryError::Index(damage)) if damage.is_damage() => {
            check.rebuilt = Some(damage.to_string());
            memory.follower().repair(&index, &damage).await?;
        }
        outcome => outcome?,
    }
    let index = memory.follower().current().await?;
    let mut unseen: BTreeSet<i64> = index.rows().into_iter().map(|(row, _)| number(row)).collect();
    let mut suspects = BTreeSet::new();
    let mut after = 0;
    loop {
        let mut read = memory.context().db.read().await?;
        let rows = indexed_rows_after(&mut read, after, BATCH).await?;
        let Some(last) = rows.last() else { break };
        after = last.number;
        let batch = with_vectors(&mut read, rows, &index).await?;
        drop(read);
        check.episodes += batch.rows.len() as u64;
        check.vectors += batch.vectors.values().map(|vectors| vectors.len() as u64).sum::<u64>();
        for row in &batch.rows {
            unseen.remove(&row.number);
        }
        suspects.extend(compare(&index, batch).await?.into_iter().map(|(row, _)| row));
    }
    suspects.extend(unseen);
    let mut faults = Vec::new();
    for _ in 0..LOOKS {
        if suspects.is_empty() {
            break;
        }
        faults = look_again(memory, &suspects).await?;
        suspects = faults.iter().map(|(row, _)| *row).collect();
    }
    for fault in Fault::ALL {
        let rows: Vec<String> =
            faults.iter().filter(|(_, found)| *found == fault).map(|(row, _)| row.to_string()).collect();
        if !rows.is_empty() {
            let named = rows.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
            let what = format!("{} {}: rows {named}", rows.len(), fault.describe());
            check.disagreements.push(Disagreement::Index(what));
        }
    }
    Ok(())
}

/// Which of the rows disagree although the index has followed everything.
async fn look_again(memory: &Memory, suspects: &BTreeSet<i64>) -> Result<Vec<(i64, Fault)>, MemoryError> {
    let index = memory.follower().current().await?;
    let suspects: Vec<i64> = suspects.iter().copied().collect();
    let mut faults = Vec::new();
    for numbers in suspects.chunks(BATCH as usize) {
        let mut read = memory.context().db.read().await?;
        let rows = indexed_rows(&mut read, numbers).await?;
        let batch = with_vectors(&mut read, rows, &index).await?;
        drop(read);
        let there: HashSet<i64> = batch.rows.iter().map(|row| row.number).collect();
        let strangers = numbers.iter().filter(|row| !there.contains(row) && index.contains(row_number(**row)));
        faults.extend(strangers.map(|row| (*row, Fault::Stranger)));
        faults.extend(compare(&index, batch).await?);
    }
    Ok(faults)
}

async fn with_vectors(read: &mut Read, rows: Vec<IndexedRow>, index: &Index) -> Result<Batch, MemoryError> {
    let model = Some(&index.options().embedding_model);
    let embedded: Vec<i64> =
        rows.iter().filter(|row| row.embedding_model.as_ref() == model).map(|row| row.number).collect();
    let mut vectors: BTreeMap<i64, Vec<Vec<f32>>> = BTreeMap::new();
    for (row, vector) in vectors_of(read, &embedded).await? {
        vectors.entry(row).or_default().push(vector);
    }
    Ok(Batch { rows, vectors })
}

async fn compare(index: &Arc<Index>, batch: Batch) -> Result<Vec<(i64, Fault)>, MemoryError> {
    let index = Arc::clone(index);
    blocking(move || {
        let mut faults = Vec::new();
        for row in &batch.rows {
            let vectors = batch.vectors.get(&row.number).map_or(&[][..], Vec::as_slice);
            if let Some(fault) = fault_of(&index, row, vectors) {
                faults.push((row.number, fault));
            }
        }
        Ok(faults)
    })
    .await
}

fn fault_of(index: &Index, row: &IndexedRow, vectors: &[Vec<f32>]) -> Option<Fault> {
    let Some(held) = index.document(row_number(row.number)) else { return Some(Fault::Absent) };
    let words = analyze(&row.content).iter().filter(|token| token.counts).count();
    let expected = HeldDocument {
        agent: row.agent_id.as_deref().map(agent_key).unwrap_or_default(),
        source: source_key(&row.source),
        occurred_at: row.occurred_at,
        words: u32::try_from(words).unwrap_or(u32::MAX),
    };
    if held != expected {
        let is_of_words = HeldDocument { words: expected.words, ..held } == expected;
        return Some(if is_of_words { Fault::Words } else { Fault::Facts });
    }
    // A row that is gone by now, or a file that was damaged since, is looked at again.
    let held = index.vectors_of(row_number(row.number)).unwrap_or_default();
    let is_same = held.len() == vectors.len() && held.iter().zip(vectors).all(|(held, row)| is_direction(held, row));
    (!is_same).then_some(Fault::Vectors)
}

fn is_direction(one: &[f32], other: &[f32]) -> bool {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    one.len() == other.len() && dot(one, other) >= LEAST_COSINE * (dot(one, one) * dot(other, other)).sqrt()
}

fn number(row: RowNumber) -> i64 {
    i64::try_from(row.0).unwrap_or(0)
}
