//! Spherical k-means (Dhillon and Modha, 2001) with k-means++ seeding (Arthur and Vassilvitskii, 2007) on a sample.

use super::vectors::{Centroids, Vectors, dot, normalize};

pub const MIN_CLUSTERS: usize = 2;
pub const MAX_CLUSTERS: usize = 8;
/// Maximum number of vectors from which the centroids are computed.
pub const MAX_SAMPLE: usize = 8_192;
const MAX_ROUNDS: usize = 24;
/// Number of initializations without earlier centroids; the best result is used.
const INITIALIZATIONS: u64 = 3;
/// Cosine above which directions count as equal.
const MIN_EQUAL_COSINE: f32 = 0.999_99;
const SEED: u64 = 0x5eed_c1a5_7e25;

/// Result of a clustering.
#[derive(Debug, Clone, PartialEq)]
pub struct Clustering {
    pub centroids: Centroids,
    /// Cluster index of each vector.
    pub assignments: Vec<usize>,
    /// Number of vectors in each cluster; never 0.
    pub sizes: Vec<usize>,
}

/// SplitMix64 (Steele, Lea and Flood, 2014) with a fixed seed, for reproducible results.
struct Sequence(u64);

impl Sequence {
    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number from 0 up to, but excluding, 1.
    #[allow(clippy::cast_precision_loss, reason = "53 bits fit")]
    fn next_unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Groups `vectors` into at most `count` clusters (clamped to [`MIN_CLUSTERS`] and [`MAX_CLUSTERS`]).
///
/// With `earlier` centroids of the same dimensions, the run starts from them, and cluster `i` continues cluster `i`
/// unless one has no members left. Otherwise, the largest cluster comes first.
#[must_use]
pub fn cluster(vectors: Vectors<'_>, count: usize, earlier: Option<&Centroids>) -> Clustering {
    let dimensions = vectors.dimensions();
    let count = count.clamp(MIN_CLUSTERS, MAX_CLUSTERS);
    let none = Centroids { values: Vec::new(), dimensions };
    if vectors.is_empty() {
        return Clustering { centroids: none, assignments: Vec::new(), sizes: Vec::new() };
    }
    let sample = sample(vectors);
    let earlier = earlier.filter(|earlier| earlier.dimensions == dimensions && !earlier.is_empty());
    let centroids = match earlier {
        Some(earlier) => {
            let kept = earlier.values.iter().take(count * dimensions).copied().collect();
            let mut sequence = Sequence(SEED);
            let start = seed(&sample, dimensions, count, Centroids { values: kept, dimensions }, &mut sequence);
            iterate(&sample, start).0
        }
        None => (0..INITIALIZATIONS)
            .map(|beginning| {
                let mut sequence = Sequence(SEED ^ beginning);
                iterate(&sample, seed(&sample, dimensions, count, none.clone(), &mut sequence))
            })
            .reduce(|best, other| if other.1 > best.1 { other } else { best })
            .map_or(none, |(centroids, _)| centroids),
    };
    let assignments = centroids.assign(vectors);
    arrange(centroids, assignments, earlier.is_none())
}

/// Returns unit vectors: all, or an evenly spaced sample with jitter, so that periodic input does not bias it.
fn sample(vectors: Vectors<'_>) -> Vec<f32> {
    let (length, dimensions) = (vectors.len(), vectors.dimensions());
    let size = length.min(MAX_SAMPLE);
    let mut sample = vec![0.0; size * dimensions];
    let mut sequence = Sequence(SEED);
    for (at, into) in sample.chunks_exact_mut(dimensions.max(1)).enumerate() {
        let (from, to) = (at * length / size, (at + 1) * length / size);
        let width = u64::try_from(to - from).unwrap_or(1).max(1);
        let jitter = usize::try_from(sequence.next() % width).unwrap_or_default();
        vectors.read_unit(from + jitter, into);
    }
    sample
}

/// Adds centroids to `start` until there are `count`, each chosen with a probability that grows with its distance from
/// the existing ones.
fn seed(sample: &[f32], dimensions: usize, count: usize, start: Centroids, sequence: &mut Sequence) -> Centroids {
    let mut centroids = start;
    let units: Vec<&[f32]> = sample.chunks_exact(dimensions).collect();
    let mut distances: Vec<f64> = vec![1.0; units.len()];
    let lower = |distances: &mut Vec<f64>, centroid: &[f32], is_first: bool| {
        for (distance, unit) in distances.iter_mut().zip(&units) {
            let cosine = dot(unit, centroid);
            let own = if cosine > MIN_EQUAL_COSINE { 0.0 } else { f64::from(1.0 - cosine) };
            *distance = if is_first { own } else { distance.min(own) };
        }
    };
    let known: Vec<Vec<f32>> = centroids.iter().map(<[f32]>::to_vec).collect();
    for (index, centroid) in known.iter().enumerate() {
        lower(&mut distances, centroid, index == 0);
    }
    while centroids.len() < count {
        let total: f64 = distances.iter().sum();
        if total <= 0.0 {
            break;
        }
        let mut left = sequence.next_unit() * total;
        let picked = distances
            .iter()
            .position(|distance| {
                left -= distance;
                left < 0.0 && *distance > 0.0
            })
            .or_else(|| distances.iter().rposition(|distance| *distance > 0.0));
        let Some(picked) = picked else { break };
        let is_first = centroids.is_empty();
        centroids.values.extend_from_slice(units[picked]);
        lower(&mut distances, units[picked], is_first);
        // A vector without direction does not justify another cluster.
        if is_first {
            for (distance, unit) in distances.iter_mut().zip(&units) {
                if unit.iter().all(|value| *value == 0.0) {
                    *distance = 0.0;
                }
            }
        }
    }
    centroids
}

/// Alternates assignment and averaging until nothing changes; returns the sum of cosines as a quality measure.
fn iterate(sample: &[f32], start: Centroids) -> (Centroids, f64) {
    let mut centroids = start;
    let dimensions = centroids.dimensions;
    let mut assignments = vec![usize::MAX; sample.len() / dimensions.max(1)];
    let mut quality = 0.0;
    if centroids.is_empty() {
        return (centroids, quality);
    }
    for _ in 0..MAX_ROUNDS {
        let mut moved = false;
        quality = 0.0;
        let mut sums = vec![0.0_f32; centroids.values.len()];
        let mut sizes = vec![0usize; centroids.len()];
        let mut farthest: (f32, usize) = (f32::INFINITY, 0);
        for (index, unit) in sample.chunks_exact(dimensions).enumerate() {
            let (nearest, cosine) = centroids.nearest(unit);
            moved |= std::mem::replace(&mut assignments[index], nearest) != nearest;
            quality += f64::from(cosine);
            sizes[nearest] += 1;
            sums[nearest * dimensions..(nearest + 1) * dimensions]
                .iter_mut()
                .zip(unit)
                .for_each(|(sum, value)| *sum += value);
            if cosine < farthest.0 && unit.iter().any(|value| *value != 0.0) {
                farthest = (cosine, index);
            }
        }
        if !moved {
            break;
        }
        let mut may_reseed = farthest.0 < MIN_EQUAL_COSINE;
        for (at, sum) in sums.chunks_exact_mut(dimensions).enumerate() {
            normalize(sum);
            let has_direction = sum.iter().any(|value| *value != 0.0);
            let into = &mut centroids.values[at * dimensions..(at + 1) * dimensions];
            if sizes[at] > 0 && has_direction {
                into.copy_from_slice(sum);
            } else if sizes[at] == 0 && may_reseed {
                // A cluster without members is restarted at the vector with the worst fit.
                into.copy_from_slice(&sample[farthest.1 * dimensions..(farthest.1 + 1) * dimensions]);
                may_reseed = false;
            }
        }
    }
    (centroids, quality)
}

/// Drops clusters without members and, if requested, sorts by size.
fn arrange(centroids: Centroids, assignments: Vec<usize>, by_size: bool) -> Clustering {
    let dimensions = centroids.dimensions;
    let mut sizes = vec![0usize; centroids.len().max(1)];
    for assignment in &assignments {
        sizes[*assignment] += 1;
    }
    let mut order: Vec<usize> = (0..sizes.len()).filter(|index| sizes[*index] > 0).collect();
    if by_size {
        order.sort_by(|a, b| sizes[*b].cmp(&sizes[*a]).then(a.cmp(b)));
    }
    let mut position = vec![0; sizes.len()];
    order.iter().enumerate().for_each(|(new, old)| position[*old] = new);
    let values = order
        .iter()
        .flat_map(|old| match centroids.values.get(old * dimensions..(old + 1) * dimensions) {
            Some(values) => values.to_vec(),
            None => vec![0.0; dimensions],
        })
        .collect();
    Clustering {
        centroids: Centroids { values, dimensions },
        assignments: assignments.into_iter().map(|old| position[old]).collect(),
        sizes: order.iter().map(|old| sizes[*old]).collect(),
    }
}
