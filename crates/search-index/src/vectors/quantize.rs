//! Vectors as whole numbers: a byte for each number with one scale a vector, and a second byte for what the first
//! left over. The scan reads only the first; both together are 16 bits and decide the order of the best.

use super::dot::Kernel;

/// What the second byte counts in, as a share of the first byte's scale: half a step of the first, in 127 parts.
const RESIDUAL_STEPS: f32 = 254.0;

/// The vector at length 1, or `None` if it has no direction.
pub(crate) fn normalized(vector: &[f32]) -> Option<Vec<f32>> {
    let length = vector.iter().map(|n| f64::from(*n) * f64::from(*n)).sum::<f64>().sqrt();
    (length.is_finite() && length > 1e-12).then(|| vector.iter().map(|n| (f64::from(*n) / length) as f32).collect())
}

/// Appends the two bytes of each number, and answers the scale. The vector is at length 1.
pub(crate) fn quantize(vector: &[f32], codes: &mut Vec<u8>, residuals: &mut Vec<u8>) -> f32 {
    let greatest = vector.iter().fold(0.0_f32, |greatest, n| greatest.max(n.abs()));
    let scale = greatest / 127.0;
    for number in vector {
        let code = (number / scale).round().clamp(-127.0, 127.0);
        let residual = ((number - code * scale) / scale * RESIDUAL_STEPS).round().clamp(-127.0, 127.0);
        codes.push((code as i8).cast_unsigned());
        residuals.push((residual as i8).cast_unsigned());
    }
    scale
}

/// The numbers as they are held, 16 bits each.
pub(crate) fn restore(codes: &[u8], residuals: &[u8], scale: f32) -> Vec<f32> {
    codes.iter().zip(residuals).map(|(code, residual)| number(*code, *residual) * scale).collect()
}

fn number(code: u8, residual: u8) -> f32 {
    f32::from(code.cast_signed()) + f32::from(residual.cast_signed()) / RESIDUAL_STEPS
}

/// A query ready for the scan.
#[derive(Debug)]
pub(crate) struct Query {
    pub(crate) numbers: Vec<i16>,
    pub(crate) scale: f32,
}

impl Query {
    /// The vector is at length 1.
    pub(crate) fn new(exact: &[f32]) -> Self {
        let greatest = exact.iter().fold(0.0_f32, |greatest, n| greatest.max(n.abs()));
        let most = (f64::from(i32::MAX) / (127.0 * exact.len().max(1) as f64)).min(f64::from(i16::MAX)).floor() as f32;
        let scale = greatest / most;
        let numbers = exact.iter().map(|n| (n / scale).round().clamp(-most, most) as i16).collect();
        Self { numbers, scale }
    }

    /// What the second bytes of a vector can add to its cosine at most, or take from it, as a share of its scale.
    pub(crate) fn fineness(&self) -> f32 {
        let sum: f64 = self.numbers.iter().map(|number| f64::from(number.unsigned_abs())).sum();
        // Half a step of the first byte each; a little more, so that rounding here never decides.
        (sum * f64::from(self.scale) * 0.500_1) as f32
    }

    /// The dot product with both bytes of each number. The query's own 16 bits cost some 10⁻⁶.
    pub(crate) fn exact_dot(&self, kernel: Kernel, codes: &[u8], residuals: &[u8], scale: f32) -> f32 {
        let coarse = f64::from(kernel.dot(codes, &self.numbers));
        let fine = f64::from(kernel.dot(residuals, &self.numbers));
        ((coarse + fine / f64::from(RESIDUAL_STEPS)) * f64::from(scale) * f64::from(self.scale)) as f32
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn sixteen_bits_come_back(vector in proptest::collection::vec(-1.0_f32..1.0, 1..400)) {
            prop_assume!(vector.iter().any(|n| n.abs() > 1e-3));
            let Some(vector) = normalized(&vector) else { return Err(TestCaseError::fail("it has a direction")) };
            let (mut codes, mut residuals) = (Vec::new(), Vec::new());
            let scale = quantize(&vector, &mut codes, &mut residuals);
            for (held, number) in restore(&codes, &residuals, scale).iter().zip(&vector) {
                prop_assert!((held - number).abs() <= scale / 400.0, "{held} {number}");
            }
            let itself = Query::new(&vector).exact_dot(Kernel::detect(), &codes, &residuals, scale);
            prop_assert!((itself - 1.0).abs() < 1e-3, "{itself}");
        }

        #[test]
        fn the_second_bytes_change_no_more_than_is_said(
            pairs in proptest::collection::vec((-1.0_f32..1.0, -1.0_f32..1.0), 1..400),
        ) {
            let (asked, held): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
            let (Some(asked), Some(held)) = (normalized(&asked), normalized(&held)) else { return Ok(()) };
            let (mut codes, mut residuals) = (Vec::new(), Vec::new());
            let scale = quantize(&held, &mut codes, &mut residuals);
            let (query, kernel) = (Query::new(&asked), Kernel::detect());
            let coarse = kernel.dot(&codes, &query.numbers) as f32 * scale * query.scale;
            let exact = query.exact_dot(kernel, &codes, &residuals, scale);
            prop_assert!((exact - coarse).abs() <= query.fineness() * scale + 1e-6, "{exact} {coarse}");
            // The greatest there can be: each second byte at its end, in the direction of the query.
            let worst: Vec<u8> =
                query.numbers.iter().map(|number| (number.signum() as i8 * 127).cast_unsigned()).collect();
            let furthest = query.exact_dot(kernel, &codes, &worst, scale);
            prop_assert!((furthest - coarse).abs() <= query.fineness() * scale + 1e-6, "{furthest} {coarse}");
        }
    }

    #[test]
    fn what_has_no_direction_is_refused() {
        assert!(normalized(&[0.0, 0.0]).is_none());
        assert!(normalized(&[f32::NAN, 1.0]).is_none());
        assert!(normalized(&[f32::INFINITY, 1.0]).is_none());
        assert!(normalized(&[f32::MAX, f32::MAX]).is_some());
    }
}
