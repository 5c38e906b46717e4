//! Statistics: minimum, median, maximum, percentiles.

/// Sorted sample.
#[derive(Debug, Clone)]
pub struct Sample(Vec<f64>);

impl Sample {
    #[must_use]
    pub fn new(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        Self(values)
    }

    /// Returns the value below which `share` (0 to 1) of the sample lies; 0 for an empty sample.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "an index")]
    pub fn percentile(&self, share: f64) -> f64 {
        let last = self.0.len().saturating_sub(1);
        let index = (last as f64 * share).ceil() as usize;
        self.0.get(index.min(last)).copied().unwrap_or_default()
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[must_use]
    pub fn median(&self) -> f64 {
        self.percentile(0.5)
    }
}

impl std::fmt::Display for Sample {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "min {:.2}  median {:.2}  max {:.2}", self.percentile(0.0), self.median(), self.percentile(1.0))
    }
}
