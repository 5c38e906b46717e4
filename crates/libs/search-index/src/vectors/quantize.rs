//! Quantized vectors: one byte per number with one scale per vector, and a second byte for the residual. The first byte
//! is stored in two halves, because memory bandwidth limits the scan of many vectors: it only reads the upper halves.
//! The best candidates are rescored with whole first bytes, and the best of them with both bytes, whose 16 bits
//! determine the order.

use super::dot::{Halves, Kernel};

/// Greatest first byte: 7 × 16 + 7, so that both halves are signed 4-bit numbers and zero is exact.
const MAX_CODE: f32 = 119.0;
/// Unit of the second byte, as a fraction of the first byte's scale: half a step of the first in 127 parts.
const RESIDUAL_STEPS: f32 = 254.0;
/// Offset of the halves, which are stored as 0 to 15.
const HALF_BIAS: u8 = 8;
/// Value of an upper half, in units of lower ones.
const UPPER_WEIGHT: f32 = 16.0;

/// Numbers of vectors in the three planes where they are stored. Two halves share a byte: the first half of the
/// vector's numbers is in the lower halves of the bytes, the others in the upper ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Planes {
    /// Upper halves of first bytes, [`packed_bytes`] per vector.
    pub(crate) upper: Vec<u8>,
    /// Lower halves of first bytes, of the same size.
    pub(crate) lower: Vec<u8>,
    /// Second bytes, one per number.
    pub(crate) fine: Vec<u8>,
}

/// Returns the number of bytes per vector in a plane of halves.
pub(crate) fn packed_bytes(dimensions: usize) -> usize {
    dimensions.div_ceil(2)
}

/// Returns the normalized vector, or `None` if it has no direction.
pub(crate) fn normalized(vector: &[f32]) -> Option<Vec<f32>> {
    let length = vector.iter().map(|n| f64::from(*n) * f64::from(*n)).sum::<f64>().sqrt();
    (length.is_finite() && length > 1e-12).then(|| vector.iter().map(|n| (f64::from(*n) / length) as f32).collect())
}

/// Appends the numbers and returns the scale. The vector must be normalized.
pub(crate) fn quantize(vector: &[f32], planes: &mut Planes) -> f32 {
    let greatest = vector.iter().fold(0.0_f32, |greatest, n| greatest.max(n.abs()));
    let scale = greatest / MAX_CODE;
    let mut codes = Vec::with_capacity(vector.len());
    for number in vector {
        let code = (number / scale).round().clamp(-MAX_CODE, MAX_CODE);
        let residual = ((number - code * scale) / scale * RESIDUAL_STEPS).round().clamp(-127.0, 127.0);
        codes.push(code as i8);
        planes.fine.push((residual as i8).cast_unsigned());
    }
    // The nearest multiple of 16, and the remainder: -8 to 7.
    let upper = |code: i8| (code + 8).div_euclid(16);
    pack(&codes, &mut planes.upper, upper);
    pack(&codes, &mut planes.lower, |code| code - upper(code) * 16);
    scale
}

fn pack(codes: &[i8], into: &mut Vec<u8>, half: impl Fn(i8) -> i8) {
    let bits = |code: &i8| half(*code).wrapping_add_unsigned(HALF_BIAS).cast_unsigned();
    let (first, second) = codes.split_at(packed_bytes(codes.len()));
    into.extend(first.iter().enumerate().map(|(index, code)| bits(code) | second.get(index).map_or(0, bits) << 4));
}

/// Replaces the contents of `into` with the whole first bytes of one vector.
pub(crate) fn unpack(upper: &[u8], lower: &[u8], dimensions: usize, into: &mut Vec<u8>) {
    const BIAS: u8 = 17 * HALF_BIAS;
    into.clear();
    let halves = upper.iter().zip(lower);
    into.extend(halves.clone().map(|(upper, lower)| ((upper << 4) | (lower & 15)).wrapping_sub(BIAS)));
    into.extend(halves.map(|(upper, lower)| ((upper & 0xf0) | (lower >> 4)).wrapping_sub(BIAS)));
    into.truncate(dimensions);
}

/// Returns the numbers as stored, with 16 bits each.
pub(crate) fn restore(codes: &[u8], residuals: &[u8], scale: f32) -> Vec<f32> {
    codes.iter().zip(residuals).map(|(code, residual)| number(*code, *residual) * scale).collect()
}

fn number(code: u8, residual: u8) -> f32 {
    f32::from(code.cast_signed()) + f32::from(residual.cast_signed()) / RESIDUAL_STEPS
}

/// Query prepared for comparison: with 8 bits per number for the scan, with 16 otherwise.
#[derive(Debug)]
pub(crate) struct Query {
    numbers: Vec<i16>,
    scale: f32,
    /// Factors for the halves of packed bytes, of equal length.
    lower: Vec<i8>,
    upper: Vec<i8>,
    /// Contribution of the offset of all halves to a sum.
    bias: i32,
    coarse_scale: f32,
}

impl Query {
    /// Creates a query from a normalized vector.
    pub(crate) fn new(exact: &[f32]) -> Self {
        let greatest = exact.iter().fold(0.0_f32, |greatest, n| greatest.max(n.abs()));
        let most = (f64::from(i32::MAX) / (127.0 * exact.len().max(1) as f64)).min(f64::from(i16::MAX)).floor() as f32;
        let scale = greatest / most;
        let numbers = exact.iter().map(|n| (n / scale).round().clamp(-most, most) as i16).collect();
        let coarse_scale = greatest / 127.0;
        let coarse = |n: &f32| (n / coarse_scale).round().clamp(-127.0, 127.0) as i8;
        let (first, second) = exact.split_at(packed_bytes(exact.len()));
        let lower: Vec<i8> = first.iter().map(coarse).collect();
        let mut upper: Vec<i8> = second.iter().map(coarse).collect();
        upper.resize(lower.len(), 0);
        let bias = i32::from(HALF_BIAS) * lower.iter().chain(&upper).map(|n| i32::from(*n)).sum::<i32>();
        Self { numbers, scale, lower, upper, bias, coarse_scale }
    }

    /// Returns the number of dimensions.
    pub(crate) fn dimensions(&self) -> usize {
        self.numbers.len()
    }

    /// Returns the size of a packed vector, in bytes.
    pub(crate) fn packed_bytes(&self) -> usize {
        self.lower.len()
    }

    /// Computes the part of the cosines determined by the upper halves of consecutive vectors, to be multiplied by each
    /// vector's scale.
    pub(crate) fn coarse_dots(&self, kernel: Kernel, upper: &[u8], out: &mut [f32]) {
        const CHUNK: usize = 64;
        let mut dots = [0; CHUNK];
        for (packed, out) in upper.chunks(CHUNK * self.packed_bytes()).zip(out.chunks_mut(CHUNK)) {
            kernel.packed_dots(packed, Halves { lower: &self.lower, upper: &self.upper }, &mut dots);
            for (out, dot) in out.iter_mut().zip(dots) {
                *out = (dot - self.bias) as f32 * UPPER_WEIGHT * self.coarse_scale;
            }
        }
    }

    /// Returns the dot product with whole first bytes, as written by [`unpack`].
    pub(crate) fn near_dot(&self, kernel: Kernel, codes: &[u8], scale: f32) -> f32 {
        kernel.dot(codes, &self.numbers) as f32 * scale * self.scale
    }

    /// Returns the maximum contribution of the second bytes to the cosine, as a fraction of the vector's scale.
    pub(crate) fn fineness(&self) -> f32 {
        let sum: f64 = self.numbers.iter().map(|number| f64::from(number.unsigned_abs())).sum();
        // Half a step of the first byte for each number; slightly more, so that rounding is never decisive.
        (sum * f64::from(self.scale) * 0.500_1) as f32
    }

    /// Returns the dot product with both bytes of each number. The query's own 16 bits cause an error of about 10⁻⁶.
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

    /// Returns a stored vector: its scale, its planes, and its whole first bytes.
    fn held(vector: &[f32]) -> (f32, Planes, Vec<u8>) {
        let (mut planes, mut codes) = (Planes::default(), Vec::new());
        let scale = quantize(vector, &mut planes);
        unpack(&planes.upper, &planes.lower, vector.len(), &mut codes);
        (scale, planes, codes)
    }

    /// Generates two normalized vectors with the same number of dimensions.
    fn directions() -> impl Strategy<Value = (Vec<f32>, Vec<f32>)> {
        let pairs = proptest::collection::vec((-1.0_f32..1.0, -1.0_f32..1.0), 1..400);
        pairs.prop_filter_map("both have a direction", |pairs| {
            let (first, second): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
            Some((normalized(&first)?, normalized(&second)?))
        })
    }

    proptest! {
        #[test]
        fn quantization_preserves_sixteen_bits(vector in proptest::collection::vec(-1.0_f32..1.0, 1..400)) {
            prop_assume!(vector.iter().any(|n| n.abs() > 1e-3));
            let Some(vector) = normalized(&vector) else { return Err(TestCaseError::fail("it has a direction")) };
            let (scale, planes, codes) = held(&vector);
            prop_assert_eq!(planes.upper.len(), packed_bytes(vector.len()));
            prop_assert_eq!(planes.lower.len(), packed_bytes(vector.len()));
            for (held, number) in restore(&codes, &planes.fine, scale).iter().zip(&vector) {
                prop_assert!((held - number).abs() <= scale / 400.0, "{held} {number}");
            }
            let itself = Query::new(&vector).exact_dot(Kernel::detect(), &codes, &planes.fine, scale);
            prop_assert!((itself - 1.0).abs() < 1e-3, "{itself}");
        }

        #[test]
        fn second_bytes_contribute_at_most_the_fineness(
            (asked, vector) in directions(),
        ) {
            let (scale, planes, codes) = held(&vector);
            let (query, kernel) = (Query::new(&asked), Kernel::detect());
            let near = query.near_dot(kernel, &codes, scale);
            let exact = query.exact_dot(kernel, &codes, &planes.fine, scale);
            prop_assert!((exact - near).abs() <= query.fineness() * scale + 1e-6, "{exact} {near}");
            // The greatest possible residual: each second byte at its limit, in the direction of the query.
            let worst: Vec<u8> =
                query.numbers.iter().map(|number| (number.signum() as i8 * 127).cast_unsigned()).collect();
            let furthest = query.exact_dot(kernel, &codes, &worst, scale);
            prop_assert!((furthest - near).abs() <= query.fineness() * scale + 1e-6, "{furthest} {near}");
        }

        #[test]
        fn upper_halves_have_an_error_of_at_most_half_a_step(
            (asked, vector) in directions(),
        ) {
            let (scale, planes, codes) = held(&vector);
            let (query, kernel) = (Query::new(&asked), Kernel::detect());
            let twice = [&planes.upper[..], &planes.upper].concat();
            let mut coarse = [0.0; 2];
            query.coarse_dots(kernel, &twice, &mut coarse);
            prop_assert_eq!(coarse[0].to_bits(), coarse[1].to_bits());
            // The contribution of the lower halves, and the error of the query with eight bits.
            let lost: f32 = asked.iter().map(|n| n.abs() * 8.0 * scale).sum();
            let rounded: f32 = vector.iter().map(|n| (n.abs() + 8.0 * scale) * 0.51 * query.coarse_scale).sum();
            let near = query.near_dot(kernel, &codes, scale);
            let most = lost + rounded + 1e-4;
            prop_assert!((coarse[0] * scale - near).abs() <= most, "{} {near} {most}", coarse[0] * scale);
        }
    }

    #[test]
    fn scan_sums_the_upper_halves() {
        for dimensions in [1, 2, 3, 63, 64, 65, 127, 128, 129, 255, 256, 257, 384, 387] {
            let number = |index: usize| ((index * 7919 + 13) % 997) as f32 / 498.0 - 1.0;
            let vector = normalized(&(0..dimensions).map(number).collect::<Vec<_>>()).unwrap();
            let asked = normalized(&(0..dimensions).map(|n| number(n * 3 + 1)).collect::<Vec<_>>()).unwrap();
            let (scale, planes, _) = held(&vector);
            let query = Query::new(&asked);
            let expected: f32 = vector
                .iter()
                .zip(&asked)
                .map(|(held, asked)| {
                    let upper = ((held / scale).round() + 8.0).div_euclid(16.0);
                    upper * 16.0 * (asked / query.coarse_scale).round()
                })
                .sum();
            let mut coarse = [0.0];
            query.coarse_dots(Kernel::detect(), &planes.upper, &mut coarse);
            let expected = expected * query.coarse_scale;
            assert!((coarse[0] - expected).abs() <= expected.abs() * 1e-5, "{dimensions}: {} {expected}", coarse[0]);
        }
    }

    #[test]
    fn unit_vector_is_exact() {
        let mut vector = vec![0.0; 5];
        vector[4] = -1.0;
        let (scale, planes, codes) = held(&vector);
        assert_eq!(restore(&codes, &planes.fine, scale), vector);
    }

    #[test]
    fn zero_vector_is_rejected() {
        assert!(normalized(&[0.0, 0.0]).is_none());
        assert!(normalized(&[f32::NAN, 1.0]).is_none());
        assert!(normalized(&[f32::INFINITY, 1.0]).is_none());
        assert!(normalized(&[f32::MAX, f32::MAX]).is_some());
    }
}
