//! Rows of episodes, vectors, entities and counters. Each change of an episode is counted and recorded in the change
//! log of the search indexes, in the same transaction.

pub(super) mod agents;
pub(super) mod conversations;
pub(super) mod counts;
pub(super) mod entities;
pub(super) mod episodes;
pub(super) mod facts;
pub(super) mod forgotten;
pub(super) mod jobs;
pub(super) mod recalls;
pub(super) mod recount;
pub(super) mod toggles;

use agentd_store::{Args, ChangeLog};

/// Change log of episodes that the search indexes follow.
pub(super) const EPISODES: ChangeLog = ChangeLog::new("memory.episodes");

/// SQL condition of an episode whose agent was not deleted. Rows of deleted agents are hidden and not counted before
/// they are purged.
const NOT_DELETED: &str =
    "NOT EXISTS (SELECT 1 FROM agents WHERE agents.id = episodes.agent_id AND agents.deleted_at IS NOT NULL)";

/// Pushes the values and returns their placeholders, `$n, $n+1, …`.
fn placeholders<T: agentd_store::IntoValue>(args: &mut Args, values: impl IntoIterator<Item = T>) -> String {
    let placeholders: Vec<String> = values.into_iter().map(|value| format!("${}", args.push(value))).collect();
    placeholders.join(", ")
}
