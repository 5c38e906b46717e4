//! How episodes fall into groups by the directions of their vectors.
//!
//! A function of what the index holds and of nothing else: the same memory has the same clusters after a
//! restart and on every replica, and their ids carry a fingerprint of it. The centres are found on a sample
//! that is picked by the numbers of the rows, so one more episode changes little; then each vector is looked
//! at once. What was computed is kept until the index changes, as a cache.

use std::fmt;
use std::sync::{Arc, Weak};

use agentd_entities::cluster::{Centroids, ClusterLabel, MAX_CLUSTERS, MAX_SAMPLE, MIN_CLUSTERS, Vectors, cluster};
use agentd_search_index::{AgentKey, Index, IndexError, RowNumber};
use tokio::sync::{Mutex, OnceCell};

use super::error::MemoryError;
use super::follower::blocking;

/// Of each cluster so many of the rows nearest to its centre are known by name.
pub(super) const NEAREST: usize = 100;
/// Clusterings that are kept; at a million episodes each has 9 MB.
const KEPT: usize = 4;
/// Memory that changes all the time is looked at so often; then the ids of what was found do not last.
const ATTEMPTS: usize = 3;

/// What is grouped, and into how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scope {
    pub(super) agent: Option<AgentKey>,
    pub(super) count: usize,
}

/// Names a cluster for as long as memory stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ClusterId {
    pub(super) scope: Scope,
    pub(super) fingerprint: u64,
    pub(super) place: usize,
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No agent has the key 0.
        let agent = self.scope.agent.unwrap_or_default().0;
        write!(f, "cl_{agent:016x}{:016x}{}{}", self.fingerprint, self.scope.count, self.place)
    }
}

impl ClusterId {
    /// `None` for what no cluster was ever called.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix("cl_").filter(|digits| digits.len() == 34 && digits.is_ascii())?;
        let hexadecimal = |digits: &str| u64::from_str_radix(digits, 16).ok();
        let small = |digits: &str| digits.parse::<usize>().ok();
        let agent = Some(AgentKey(hexadecimal(&digits[..16])?)).filter(|agent| *agent != AgentKey::default());
        let count = small(&digits[32..33]).filter(|count| (MIN_CLUSTERS..=MAX_CLUSTERS).contains(count))?;
        let scope = Scope { agent, count };
        let id = Self { scope, fingerprint: hexadecimal(&digits[16..32])?, place: small(&digits[33..])? };
        // One spelling alone: signs and capitals parse as well.
        (id.to_string() == text).then_some(id)
    }
}

/// How the rows of one state of the index fall into clusters, the largest cluster first.
#[derive(Debug)]
pub(super) struct Clustered {
    index: Weak<Index>,
    revision: u64,
    scope: Scope,
    fingerprint: u64,
    /// Ascending.
    rows: Vec<RowNumber>,
    /// Of each row.
    places: Vec<u8>,
    sizes: Vec<usize>,
    /// Of each cluster, the nearest to its centre first.
    nearest: Vec<Vec<RowNumber>>,
    pub(super) labels: OnceCell<Vec<ClusterLabel>>,
}

impl Clustered {
    pub(super) fn total(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    pub(super) fn nearest(&self, place: usize) -> &[RowNumber] {
        self.nearest.get(place).map_or(&[], Vec::as_slice)
    }

    pub(super) fn id(&self, place: usize) -> ClusterId {
        ClusterId { scope: self.scope, fingerprint: self.fingerprint, place }
    }

    pub(super) fn holds(&self, id: &ClusterId) -> bool {
        self.scope == id.scope && self.fingerprint == id.fingerprint && id.place < self.sizes.len()
    }

    /// The rows of a cluster, ascending.
    pub(super) fn members(&self, place: usize) -> impl Iterator<Item = RowNumber> + '_ {
        self.rows.iter().zip(&self.places).filter(move |(_, of)| usize::from(**of) == place).map(|(row, _)| *row)
    }

    /// The next rows of a cluster that are not among its nearest, ascending; `at` is where to go on.
    pub(super) fn others(&self, place: usize, at: &mut usize, limit: usize) -> Vec<RowNumber> {
        let nearest = self.nearest(place);
        let mut found = Vec::new();
        while found.len() < limit && *at < self.rows.len() {
            let row = self.rows[*at];
            if usize::from(self.places[*at]) == place && !nearest.contains(&row) {
                found.push(row);
            }
            *at += 1;
        }
        found
    }

    fn is_of(&self, index: &Arc<Index>, scope: Scope) -> bool {
        self.scope == scope
            && std::ptr::eq(self.index.as_ptr(), Arc::as_ptr(index))
            && self.revision == index.revision()
    }
}

/// What was computed last.
#[derive(Debug, Default)]
pub(super) struct Clusterings(Mutex<Vec<Arc<Clustered>>>);

impl Clusterings {
    /// The clusters of the index as it is now. One computation at a time: it takes a core for a while.
    pub(super) async fn get(&self, index: &Arc<Index>, scope: Scope) -> Result<Arc<Clustered>, MemoryError> {
        let mut kept = self.0.lock().await;
        if let Some(found) = kept.iter().find(|clustered| clustered.is_of(index, scope)) {
            return Ok(Arc::clone(found));
        }
        let here = Arc::clone(index);
        let clustered = Arc::new(blocking(move || compute(&here, scope)).await?);
        kept.retain(|old| old.scope != scope);
        kept.insert(0, Arc::clone(&clustered));
        kept.truncate(KEPT);
        Ok(clustered)
    }
}

fn compute(index: &Arc<Index>, scope: Scope) -> Result<Clustered, IndexError> {
    let mut attempt = 1;
    loop {
        let revision = index.revision();
        let mut clustered = compute_once(index, scope, revision)?;
        if index.revision() == revision {
            return Ok(clustered);
        }
        if attempt == ATTEMPTS {
            // Of no state that was ever there as a whole: nothing may be found by it later.
            clustered.fingerprint = !clustered.fingerprint;
            return Ok(clustered);
        }
        attempt += 1;
    }
}

fn compute_once(index: &Arc<Index>, scope: Scope, revision: u64) -> Result<Clustered, IndexError> {
    let all = index.rows_with_vectors(scope.agent);
    let dimensions = index.options().dimensions;
    let mut values = Vec::with_capacity(all.len().min(MAX_SAMPLE) * dimensions);
    index.visit_vectors(&sample(&all), |_, direction| values.extend_from_slice(direction))?;
    let centroids = cluster(Vectors::F32 { values: &values, dimensions }, scope.count, None).centroids;
    drop(values);

    let mut fingerprint = Fingerprint::new(&index.options().embedding_model);
    let mut rows = Vec::with_capacity(all.len());
    let mut places: Vec<u8> = Vec::with_capacity(all.len());
    let mut nearest: Vec<Nearest> = (0..centroids.len().max(1)).map(|_| Nearest::default()).collect();
    let mut sizes = vec![0_usize; nearest.len()];
    index.visit_vectors(&all, |row, direction| {
        let (place, cosine) = locate(&centroids, direction);
        fingerprint.add(row, direction);
        sizes[place] += 1;
        nearest[place].add(cosine, row);
        rows.push(row);
        places.push(u8::try_from(place).unwrap_or(u8::MAX));
    })?;
    let mut order: Vec<usize> = (0..sizes.len()).filter(|place| sizes[*place] > 0).collect();
    order.sort_by(|one, other| sizes[*other].cmp(&sizes[*one]).then(one.cmp(other)));
    let mut renamed = vec![0; sizes.len()];
    for (new, old) in (0_u8..).zip(&order) {
        renamed[*old] = new;
    }
    for place in &mut places {
        *place = renamed[usize::from(*place)];
    }
    Ok(Clustered {
        index: Arc::downgrade(index),
        revision,
        scope,
        fingerprint: fingerprint.0,
        rows,
        places,
        sizes: order.iter().map(|old| sizes[*old]).collect(),
        nearest: order.iter().map(|old| std::mem::take(&mut nearest[*old]).finish()).collect(),
        labels: OnceCell::new(),
    })
}

/// Without centres there is one group.
fn locate(centroids: &Centroids, direction: &[f32]) -> (usize, f32) {
    centroids.locate(direction).unwrap_or((0, 0.0))
}

/// All, or those whose numbers have the smallest hashes; ascending.
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

/// Differs as soon as a row, one of its numbers, or the model does.
struct Fingerprint(u64);

impl Fingerprint {
    fn new(model: &str) -> Self {
        Self(model.bytes().fold(0, |hash, byte| mix(hash ^ u64::from(byte))))
    }

    fn add(&mut self, row: RowNumber, direction: &[f32]) {
        let mut hash = mix(self.0 ^ row.0);
        let (pairs, rest) = direction.as_chunks::<2>();
        for [one, other] in pairs {
            hash = step(hash, u64::from(one.to_bits()) << 32 | u64::from(other.to_bits()));
        }
        for number in rest {
            hash = step(hash, u64::from(number.to_bits()));
        }
        self.0 = mix(hash);
    }
}

/// One multiplication a word: a hundred thousand vectors are read in the time of a search.
const fn step(hash: u64, word: u64) -> u64 {
    (hash.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95)
}

/// The best of many, without keeping them all.
#[derive(Default)]
struct Nearest(Vec<(f32, RowNumber)>);

impl Nearest {
    fn add(&mut self, cosine: f32, row: RowNumber) {
        self.0.push((cosine, row));
        if self.0.len() >= 16 * NEAREST {
            self.shorten();
        }
    }

    fn shorten(&mut self) {
        self.0.sort_unstable_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
        self.0.truncate(NEAREST);
    }

    fn finish(mut self) -> Vec<RowNumber> {
        self.shorten();
        self.0.into_iter().map(|(_, row)| row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_one_spelling() {
        for (agent, count, place) in [(0, 2, 0), (u64::MAX, 8, 7), (77, 4, 3)] {
            let agent = Some(AgentKey(agent)).filter(|agent| agent.0 != 0);
            let id = ClusterId { scope: Scope { agent, count }, fingerprint: 0xabc, place };
            assert_eq!(ClusterId::parse(&id.to_string()), Some(id), "{id}");
        }
        let good = ClusterId { scope: Scope { agent: None, count: 4 }, fingerprint: 0xabc, place: 1 }.to_string();
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
    fn a_sample_changes_little_when_one_row_comes() {
        let rows = |count: u64| (1..=count).map(RowNumber).collect::<Vec<_>>();
        assert_eq!(sample(&rows(100)), rows(100));
        let (before, after) = (sample(&rows(50_000)), sample(&rows(50_001)));
        assert_eq!((before.len(), after.len()), (MAX_SAMPLE, MAX_SAMPLE));
        assert!(before.is_sorted());
        let common = before.iter().filter(|row| after.binary_search(row).is_ok()).count();
        assert!(common >= MAX_SAMPLE - 1, "{common}");
    }

    #[test]
    fn a_fingerprint_tells_states_apart() {
        let of = |model: &str, vectors: &[(u64, [f32; 3])]| {
            let mut fingerprint = Fingerprint::new(model);
            vectors.iter().for_each(|(row, vector)| fingerprint.add(RowNumber(*row), vector));
            fingerprint.0
        };
        let known = of("m", &[(1, [1.0, 0.0, 0.0]), (2, [0.0, 1.0, 0.0])]);
        assert_eq!(known, of("m", &[(1, [1.0, 0.0, 0.0]), (2, [0.0, 1.0, 0.0])]));
        for other in [
            of("n", &[(1, [1.0, 0.0, 0.0]), (2, [0.0, 1.0, 0.0])]),
            of("m", &[(1, [1.0, 0.0, 0.0])]),
            of("m", &[(1, [1.0, 0.0, 0.0]), (3, [0.0, 1.0, 0.0])]),
            of("m", &[(1, [1.0, 0.0, 0.0]), (2, [0.0, 0.0, 1.0])]),
            of("m", &[]),
        ] {
            assert_ne!(known, other);
        }
    }

    #[test]
    fn the_nearest_are_kept() {
        let mut nearest = Nearest::default();
        for number in 0..10_000_u16 {
            nearest.add(f32::from(number % 5_000), RowNumber(u64::from(number)));
        }
        let rows = nearest.finish();
        assert_eq!(
            (rows.len(), rows[0], rows[1], rows[2]),
            (NEAREST, RowNumber(4_999), RowNumber(9_999), RowNumber(4_998))
        );
    }
}
