//! Recounts of counters and sums from the rows, for the consistency check.

use std::collections::BTreeMap;

use agentd_store::{Read, StoreError, args};

use super::NOT_DELETED;
use super::counts::Figure;
use super::episodes::BUCKET;

/// Maximum number of names listed per broken rule.
const MAX_LISTED_ROWS: u32 = 5;

/// Recounts everything in `memory_counts` that rows determine, under the same keys.
pub(crate) async fn recounted_figures(read: &mut Read) -> Result<BTreeMap<(String, String), i64>, StoreError> {
    let mut figures = BTreeMap::new();
    let of_episodes = |name: &str, amount: &str, group: &str| {
        format!("SELECT {name} AS name, {amount} AS amount FROM episodes WHERE {NOT_DELETED} {group}")
    };
    let sum = |column: &str| of_episodes("''", &format!("CAST(COALESCE(SUM({column}), 0) AS BIGINT)"), "");
    let bucket = format!("CAST({BUCKET} AS TEXT)");
    for (figure, sql) in [
        (Figure::Episodes, of_episodes("''", "COUNT(*)", "")),
        (Figure::EpisodesOfAgent, of_episodes("agent_id", "COUNT(*)", "AND agent_id IS NOT NULL GROUP BY agent_id")),
        (Figure::EpisodesOfSource, of_episodes("source", "COUNT(*)", "GROUP BY source")),
        (Figure::EpisodesOfImportance, of_episodes(&bucket, "COUNT(*)", &format!("GROUP BY {BUCKET}"))),
        (Figure::ImportanceSum, sum("importance")),
        (Figure::ValenceSum, sum("valence")),
        (
            Figure::EntitiesOfType,
            "SELECT entity_type AS name, COUNT(*) AS amount FROM entities GROUP BY entity_type".to_owned(),
        ),
        (Figure::Relations, "SELECT '' AS name, COUNT(*) AS amount FROM entity_relations".to_owned()),
    ] {
        for row in read.fetch_all(sql, args![]).await? {
            let amount: i64 = row.get("amount")?;
            if amount != 0 {
                figures.insert((figure.as_str().to_owned(), row.get("name")?), amount);
            }
        }
    }
    Ok(figures)
}

/// Returns whether a counter can be recounted from rows.
pub(crate) fn is_counted_by_rows(kind: &str) -> bool {
    ![Figure::Recalled, Figure::RecalledAndUsed].iter().any(|figure| figure.as_str() == kind)
}

/// Rule that rows violate.
#[derive(Debug)]
pub(crate) struct Violation {
    pub(crate) rule: Rule,
    pub(crate) count: u64,
    /// Names of some of the rows.
    pub(crate) named: Vec<String>,
}

/// Invariant between the tables of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    Mentions,
    Relations,
    MentionsBelong,
    RelationsBelong,
    VectorsBelong,
    VectorsHaveModel,
}

impl Rule {
    const ALL: [Self; 6] = [
        Self::Mentions,
        Self::Relations,
        Self::MentionsBelong,
        Self::RelationsBelong,
        Self::VectorsBelong,
        Self::VectorsHaveModel,
    ];

    /// Selects the names of the rows that violate the rule.
    fn broken(self) -> &'static str {
        match self {
            Self::Mentions => {
                "SELECT e.name AS name, e.number AS place FROM entities e LEFT JOIN (SELECT entity, SUM(mentions) AS \
                 mentions FROM episode_entities GROUP BY entity) m ON m.entity = e.number \
                 WHERE COALESCE(m.mentions, 0) <> e.mentions OR e.mentions <= 0"
            }
            // Matches relations that exist in only one of the tables or differ in weight.
            Self::Relations => {
                "SELECT relation_type AS name, source AS place FROM (\
                 SELECT source, target, relation_type, weight, episodes FROM entity_relations \
                 UNION ALL SELECT source, target, relation_type, -SUM(weight), -COUNT(*) FROM episode_relations \
                 GROUP BY source, target, relation_type) AS both_sides GROUP BY source, target, relation_type \
                 HAVING SUM(weight) <> 0 OR SUM(episodes) <> 0"
            }
            Self::MentionsBelong => {
                "SELECT CAST(m.episode AS TEXT) AS name, m.episode AS place FROM episode_entities m \
                 WHERE NOT EXISTS (SELECT 1 FROM episodes WHERE episodes.number = m.episode) \
                 OR NOT EXISTS (SELECT 1 FROM entities WHERE entities.number = m.entity)"
            }
            Self::RelationsBelong => {
                "SELECT CAST(r.episode AS TEXT) AS name, r.episode AS place FROM episode_relations r \
                 WHERE NOT EXISTS (SELECT 1 FROM episodes WHERE episodes.number = r.episode)"
            }
            Self::VectorsBelong => {
                "SELECT CAST(v.episode AS TEXT) AS name, v.episode AS place FROM episode_vectors v \
                 WHERE NOT EXISTS (SELECT 1 FROM episodes WHERE episodes.number = v.episode)"
            }
            Self::VectorsHaveModel => {
                "SELECT e.id AS name, e.number AS place FROM episodes e WHERE e.embedding_model IS NULL \
                 AND EXISTS (SELECT 1 FROM episode_vectors v WHERE v.episode = e.number)"
            }
        }
    }
}

/// Returns all violated rules.
pub(crate) async fn find_violations(read: &mut Read) -> Result<Vec<Violation>, StoreError> {
    let mut found = Vec::new();
    for rule in Rule::ALL {
        let broken = rule.broken();
        let count: u64 =
            read.fetch_one(format!("SELECT COUNT(*) FROM ({broken}) AS broken"), args![]).await?.first()?;
        if count == 0 {
            continue;
        }
        let some = format!("SELECT name FROM ({broken}) AS broken ORDER BY place LIMIT $1");
        let rows = read.fetch_all(some, args![MAX_LISTED_ROWS]).await?;
        let named = rows.iter().map(|row| row.get("name")).collect::<Result<_, StoreError>>()?;
        found.push(Violation { rule, count, named });
    }
    Ok(found)
}
