//! Consistency check of memory: compares the search index, the counters and the entity graph with the rows they are
//! derived from.
//!
//! The check runs concurrently with other work and takes no locks. A row that changes during the check is compared
//! again before it is reported. The check repairs nothing.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use agentd_search_index::{Index, IndexedDocument, RowNumber, analyze};
use agentd_store::Read;
use serde::{Deserialize, Serialize};

use super::error::MemoryError;
use super::follower::{agent_key, blocking, row_number, source_key};
use super::service::Memory;
use super::store::counts::stored_figures;
use super::store::episodes::{IndexedRow, indexed_rows, indexed_rows_after, vectors_of};
use super::store::recount::{Rule, Violation, find_violations, is_counted_by_rows, recounted_figures};

const BATCH_SIZE: u32 = 500;
/// Maximum number of comparisons of a row. The index is brought up to date before each, so a row that differs every
/// time is not a change in progress.
const MAX_COMPARISONS: usize = 5;
/// Maximum number of row numbers listed in a disagreement.
const MAX_LISTED_ROWS: usize = 5;
/// Minimum cosine between a stored vector and its indexed copy. The index keeps 16 bits per component, so a smaller
/// cosine means another vector.
const MIN_COSINE: f64 = 0.999;

/// Result of a consistency check.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct MemoryCheck {
    /// Number of episodes looked up in the index.
    pub episodes: u64,
    /// Number of vectors compared.
    pub vectors: u64,
    /// Number of counters recounted.
    pub figures: u64,
    /// Reason why the search index was rebuilt before the comparison; `None` if it was intact.
    pub rebuilt: Option<String>,
    pub disagreements: Vec<Disagreement>,
}

/// Inconsistency between derived data and its source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "in", content = "what", rename_all = "snake_case")]
pub enum Disagreement {
    /// Between the search index and the rows.
    Index(String),
    /// Between stored counters and a recount.
    Figures(String),
    /// Between entities and relations and what episodes mention.
    Graph(String),
    /// Between vectors and episodes.
    Vectors(String),
}

impl Memory {
    /// Compares all derived data with the rows.
    ///
    /// # Errors
    /// The index cannot be opened, or the database fails. Disagreements are part of the result, not errors.
    pub async fn check(&self) -> Result<MemoryCheck, MemoryError> {
        let mut check = MemoryCheck::default();
        check_index(self, &mut check).await?;
        // One snapshot of the database for all sums.
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
        for broken in find_violations(&mut read).await? {
            check.disagreements.push(disagreement(&broken));
        }
        Ok(check)
    }
}

impl MemoryCheck {
    fn compare_figure(&mut self, (kind, name): &(String, String), kept: i64, recounted: i64) {
        if kept != recounted {
            let label = if name.is_empty() { String::new() } else { format!(" of `{name}`") };
            let what = format!("`{kind}`{label} is {kept}, expected {recounted}");
            self.disagreements.push(Disagreement::Figures(what));
        }
    }
}

fn disagreement(broken: &Violation) -> Disagreement {
    let Violation { rule, count, named } = broken;
    let names = named.join(", ");
    match rule {
        Rule::Mentions => Disagreement::Graph(format!("{count} entities have wrong mention counts: {names}")),
        Rule::Relations => Disagreement::Graph(format!("{count} relations have wrong weights: {names}")),
        Rule::MentionsBelong => {
            Disagreement::Graph(format!("{count} mentions have no episode or no entity: rows {names}"))
        }
        Rule::RelationsBelong => Disagreement::Graph(format!("{count} relations have no episode: rows {names}")),
        Rule::VectorsBelong => Disagreement::Vectors(format!("{count} vectors have no episode: rows {names}")),
        Rule::VectorsHaveModel => {
            Disagreement::Vectors(format!("{count} episodes have vectors without a model: {names}"))
        }
    }
}

/// Inconsistency between the index and a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum IndexFault {
    Missing,
    Orphan,
    Metadata,
    Terms,
    Vectors,
}

impl IndexFault {
    const ALL: [Self; 5] = [Self::Missing, Self::Orphan, Self::Metadata, Self::Terms, Self::Vectors];

    fn describe(self) -> &'static str {
        match self {
            Self::Missing => "episodes are missing from the search index",
            Self::Orphan => "search index entries have no episode",
            Self::Metadata => "episodes have a different agent, source or date in the search index",
            Self::Terms => "episodes have different terms in the search index",
            Self::Vectors => "episodes have different vectors in the search index",
        }
    }
}

/// Rows of the database with their vectors for the index's model.
struct Batch {
    rows: Vec<IndexedRow>,
    vectors: BTreeMap<i64, Vec<Vec<f32>>>,
}

/// Compares the search index with the rows.
async fn check_index(memory: &Memory, check: &mut MemoryCheck) -> Result<(), MemoryError> {
    let index = memory.follower().current().await?;
    let shared = Arc::clone(&index);
    match blocking(move || shared.warm()).await {
        Err(MemoryError::Index(damage)) if damage.is_damage() => {
            check.rebuilt = Some(damage.to_string());
            memory.follower().repair(&index, &damage).await?;
        }
        outcome => outcome?,
    }
    let index = memory.follower().current().await?;
    let mut unmatched: BTreeSet<i64> = index.rows().into_iter().map(|(row, _)| number(row)).collect();
    let mut suspects = BTreeSet::new();
    let mut after = 0;
    loop {
        let mut read = memory.context().db.read().await?;
        let rows = indexed_rows_after(&mut read, after, BATCH_SIZE).await?;
        let Some(last) = rows.last() else { break };
        after = last.number;
        let batch = with_vectors(&mut read, rows, &index).await?;
        drop(read);
        check.episodes += batch.rows.len() as u64;
        check.vectors += batch.vectors.values().map(|vectors| vectors.len() as u64).sum::<u64>();
        for row in &batch.rows {
            unmatched.remove(&row.number);
        }
        suspects.extend(compare(&index, batch).await?.into_iter().map(|(row, _)| row));
    }
    suspects.extend(unmatched);
    let mut faults = Vec::new();
    for _ in 0..MAX_COMPARISONS {
        if suspects.is_empty() {
            break;
        }
        faults = recheck_suspects(memory, &suspects).await?;
        suspects = faults.iter().map(|(row, _)| *row).collect();
    }
    for fault in IndexFault::ALL {
        let rows: Vec<String> =
            faults.iter().filter(|(_, found)| *found == fault).map(|(row, _)| row.to_string()).collect();
        if !rows.is_empty() {
            let named = rows.iter().take(MAX_LISTED_ROWS).cloned().collect::<Vec<_>>().join(", ");
            let what = format!("{} {}: rows {named}", rows.len(), fault.describe());
            check.disagreements.push(Disagreement::Index(what));
        }
    }
    Ok(())
}

/// Compares suspects again after the index caught up, and returns those that still differ.
async fn recheck_suspects(memory: &Memory, suspects: &BTreeSet<i64>) -> Result<Vec<(i64, IndexFault)>, MemoryError> {
    let index = memory.follower().current().await?;
    let suspects: Vec<i64> = suspects.iter().copied().collect();
    let mut faults = Vec::new();
    for numbers in suspects.chunks(BATCH_SIZE as usize) {
        let mut read = memory.context().db.read().await?;
        let rows = indexed_rows(&mut read, numbers).await?;
        let batch = with_vectors(&mut read, rows, &index).await?;
        drop(read);
        let existing: HashSet<i64> = batch.rows.iter().map(|row| row.number).collect();
        let orphans = numbers.iter().filter(|row| !existing.contains(row) && index.contains(row_number(**row)));
        faults.extend(orphans.map(|row| (*row, IndexFault::Orphan)));
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

async fn compare(index: &Arc<Index>, batch: Batch) -> Result<Vec<(i64, IndexFault)>, MemoryError> {
    let index = Arc::clone(index);
    blocking(move || {
        let mut faults = Vec::new();
        for row in &batch.rows {
            let vectors = batch.vectors.get(&row.number).map_or(&[][..], Vec::as_slice);
            if let Some(fault) = find_fault(&index, row, vectors) {
                faults.push((row.number, fault));
            }
        }
        Ok(faults)
    })
    .await
}

fn find_fault(index: &Index, row: &IndexedRow, vectors: &[Vec<f32>]) -> Option<IndexFault> {
    let Some(indexed) = index.document(row_number(row.number)) else { return Some(IndexFault::Missing) };
    let words = analyze(&row.content).iter().filter(|token| token.is_counted).count();
    let expected = IndexedDocument {
        agent: row.agent_id.as_deref().map(agent_key).unwrap_or_default(),
        source: source_key(&row.source),
        occurred_at: row.occurred_at,
        words: u32::try_from(words).unwrap_or(u32::MAX),
    };
    if indexed != expected {
        let is_of_words = IndexedDocument { words: expected.words, ..indexed } == expected;
        return Some(if is_of_words { IndexFault::Terms } else { IndexFault::Metadata });
    }
    // A row deleted meanwhile, or a file damaged since, is compared again.
    let indexed = index.vectors_of(row_number(row.number)).unwrap_or_default();
    let is_same = indexed.len() == vectors.len()
        && indexed.iter().zip(vectors).all(|(indexed, row)| is_same_direction(indexed, row));
    (!is_same).then_some(IndexFault::Vectors)
}

fn is_same_direction(one: &[f32], other: &[f32]) -> bool {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    one.len() == other.len() && dot(one, other) >= MIN_COSINE * (dot(one, one) * dot(other, other)).sqrt()
}

fn number(row: RowNumber) -> i64 {
    i64::try_from(row.0).unwrap_or(0)
}
