//! Input vectors, and unit vectors for comparisons.

/// Number of lanes of a sum: fixed, so that every machine adds in the same order.
const LANES: usize = 16;

/// Consecutive vectors of `dimensions` numbers each; an incomplete last one is ignored. Only their directions are used,
/// so the scale of int8 vectors is not needed.
#[derive(Debug, Clone, Copy)]
pub enum Vectors<'a> {
    F32 { values: &'a [f32], dimensions: usize },
    Int8 { values: &'a [i8], dimensions: usize },
}

impl Vectors<'_> {
    #[must_use]
    pub const fn dimensions(&self) -> usize {
        match self {
            Self::F32 { dimensions, .. } | Self::Int8 { dimensions, .. } => *dimensions,
        }
    }

    /// Returns the number of vectors.
    #[must_use]
    pub fn len(&self) -> usize {
        let values = match self {
            Self::F32 { values, .. } => values.len(),
            Self::Int8 { values, .. } => values.len(),
        };
        values.checked_div(self.dimensions()).unwrap_or_default()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes vector `index` at unit length; zeros if it has no direction (all zeros, or not finite).
    pub(super) fn read_unit(&self, index: usize, into: &mut [f32]) {
        let range = index * into.len()..(index + 1) * into.len();
        match self {
            Self::F32 { values, .. } => match values.get(range) {
                Some(values) => into.copy_from_slice(values),
                None => into.fill(0.0),
            },
            Self::Int8 { values, .. } => match values.get(range) {
                Some(values) => into.iter_mut().zip(values).for_each(|(to, from)| *to = f32::from(*from)),
                None => into.fill(0.0),
            },
        }
        normalize(into);
    }
}

/// Scales to length 1; vectors without direction become zeros.
pub(super) fn normalize(vector: &mut [f32]) {
    let largest = vector.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
    if !largest.is_finite() || largest <= 0.0 || vector.iter().any(|value| !value.is_finite()) {
        vector.fill(0.0);
        return;
    }
    // Divides by the largest value first, so that squares neither overflow nor underflow.
    vector.iter_mut().for_each(|value| *value /= largest);
    let length = dot(vector, vector).sqrt();
    vector.iter_mut().for_each(|value| *value /= length);
}

pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0.0_f32; LANES];
    let (a_chunks, b_chunks) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest: f32 = a_chunks.remainder().iter().zip(b_chunks.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in a_chunks.zip(b_chunks) {
        for lane in 0..LANES {
            lanes[lane] += a[lane] * b[lane];
        }
    }
    lanes.iter().sum::<f32>() + rest
}

/// Centroids of clusters, each of unit length.
#[derive(Debug, Clone, PartialEq)]
pub struct Centroids {
    pub(super) values: Vec<f32>,
    pub(super) dimensions: usize,
}

impl Centroids {
    /// Restores stored values; `None` unless they are complete vectors of finite numbers.
    #[must_use]
    pub fn from_values(values: Vec<f32>, dimensions: usize) -> Option<Self> {
        let is_whole = dimensions > 0 && values.len().is_multiple_of(dimensions);
        (is_whole && values.iter().all(|value| value.is_finite())).then(|| {
            let mut values = values;
            values.chunks_exact_mut(dimensions).for_each(normalize);
            Self { values, dimensions }
        })
    }

    /// Returns the consecutive values, for storage.
    #[must_use]
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    #[must_use]
    pub const fn dimensions(&self) -> usize {
        self.dimensions
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len().checked_div(self.dimensions).unwrap_or_default()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[f32]> {
        self.values.chunks_exact(self.dimensions.max(1))
    }

    /// Returns the index of the nearest centroid for each vector, without a new run. Vectors with another number of
    /// dimensions, and all vectors if there are no centroids, are assigned to 0.
    #[must_use]
    pub fn assign(&self, vectors: Vectors<'_>) -> Vec<usize> {
        if vectors.dimensions() != self.dimensions || self.is_empty() {
            return vec![0; vectors.len()];
        }
        let mut unit = vec![0.0; self.dimensions];
        (0..vectors.len())
            .map(|index| {
                vectors.read_unit(index, &mut unit);
                self.nearest(&unit).0
            })
            .collect()
    }

    /// Returns the nearest centroid of one vector, and the cosine between the two; `None` without centroids, or for
    /// another number of dimensions.
    #[must_use]
    pub fn locate(&self, vector: &[f32]) -> Option<(usize, f32)> {
        if self.is_empty() || vector.len() != self.dimensions {
            return None;
        }
        let mut unit = vec![0.0; self.dimensions];
        Vectors::F32 { values: vector, dimensions: self.dimensions }.read_unit(0, &mut unit);
        Some(self.nearest(&unit))
    }

    /// Returns the centroid with the largest cosine with `unit`, and the cosine.
    pub(super) fn nearest(&self, unit: &[f32]) -> (usize, f32) {
        let mut best = (0, f32::NEG_INFINITY);
        for (index, centroid) in self.iter().enumerate() {
            let cosine = dot(unit, centroid);
            if cosine > best.1 {
                best = (index, cosine);
            }
        }
        best
    }
}
