//! Groups of vectors by direction (spherical k-means), and words that tell one group from another.
//!
//! Invariants
//! - Deterministic: a fixed seed, sums in a fixed order, ties to the lower index.
//! - Bounded: centroids are found on a sample of at most [`MAX_SAMPLE`] vectors, then each vector is
//!   looked at once.
//! - Every cluster has a member. There are fewer than asked for where the vectors have fewer
//!   directions, none without vectors.
//!
//! A vector of zeros has no direction; it is as near to one cluster as to another, and joins the first
//! of the run.

mod kmeans;
mod labels;
mod vectors;

pub use kmeans::{Clustering, MAX_CLUSTERS, MAX_SAMPLE, MIN_CLUSTERS, cluster};
pub use labels::{ClusterLabel, TermCount, labels};
pub use vectors::{Centroids, Vectors};
