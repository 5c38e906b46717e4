//! Clusters of episodes and their labels.

use std::collections::HashSet;
use std::sync::Arc;

use agentd_base::Page;
use agentd_engine::agents::AgentId;
use agentd_entities::cluster::{ClusterLabel, TermCount, labels};
use agentd_search_index::{AgentKey, Index, RowNumber, Token, analyze};
use futures_util::{Stream, StreamExt};

use super::Memory;
use crate::memory::clustering::{ClusterId, Clustering, Scope};
use crate::memory::error::MemoryError;
use crate::memory::follower::{agent_key, blocking};
use crate::memory::model::{Episode, EpisodeId};
use crate::memory::store::episodes;

const MAX_KEYWORDS: usize = 8;
/// Maximum number of episodes, evenly spread, whose beginnings supply the keywords of a cluster.
const MAX_SAMPLED_EPISODES: usize = 200;
const MAX_SAMPLED_CHARACTERS: u32 = 1_000;
/// Number of episode ids of a cluster per page.
const MEMBERS_PAGE_SIZE: usize = 500;

/// Episodes with similar meanings.
#[derive(Debug)]
pub struct Cluster {
    pub id: String,
    pub label: ClusterLabel,
    pub size: u64,
    clustered: Arc<Clustering>,
    position: usize,
}

impl Memory {
    /// Returns up to `count` clusters, the largest first, and the total number of clustered episodes: those that have
    /// vectors.
    ///
    /// # Errors
    /// The agent is unknown, or the index or the database fails.
    pub async fn clusters(&self, count: usize, agent: Option<&str>) -> Result<(Vec<Cluster>, u64), MemoryError> {
        let agent = match agent {
            Some(agent) => Some(agent_key(self.agent(agent).await?.as_str())),
            None => None,
        };
        let (_, clustered) = self.clustered(Scope { agent, count }).await?;
        let labels = clustered.labels.get_or_try_init(|| self.labels(&clustered)).await?;
        let view = |(position, label): (usize, &ClusterLabel)| Cluster {
            id: clustered.id(position).to_string(),
            label: label.clone(),
            size: clustered.sizes()[position] as u64,
            clustered: Arc::clone(&clustered),
            position,
        };
        Ok((labels.iter().enumerate().map(view).collect(), clustered.total() as u64))
    }

    /// Streams the ids of a cluster's episodes in pages: the nearest to its centroid first, then the others, oldest
    /// first.
    pub fn members(&self, cluster: &Cluster) -> impl Stream<Item = Result<Vec<EpisodeId>, MemoryError>> + Send + use<> {
        let (memory, clustered, position) = (self.clone(), Arc::clone(&cluster.clustered), cluster.position);
        let nearest = clustered.nearest(position).to_vec();
        let mut at = 0;
        let others = std::iter::from_fn(move || {
            let others = clustered.other_members(position, &mut at, MEMBERS_PAGE_SIZE);
            (!others.is_empty()).then_some(others)
        });
        futures_util::stream::iter(std::iter::once(nearest).chain(others)).then(move |rows| {
            let memory = memory.clone();
            async move {
                let numbers: Vec<i64> = rows.iter().map(number).collect();
                let mut ids = episodes::ids_by_number(&mut memory.context().db.read().await?, &numbers).await?;
                Ok(numbers.iter().filter_map(|number| ids.remove(number)).collect())
            }
        })
    }

    /// Returns a page of the cluster's episodes, newest first, and their total number; only those of `agent`, if given.
    pub(super) async fn list_cluster(
        &self,
        id: &str,
        agent: Option<&AgentId>,
        page: Page,
    ) -> Result<(Vec<Episode>, u64), MemoryError> {
        let missing = || MemoryError::NoCluster { id: id.to_owned() };
        let id = ClusterId::parse(id).ok_or_else(missing)?;
        let (index, clustered) = self.clustered(id.scope).await?;
        if !clustered.contains(&id) {
            return Err(missing());
        }
        let agent = agent.map(|agent| agent_key(agent.as_str()));
        let mut members: Vec<RowNumber> = clustered.members(id.position).collect();
        if let Some(agent) = agent.filter(|agent| id.scope.agent != Some(*agent)) {
            retain_of_agent(&mut members, &index, agent);
        }
        let total = members.len() as u64;
        let offset = usize::try_from(page.offset).unwrap_or(usize::MAX);
        let numbers: Vec<i64> = members.iter().rev().skip(offset).take(page.limit as usize).map(number).collect();
        Ok((episodes::episodes_by_number(&mut self.context().db.read().await?, &numbers).await?, total))
    }

    async fn clustered(&self, scope: Scope) -> Result<(Arc<Index>, Arc<Clustering>), MemoryError> {
        let index = self.follower().current().await?;
        match self.clusterings().get(&index, scope).await {
            Err(MemoryError::Index(damage)) if damage.is_damage() => {
                self.follower().repair(&index, &damage).await?;
                let index = self.follower().current().await?;
                let clustered = self.clusterings().get(&index, scope).await?;
                Ok((index, clustered))
            }
            clustered => Ok((index, clustered?)),
        }
    }

    async fn labels(&self, clustered: &Clustering) -> Result<Vec<ClusterLabel>, MemoryError> {
        let mut read = self.context().db.read().await?;
        let mut texts: Vec<Vec<String>> = Vec::new();
        for (position, size) in clustered.sizes().iter().enumerate() {
            let gap = size.div_ceil(MAX_SAMPLED_EPISODES).max(1);
            let numbers: Vec<i64> = clustered.members(position).step_by(gap).map(|row| number(&row)).collect();
            texts.push(
                episodes::list_beginnings(&mut read, &numbers, MAX_SAMPLED_CHARACTERS).await?.into_values().collect(),
            );
        }
        drop(read);
        blocking(move || Ok(label_clusters(&texts))).await
    }
}

fn retain_of_agent(members: &mut Vec<RowNumber>, index: &Index, agent: AgentKey) {
    let of_agent: HashSet<RowNumber> = index.rows_with_vectors(Some(agent)).into_iter().collect();
    members.retain(|row| of_agent.contains(row));
}

fn number(row: &RowNumber) -> i64 {
    i64::try_from(row.0).unwrap_or(0)
}

fn label_clusters(texts: &[Vec<String>]) -> Vec<ClusterLabel> {
    let analyzed: Vec<Vec<(&str, Vec<Token>)>> =
        texts.iter().map(|texts| texts.iter().map(|text| (text.as_str(), analyze(text))).collect()).collect();
    let counted = analyzed.iter().map(|texts| {
        texts.iter().flat_map(|(text, tokens)| {
            tokens.iter().filter(|token| is_word(token)).map(|token| TermCount {
                term: &token.term,
                shown: text.get(token.range.clone()).unwrap_or(&token.term),
                count: 1,
            })
        })
    });
    labels(counted, MAX_KEYWORDS)
}

/// Scripts without word separators (Thai and later Unicode blocks) are more informative in pairs of characters.
fn is_word(token: &Token) -> bool {
    let length = token.term.chars().count();
    let is_pair = length == 2 && token.term.chars().all(|character| u32::from(character) >= 0x0e00);
    !token.is_stop_word && length >= 2 && (token.is_counted || is_pair)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_distinctive_words_of_each_cluster() {
        let texts = [
            vec!["We baked bread in the new oven.", "Bread again; the oven is hot.", "My bread rose well."],
            vec!["昨日東京都に行きました", "東京都は大きい"],
            vec!["ภาษาไทยสวย", "ภาษาไทย"],
            vec!["the of and", "1 2 3"],
        ]
        .map(|texts| texts.into_iter().map(str::to_owned).collect());
        let labels = label_clusters(&texts);
        assert!(labels[0].keywords.contains(&"bread".to_owned()) && labels[0].keywords.contains(&"oven".to_owned()));
        assert!(labels[1].keywords.iter().any(|word| word == "東京"), "{:?}", labels[1]);
        assert!(labels[2].keywords.len() > 1, "{:?}", labels[2]);
        assert_eq!(labels[3].label, "Other");
    }
}
