//! Clustering of episodes by the directions of their vectors.
//!
//! The result depends only on the contents of the index: the same memory has the same clusters after a restart and on
//! every replica. Cluster ids carry a fingerprint of those contents. Centroids are computed on a sample chosen by row
//! number, so one more episode changes little; then each vector is assigned once. Results are cached until the index
//! changes.

use std::fmt;
use std::sync::{Arc, Weak};

use agentd_entities::cluster::{Centroids, ClusterLabel, MAX_CLUSTERS, MAX_SAMPLE, MIN_CLUSTERS, Vectors, cluster};
use agentd_search_index::{AgentKey, Index, IndexError, RowNumber};
use tokio::sync::{Mutex, OnceCell};

use super::error::MemoryError;
use super::follower::blocking;

/// Number of rows nearest to the centroid that are retained for each cluster.
pub(super) const MAX_NEAREST: usize = 100;
/// Maximum number of cached clusterings; one of a million episodes takes 9 MB.
const MAX_CACHED: usize = 4;
/// Maximum number of attempts while the index keeps changing. After the last one the cluster ids are not reusable.
const MAX_ATTEMPTS: usize = 3;

/// Agent and number of clusters of a clustering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scope {
    pub(super) agent: Option<AgentKey>,
    pub(super) count: usize,
}

/// Identifies a cluster until memory changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ClusterId {
    pub(super) scope: Scope,
    pub(super) fingerprint: u64,
    pub(super) position: usize,
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No agent has the key 0.
        let agent = self.scope.agent.unwrap_or_default().0;
        write!(f, "cl_{agent:016x}{:016x}{}{}", self.fingerprint, self.scope.count, self.position)
    }
}

impl ClusterId {
    /// Returns `None` if the text is not a valid cluster id.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix("cl_").filter(|digits| digits.len() == 34 && digits.is_ascii())?;
        let hexadecimal = |digits: &str| u64::from_str_radix(digits, 16).ok();
        let small = |digits: &str| digits.parse::<usize>().ok();
        let agent = Some(AgentKey(hexadecimal(&digits[..16])?)).filter(|agent| *agent != AgentKey::default());
        let count = small(&digits[32..33]).filter(|count| (MIN_CLUSTERS..=MAX_CLUSTERS).contains(count))?;
        let scope = Scope { agent, count };
        let id = Self { scope, fingerprint: hexadecimal(&digits[16..32])?, position: small(&digits[33..])? };
        // Rejects other spellings of the same numbers, such as signs and capitals.
        (id.to_string() == text).then_some(id)
    }
}

/// Clusters of one revision of the index, the largest first.
#[derive(Debug)]
pub(super) struct Clustering {
    index: Weak<Index>,
    revision: u64,
    scope: Scope,
    fingerprint: u64,
    /// Ascending.
    rows: Vec<RowNumber>,
    /// Cluster of each row.
    positions: Vec<u8>,
    sizes: Vec<usize>,
    /// Rows nearest to the centroid of each cluster, the nearest first.
    nearest: Vec<Vec<RowNumber>>,
    pub(super) labels: OnceCell<Vec<ClusterLabel>>,
}

impl Clustering {
    pub(super) fn total(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    pub(super) fn nearest(&self, position: usize) -> &[RowNumber] {
        self.nearest.get(position).map_or(&[], Vec::as_slice)
    }

    pub(super) fn id(&self, position: usize) -> ClusterId {
        ClusterId { scope: self.scope, fingerprint: self.fingerprint, position }
    }

    pub(super) fn contains(&self, id: &ClusterId) -> bool {
        self.scope == id.scope && self.fingerprint == id.fingerprint && id.position < self.sizes.len()
    }

    /// Returns the rows of a cluster in ascending order.
    pub(super) fn members(&self, position: usize) -> impl Iterator<Item = RowNumber> + '_ {
        self.rows
            .iter()
            .zip(&self.positions)
            .filter(move |(_, cluster)| usize::from(**cluster) == position)
            .map(|(row, _)| *row)
    }

    /// Returns the next rows of a cluster that are not among its nearest, in ascending order. `at` is the position to
    /// continue from.
    pub(super) fn other_members(&self, position: usize, at: &mut usize, limit: usize) -> Vec<RowNumber> {
        let nearest = self.nearest(position);
        let mut found = Vec::new();
        while found.len() < limit && *at < self.rows.len() {
            let row = self.rows[*at];
            if usize::from(self.positions[*at]) == position && !nearest.contains(&row) {
                found.push(row);
            }
            *at += 1;
        }
        found
    }

    fn is_current_for(&self, index: &Arc<Index>, scope: Scope) -> bool {
        self.scope == scope
            && std::ptr::eq(self.index.as_ptr(), Arc::as_ptr(index))
            && self.revision == index.revision()
    }
}

/// Cache of the latest clusterings.
#[derive(Debug, Default)]
pub(super) struct ClusteringCache(Mutex<Vec<Arc<Clustering>>>);

impl ClusteringCache {
    /// Returns the clusters of the current index. Only one computation runs at a time, because it occupies a core.
    pub(super) async fn get(&self, index: &Arc<Index>, scope: Scope) -> Result<Arc<Clustering>, MemoryError> {
        let mut cached = self.0.lock().await;
        if let Some(found) = cached.iter().find(|clustered| clustered.is_current_for(index, scope)) {
            return Ok(Arc::clone(found));
        }
        let shared = Arc::clone(index);
        let clustered = Arc::new(blocking(move || compute(&shared, scope)).await?);
        cached.retain(|old| old.scope != scope);
        cached.insert(0, Arc::clone(&clustered));
        cached.truncate(MAX_CACHED);
        Ok(clustered)
    }
}

fn compute(index: &Arc<Index>, scope: Scope) -> Result<Clustering, IndexError> {
    let mut attempt = 1;
    loop {
        let revision = index.revision();
        let mut clustered = compute_once(index, scope, revision)?;
        if index.revision() == revision {
            return Ok(clustered);
        }
        if attempt == MAX_ATTEMPTS {
            // The index changed during the computation, so this result matches no revision and its ids must not be
            // found later.
            clustered.fingerprint = !clustered.fingerprint;
            return Ok(clustered);
        }
        attempt += 1;
    }
}

fn compute_once(index: &Arc<Index>, scope: Scope, revision: u64) -> Result<Clustering, IndexError> {
    let all = index.rows_with_vectors(scope.agent);
    let dimensions = index.options().dimensions;
    let mut values = Vec::with_capacity(all.len().min(MAX_SAMPLE) * dimensions);
    index.visit_vectors(&sample(&all), |_, direction| values.extend_from_slice(direction))?;
    let centroids = cluster(Vectors::F32 { values: &values, dimensions }, scope.count, None).centroids;
    drop(values);

    let mut fingerprint = Fingerprint::new(&index.options().embedding_model);
    let mut rows = Vec::with_capacity(all.len());
    let mut positions: Vec<u8> = Vec::with_capacity(all.len());
    let mut nearest: Vec<Nearest> = (0..centroids.len().max(1)).map(|_| Nearest::default()).collect();
    let mut sizes = vec![0_usize; nearest.len()];
    index.visit_vectors(&all, |row, direction| {
        let (position, cosine) = locate(&centroids, direction);
        fingerprint.add(row, direction);
        sizes[position] += 1;
        nearest[position].add(cosine, row);
        rows.push(row);
        positions.push(u8::try_from(position).unwrap_or(u8::MAX));
    })?;
    let mut order: Vec<usize> = (0..sizes.len()).filter(|position| sizes[*position] > 0).collect();
    order.sort_by(|one, other| sizes[*other].cmp(&sizes[*one]).then(one.cmp(other)));
    let mut renamed = vec![0; sizes.len()];
    for (new, old) in (0_u8..).zip(&order) {
        renamed[*old] = new;
    }
    for position in &mut positions {
        *position = renamed[usize::from(*position)];
    }
    Ok(Clustering {
        index: Arc::downgrade(index),
        revision,
        scope,
        fingerprint: fingerprint.0,
        rows,
        positions,
        sizes: order.iter().map(|old| sizes[*old]).collect(),
        nearest: order.iter().map(|old| std::mem::take(&mut nearest[*old]).finish()).collect(),
        labels: OnceCell::new(),
    })
}

/// Without centroids all rows belong to one cluster.
fn locate(centroids: &Centroids, direction: &[f32]) -> (usize, f32) {
    centroids.locate(direction).unwrap_or((0, 0.0))
}

/// Returns all rows, or those with the smallest hashes of their numbers; in ascending order.
fn sample(rows: &[RowNumber]) -> Vec<RowNumber> {
    if rows.len() <= MAX_SAMPLE {
        return rows.to_vec();
    }
    let mut hashed: Vec<(u64, RowNumber)> = rows.iter().map(|row| (mix(row.0), *row)).collect();
    hashed.select_nth_unstable(MAX_SAMPLE);
    hashed.truncate(MAX_SAMPLE);
    let mut rows: Vec<RowNumber> = hashed.into_iter().map(|(_, row)| row).collect();
    rows.sort_unstable();
    rows
}

/// The finalizer of SplitMix64 (Steele, Lea and Flood, 2014).
const fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// Hash of the model, the rows and their vectors.
struct Fingerprint(u64);

impl Fingerprint {
    fn new(model: &str) -> Self {
        Self(model.bytes().fold(0, |hash, byte| mix(hash ^ u64::from(byte))))
    }

    fn add(&mut self, row: RowNumber, direction: &[f32]) {
        let mut hash = mix(self.0 ^ row.0);
        let (pairs, rest) = direction.as_chunks::<2>();
        for [one, other] in pairs {
            hash = hash_word(hash, u64::from(one.to_bits()) << 32 | u64::from(other.to_bits()));
        }
        for number in rest {
            hash = hash_word(hash, u64::from(number.to_bits()));
        }
        self.0 = mix(hash);
    }
}

/// Uses one multiplication per word, so hashing a hundred thousand vectors takes about as long as a search.
const fn hash_word(hash: u64, word: u64) -> u64 {
    (hash.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95)
}

/// Collects the rows with the highest cosines without storing all of them.
#[derive(Default)]
struct Nearest(Vec<(f32, RowNumber)>);

impl Nearest {
    fn add(&mut self, cosine: f32, row: RowNumber) {
        self.0.push((cosine, row));
        if self.0.len() >= 16 * MAX_NEAREST {
            self.truncate_to_nearest();
        }
    }

    fn truncate_to_nearest(&mut self) {
        self.0.sort_unstable_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
        self.0.truncate(MAX_NEAREST);
    }

    fn finish(mut self) -> Vec<RowNumber> {
        self.truncate_to_nearest();
        self.0.into_iter().map(|(_, row)| row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cluster_id_parses_only_its_canonical_spelling() {
        for (agent, count, position) in [(0, 2, 0), (u64::MAX, 8, 7), (77, 4, 3)] {
            let agent = Some(AgentKey(agent)).filter(|agent| agent.0 != 0);
            let id = ClusterId { scope: Scope { agent, count }, fingerprint: 0xabc, position };
            assert_eq!(ClusterId::parse(&id.to_string()), Some(id), "{id}");
        }
        let good = ClusterId { scope: Scope { agent: None, count: 4 }, fingerprint: 0xabc, position: 1 }.to_string();
        let zeros = "0".repeat(32);
        for bad in [
            "",
            "cl_",
            "nonsense",
            &good.to_uppercase(),
            &good[..good.len() - 1],
            &format!("{good}0"),
            &format!("cl_{zeros}90"),
            &format!("cl_{zeros}10"),
            &format!("cl_{zeros}4+"),
            &format!("cl_+{}41", &zeros[1..]),
            &format!("cl_{}é41", &zeros[2..]),
        ] {
            assert_eq!(ClusterId::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn sample_changes_by_at_most_one_row_when_a_row_is_added() {
        let rows = |count: u64| (1..=count).map(RowNumber).collect::<Vec<_>>();
        assert_eq!(sample(&rows(100)), rows(100));
        let (before, after) = (sample(&rows(50_000)), sample(&rows(50_001)));
        assert_eq!((before.len(), after.len()), (MAX_SAMPLE, MAX_SAMPLE));
        assert!(before.is_sorted());
        let common = before.iter().filter(|row| after.binary_search(row).is_ok()).count();
        assert!(common >= MAX_SAMPLE - 1, "{common}");
    }

    #[test]
    fn fingerprint_differs_when_model_row_or_vector_differs() {
        let fingerprint_of = |model: &str, vectors: &[(u64, [f32; 3])]| {
            let mut fingerprint = Fingerprint::new(model);
            vectors.iter().for_each(|(row, vector)| fingerprint.add(RowNumber(*row), vector));
            fingerprint.0
        };
        let known = fingerprint_of("m", &[(1, [1.0, 0.0, 0.0]), (2, [0.0, 1.0, 0.0])]);
        assert_eq!(known, fingerprint_of("m", &[(1, [1.0, 0.0, 0.0]), (2, [0.0, 1.0, 0.0])]));
        for other in [
            fingerprint_of("n", &[(1, [1.0, 0.0, 0.0]), (2, [0.0, 1.0, 0.0])]),
            fingerprint_of("m", &[(1, [1.0, 0.0, 0.0])]),
            fingerprint_of("m", &[(1, [1.0, 0.0, 0.0]), (3, [0.0, 1.0, 0.0])]),
            fingerprint_of("m", &[(1, [1.0, 0.0, 0.0]), (2, [0.0, 0.0, 1.0])]),
            fingerprint_of("m", &[]),
        ] {
            assert_ne!(known, other);
        }
    }

    #[test]
    fn nearest_rows_are_retained() {
        let mut nearest = Nearest::default();
        for number in 0..10_000_u16 {
            nearest.add(f32::from(number % 5_000), RowNumber(u64::from(number)));
        }
        let rows = nearest.finish();
        assert_eq!(
            (rows.len(), rows[0], rows[1], rows[2]),
            (MAX_NEAREST, RowNumber(4_999), RowNumber(9_999), RowNumber(4_998))
        );
    }
}
