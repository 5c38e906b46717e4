//! Proves that what is derived agrees with the rows: the search index, the figures, the graph.
//!
//! Runs beside everything else: nothing is locked, and what memory changes meanwhile is looked at again
//! before it is said to disagree. It repairs nothing.

mod index;

use serde::{Deserialize, Serialize};

use super::error::MemoryError;
use super::service::Memory;
use super::store::counts::stored_figures;
use super::store::recount::{Broken, Rule, broken_rules, is_counted_by_rows, recounted_figures};

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
        index::check(self, &mut check).await?;
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
