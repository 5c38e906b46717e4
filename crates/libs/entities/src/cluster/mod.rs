//! Clustering of vectors by direction (spherical k-means), and keywords that distinguish the clusters.
//!
//! Invariants:
//! - Deterministic: a fixed seed, sums in a fixed order, ties to the lower index.
//! - Bounded: centroids are computed on a sample of at most [`MAX_SAMPLE`] vectors, then each vector is assigned once.
//! - Every cluster has a member. There are fewer clusters than requested if the vectors have fewer directions, and none
//!   without vectors.
//!
//! A zero vector has no direction; it is equally close to all centroids and is assigned to the first one, before clusters are sorted by size.

mod kmeans;
mod labels;
mod vectors;

pub use kmeans::{Clustering, MAX_CLUSTERS, MAX_SAMPLE, MIN_CLUSTERS, cluster};
pub use labels::{ClusterLabel, TermCount, labels};
pub use vectors::{Centroids, Vectors};
