//! Clustering of regular vectors, and defined behaviour for irregular ones.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use agentd_entities::cluster::{Centroids, Clustering, TermCount, Vectors, cluster, labels};
use proptest::prelude::*;

const DIMENSIONS: usize = 24;

/// Returns `each` vectors around each of `groups` directions, alternating, with a little reproducible noise.
fn grouped(groups: usize, each: usize) -> Vec<f32> {
    let mut state = 7_u32;
    let mut noise = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (f32::from(u16::try_from(state >> 16).unwrap()) / 65_536.0 - 0.5) * 0.3
    };
    (0..groups * each)
        .flat_map(|index| {
            (0..DIMENSIONS).map(|at| f32::from(u8::from(at == index % groups)) + noise()).collect::<Vec<_>>()
        })
        .collect()
}

fn f32s(values: &[f32]) -> Vectors<'_> {
    Vectors::F32 { values, dimensions: DIMENSIONS }
}

fn int8(values: &[f32]) -> Vec<i8> {
    #[allow(clippy::cast_possible_truncation, reason = "held in range")]
    values.iter().map(|value| (value * 80.0).clamp(-127.0, 127.0) as i8).collect()
}

/// Asserts that each cluster contains exactly one group.
fn assert_separates(clustering: &Clustering, groups: usize, each: usize) {
    assert_eq!(clustering.sizes, vec![each; groups]);
    for (index, assignment) in clustering.assignments.iter().enumerate() {
        assert_eq!(*assignment, clustering.assignments[index % groups]);
    }
}

#[test]
fn groups_are_found_in_both_vector_types() {
    for groups in 2..=8 {
        let values = grouped(groups, 40);
        assert_separates(&cluster(f32s(&values), groups, None), groups, 40);
        let small = int8(&values);
        assert_separates(&cluster(Vectors::Int8 { values: &small, dimensions: DIMENSIONS }, groups, None), groups, 40);
    }
}

#[test]
fn all_vectors_beyond_the_sample_are_assigned() {
    let values = grouped(4, 5_000);
    assert_separates(&cluster(f32s(&values), 4, None), 4, 5_000);
}

#[test]
fn clustering_is_deterministic() {
    let values = grouped(5, 30);
    assert_eq!(cluster(f32s(&values), 3, None), cluster(f32s(&values), 3, None));
}

#[test]
fn largest_cluster_comes_first() {
    let values = [grouped(2, 10), grouped(1, 25)].concat();
    assert_eq!(cluster(f32s(&values), 2, None).sizes, [35, 10]);
}

#[test]
fn new_vectors_are_assigned_and_a_new_run_continues_the_clusters() {
    let values = grouped(4, 30);
    let first = cluster(f32s(&values), 4, None);
    let stored = Centroids::from_values(first.centroids.values().to_vec(), DIMENSIONS).unwrap();
    let more = grouped(4, 33);
    let joined = stored.assign(f32s(&more));
    assert_eq!(joined[..4], first.assignments[..4]);
    let second = cluster(f32s(&more), 4, Some(&stored));
    assert_eq!(second.assignments, joined);
    // An additional cluster does not move the others.
    let third = cluster(f32s(&grouped(5, 30)), 5, Some(&stored));
    assert_eq!(third.assignments[..4], first.assignments[..4]);
    assert_eq!(third.sizes, [30; 5]);
}

#[test]
fn locate_matches_assign() {
    let values = grouped(4, 30);
    let clustering = cluster(f32s(&values), 4, None);
    for (vector, assigned) in values.chunks_exact(DIMENSIONS).zip(&clustering.assignments) {
        let (located, cosine) = clustering.centroids.locate(vector).unwrap();
        assert_eq!(located, *assigned);
        assert!(cosine > 0.5 && cosine <= 1.0001, "{cosine}");
    }
    assert_eq!(clustering.centroids.locate(&[1.0]), None);
    assert_eq!(cluster(f32s(&[]), 4, None).centroids.locate(&values[..DIMENSIONS]), None);
}

#[test]
fn degenerate_input_is_defined() {
    let none = cluster(f32s(&[]), 4, None);
    assert!(none.assignments.is_empty() && none.sizes.is_empty() && none.centroids.is_empty());
    let one = cluster(f32s(&grouped(1, 1)), 4, None);
    assert_eq!((one.assignments, one.sizes), (vec![0], vec![1]));
    let same = grouped(1, 1).repeat(50);
    assert_eq!(cluster(f32s(&same), 4, None).sizes, [50]);
    let zeros = vec![0.0; DIMENSIONS * 5];
    assert_eq!(cluster(f32s(&zeros), 4, None).sizes, [5]);
    let broken = vec![f32::NAN; DIMENSIONS * 3];
    assert_eq!(cluster(f32s(&broken), 4, None).sizes, [3]);
    let no_dimensions = cluster(Vectors::F32 { values: &[1.0], dimensions: 0 }, 4, None);
    assert!(no_dimensions.assignments.is_empty());
    let three = cluster(f32s(&grouped(3, 1)), 8, None);
    assert_eq!(three.sizes, [1, 1, 1]);
    assert!(Centroids::from_values(vec![1.0; 5], 2).is_none());
    assert!(Centroids::from_values(vec![f32::INFINITY; 4], 2).is_none());
    // Centroids of another model are not used as a start.
    let other = Centroids::from_values(vec![1.0; 4], 2).unwrap();
    assert_eq!(cluster(f32s(&grouped(2, 9)), 2, Some(&other)).sizes, [9, 9]);
}

#[test]
fn labels_distinguish_clusters() {
    let count = |term, shown, count| TermCount { term, shown, count };
    let cooking = [
        count("bread", "bread", 9),
        count("bread", "Bread", 2),
        count("oven", "oven", 5),
        count("week", "week", 30),
        count("the", "the", 90),
        count("12", "12", 40),
    ];
    let running =
        [count("run", "running", 9), count("shoe", "shoes", 5), count("week", "week", 31), count("the", "the", 80)];
    let labelled = labels([cooking.to_vec(), running.to_vec(), Vec::new()], 3);
    assert_eq!(labelled[0].label, "bread, week, oven");
    assert!(labelled[1].keywords.contains(&"running".to_owned()));
    assert_eq!((labelled[2].label.as_str(), labelled[2].keywords.len()), ("Other", 0));
    assert_eq!(labels(Vec::<Vec<TermCount<'_>>>::new(), 3), []);
}

#[test]
fn common_words_rank_below_specific_ones() {
    let count = |term, count| TermCount { term, shown: term, count };
    let clusters: Vec<_> =
        ["bread", "shoes", "rust", "violin"].map(|own| vec![count(own, 10), count("week", 12)]).into();
    for (label, own) in labels(clusters, 2).iter().zip(["bread", "shoes", "rust", "violin"]) {
        assert_eq!(label.label, format!("{own}, week"));
    }
}

proptest! {
    #[test]
    fn any_vectors_are_clustered(values in prop::collection::vec(prop_oneof![5 => -2.0_f32..2.0, 1 => any::<f32>(), 2 => Just(0.0)], 0..400), dimensions in 0_usize..9, count in 0_usize..12) {
        let vectors = Vectors::F32 { values: &values, dimensions };
        let clustering = cluster(vectors, count, None);
        prop_assert_eq!(clustering.assignments.len(), vectors.len());
        prop_assert!(clustering.sizes.len() <= count.clamp(2, 8));
        prop_assert_eq!(clustering.centroids.len(), if dimensions == 0 { 0 } else { clustering.sizes.len() });
        for (cluster, size) in clustering.sizes.iter().enumerate() {
            prop_assert!(*size > 0);
            prop_assert_eq!(clustering.assignments.iter().filter(|assigned| **assigned == cluster).count(), *size);
        }
        let again = cluster(vectors, count, Some(&clustering.centroids));
        prop_assert_eq!(again.assignments.len(), vectors.len());
    }
}
