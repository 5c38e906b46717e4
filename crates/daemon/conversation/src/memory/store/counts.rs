//! Counters of the statistics. They change in the transaction that changes what they count, so reading them costs a few
//! rows, independent of the amount of data.

use std::collections::BTreeMap;

use agentd_core::rollups::{self, Counter};
use agentd_store::{Args, Read, StoreError, Tx, args};

use crate::memory::model::{Episode, Millionths, importance_bucket};

/// Counted quantity; most have a counter per name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Figure {
    Episodes,
    EpisodesOfAgent,
    EpisodesOfSource,
    EpisodesOfImportance,
    ImportanceSum,
    ValenceSum,
    EntitiesOfType,
    Relations,
    Recalled,
    RecalledAndUsed,
}

impl Figure {
    const ALL: [Self; 10] = [
        Self::Episodes,
        Self::EpisodesOfAgent,
        Self::EpisodesOfSource,
        Self::EpisodesOfImportance,
        Self::ImportanceSum,
        Self::ValenceSum,
        Self::EntitiesOfType,
        Self::Relations,
        Self::Recalled,
        Self::RecalledAndUsed,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Episodes => "episodes",
            Self::EpisodesOfAgent => "episodes_of_agent",
            Self::EpisodesOfSource => "episodes_of_source",
            Self::EpisodesOfImportance => "episodes_of_importance",
            Self::ImportanceSum => "importance_sum",
            Self::ValenceSum => "valence_sum",
            Self::EntitiesOfType => "entities_of_type",
            Self::Relations => "relations",
            Self::Recalled => "recalled",
            Self::RecalledAndUsed => "recalled_and_used",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|figure| figure.as_str() == text)
    }
}

/// Changes to counters, written together.
#[derive(Debug, Default)]
pub(crate) struct CountChanges {
    by_figure: BTreeMap<(Figure, String), i64>,
    /// Number of added episodes.
    came: u64,
}

impl CountChanges {
    pub(crate) fn add(&mut self, figure: Figure, name: &str, amount: i64) {
        *self.by_figure.entry((figure, name.to_owned())).or_default() += amount;
    }

    /// Counts an added (`sign` 1) or deleted (-1) episode.
    pub(crate) fn episode(&mut self, episode: &Episode, sign: i64) {
        self.came += u64::from(sign > 0);
        self.add(Figure::Episodes, "", sign);
        if let Some(agent) = &episode.agent_id {
            self.add(Figure::EpisodesOfAgent, agent.as_str(), sign);
        }
        self.add(Figure::EpisodesOfSource, &episode.source, sign);
        self.importance(episode.importance, sign);
        self.add(Figure::ValenceSum, "", sign * episode.valence.0);
    }

    pub(crate) fn importance(&mut self, importance: Millionths, sign: i64) {
        self.add(Figure::EpisodesOfImportance, &importance_bucket(importance).to_string(), sign);
        self.add(Figure::ImportanceSum, "", sign * importance.0);
    }

    /// Writes the changes in a fixed order, which prevents deadlocks between transactions.
    pub(crate) async fn write(self, tx: &mut Tx) -> Result<(), StoreError> {
        rollups::count(tx, &[(Counter::Episodes, "", self.came)]).await?;
        let changes: Vec<_> = self.by_figure.into_iter().filter(|(_, amount)| *amount != 0).collect();
        for batch in changes.chunks(50) {
            let mut args = Args::new();
            let mut sql = "INSERT INTO memory_counts (kind, name, amount) VALUES ".to_owned();
            for (index, ((figure, name), amount)) in batch.iter().enumerate() {
                let (kind, name, amount) = (args.push(figure.as_str()), args.push(name.as_str()), args.push(*amount));
                let comma = if index == 0 { "" } else { ", " };
                sql.push_str(&format!("{comma}(${kind}, ${name}, ${amount})"));
            }
            sql.push_str(" ON CONFLICT (kind, name) DO UPDATE SET amount = memory_counts.amount + excluded.amount");
            tx.execute(sql, args).await?;
        }
        Ok(())
    }
}

/// Values of all counters.
#[derive(Debug, Default)]
pub(crate) struct Figures(BTreeMap<Figure, BTreeMap<String, i64>>);

impl Figures {
    #[must_use]
    pub(crate) fn get(&self, figure: Figure) -> i64 {
        self.0.get(&figure).map_or(0, |names| names.values().sum())
    }

    /// Returns the counters by name, without those that are 0.
    pub(crate) fn by_name(&self, figure: Figure) -> impl Iterator<Item = (&str, i64)> {
        let names = self.0.get(&figure).into_iter().flatten();
        names.filter(|(_, amount)| **amount != 0).map(|(name, amount)| (name.as_str(), *amount))
    }
}

pub(crate) async fn figures(read: &mut Read) -> Result<Figures, StoreError> {
    let mut figures = Figures::default();
    // Counters per agent are not needed here.
    let sql = "SELECT kind, name, amount FROM memory_counts WHERE kind <> 'episodes_of_agent'";
    for row in read.fetch_all(sql, args![]).await? {
        let Some(figure) = Figure::parse(&row.get::<String>("kind")?) else { continue };
        figures.0.entry(figure).or_default().insert(row.get("name")?, row.get("amount")?);
    }
    Ok(figures)
}

/// Returns all counters as stored, without those that are 0.
pub(crate) async fn stored_figures(read: &mut Read) -> Result<BTreeMap<(String, String), i64>, StoreError> {
    let rows = read.fetch_all("SELECT kind, name, amount FROM memory_counts WHERE amount <> 0", args![]).await?;
    rows.iter().map(|row| Ok(((row.get("kind")?, row.get("name")?), row.get("amount")?))).collect()
}

/// Returns the number of episodes of one agent or of all.
pub(crate) async fn count_episodes(read: &mut Read, agent: Option<&str>) -> Result<u64, StoreError> {
    let kind = if agent.is_some() { Figure::EpisodesOfAgent } else { Figure::Episodes };
    let sql = "SELECT amount FROM memory_counts WHERE kind = $1 AND name = $2";
    let row = read.fetch_optional(sql, args![kind.as_str(), agent.unwrap_or_default()]).await?;
    row.map_or(Ok(0), |row| row.get("amount"))
}
