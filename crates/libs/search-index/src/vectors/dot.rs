//! Integer dot products of stored vectors and a query: of bytes (as i8) with i16, and of 4-bit halves of bytes with i8.
//!
//! The sums cannot overflow, and every implementation returns the same number: 127 × the query's greatest value ×
//! dimensions stays below 2³¹, see [`super::quantize::Query`], and so does 15 × 127 × dimensions for up to a million
//! dimensions.

/// Instruction set used for the dot products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kernel {
    #[cfg(target_arch = "x86_64")]
    Avx512Vnni,
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    Portable,
}

impl Kernel {
    pub(crate) fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if std::arch::is_x86_feature_detected!("avx512bw") {
                let has_vnni = std::arch::is_x86_feature_detected!("avx512vnni");
                return if has_vnni { Self::Avx512Vnni } else { Self::Avx512 };
            }
            if std::arch::is_x86_feature_detected!("avx2") {
                return Self::Avx2;
            }
        }
        Self::Portable
    }

    /// Computes the dot products of consecutive packed vectors: of the halves of their bytes, 0 to 15 each, with those
    /// of the query. Each vector has as many bytes as each half of the query has numbers.
    pub(crate) fn packed_dots(self, packed: &[u8], query: Halves<'_>, out: &mut [i32]) {
        debug_assert_eq!(query.lower.len(), query.upper.len());
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Vnni => wide::avx512vnni_packed(packed, query, out),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => wide::avx512_packed(packed, query, out),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => wide::avx2_packed(packed, query, out),
            Self::Portable => {
                for (packed, out) in packed.chunks_exact(query.lower.len()).zip(out) {
                    *out = portable_packed(packed, query.lower, query.upper);
                }
            }
        }
    }

    #[inline]
    pub(crate) fn dot(self, codes: &[u8], query: &[i16]) -> i32 {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Vnni => wide::avx512vnni(codes, query),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => wide::avx512(codes, query),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => wide::avx2(codes, query),
            Self::Portable => portable(codes, query),
        }
    }
}

/// Prefetches these bytes into the processor's caches.
pub(crate) fn fetch_ahead(bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    wide::fetch_ahead(bytes);
    #[cfg(not(target_arch = "x86_64"))]
    let _ = bytes;
}

/// Query against packed vectors: the factors for the lower and the upper halves of their bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Halves<'a> {
    pub(crate) lower: &'a [i8],
    pub(crate) upper: &'a [i8],
}

/// Written so that the compiler can vectorize it.
fn portable_packed(packed: &[u8], lower: &[i8], upper: &[i8]) -> i32 {
    packed
        .iter()
        .zip(lower.iter().zip(upper))
        .map(|(byte, (lower, upper))| {
            i32::from(byte & 15) * i32::from(*lower) + i32::from(byte >> 4) * i32::from(*upper)
        })
        .sum()
}

/// Written so that the compiler can vectorize it.
fn portable(codes: &[u8], query: &[i16]) -> i32 {
    codes.iter().zip(query).map(|(code, number)| i32::from(code.cast_signed()) * i32::from(*number)).sum()
}

#[cfg(target_arch = "x86_64")]
mod wide {
    #![allow(unsafe_code, reason = "vector instructions, each behind a check that the processor has them")]

    use std::arch::x86_64::{
        __m128i, __m256i, __m512i, _MM_HINT_T0, _mm_add_epi32, _mm_cvtsi128_si32, _mm_loadu_si128, _mm_prefetch,
        _mm_shuffle_epi32, _mm256_add_epi32, _mm256_and_si256, _mm256_castsi256_si128, _mm256_cvtepi8_epi16,
        _mm256_extracti128_si256, _mm256_loadu_si256, _mm256_madd_epi16, _mm256_maddubs_epi16, _mm256_set1_epi8,
        _mm256_set1_epi16, _mm256_setzero_si256, _mm256_srli_epi16, _mm512_add_epi32, _mm512_and_si512,
        _mm512_cvtepi8_epi16, _mm512_dpbusd_epi32, _mm512_dpwssd_epi32, _mm512_loadu_si512, _mm512_madd_epi16,
        _mm512_maddubs_epi16, _mm512_reduce_add_epi32, _mm512_set1_epi8, _mm512_set1_epi16, _mm512_setzero_si512,
        _mm512_srli_epi16,
    };

    use super::Halves;

    pub(super) fn fetch_ahead(bytes: &[u8]) {
        // Bytes that begin within a cache line end in one more.
        for byte in bytes.iter().step_by(64).chain(bytes.last()) {
            // SAFETY: every x86-64 processor has the instruction, and it has no observable effect on memory.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(byte).cast()) };
        }
    }

    pub(super) fn avx512(codes: &[u8], query: &[i16]) -> i32 {
        // SAFETY: `Kernel::detect` chose this path only after it saw AVX-512 BW.
        unsafe { sum_avx512(codes, query) }
    }

    pub(super) fn avx512vnni(codes: &[u8], query: &[i16]) -> i32 {
        // SAFETY: `Kernel::detect` chose this path only after it saw AVX-512 BW and VNNI.
        unsafe { sum_avx512vnni(codes, query) }
    }

    pub(super) fn avx2(codes: &[u8], query: &[i16]) -> i32 {
        // SAFETY: `Kernel::detect` chose this path only after it saw AVX2.
        unsafe { sum_avx2(codes, query) }
    }

    pub(super) fn avx512_packed(packed: &[u8], query: Halves<'_>, out: &mut [i32]) {
        // SAFETY: `Kernel::detect` chose this path only after it saw AVX-512 BW.
        unsafe { each_avx512(packed, query, out) }
    }

    pub(super) fn avx512vnni_packed(packed: &[u8], query: Halves<'_>, out: &mut [i32]) {
        // SAFETY: `Kernel::detect` chose this path only after it saw AVX-512 BW and VNNI.
        unsafe { each_avx512vnni(packed, query, out) }
    }

    pub(super) fn avx2_packed(packed: &[u8], query: Halves<'_>, out: &mut [i32]) {
        // SAFETY: `Kernel::detect` chose this path only after it saw AVX2.
        unsafe { each_avx2(packed, query, out) }
    }

    /// Sums 64 bytes, so 128 numbers, at a time. Two products of halves with an i8 are at most 3,810, which fits into
    /// the 16 bits of `maddubs`.
    macro_rules! packed_of_64 {
        ($name:ident, $features:literal, $add:expr) => {
            #[target_feature(enable = $features)]
            fn $name(packed: &[u8], query: Halves<'_>, out: &mut [i32]) {
                let half = _mm512_set1_epi8(15);
                let (lower_blocks, lower_rest) = query.lower.as_chunks::<64>();
                let (upper_blocks, upper_rest) = query.upper.as_chunks::<64>();
                for (packed, out) in packed.chunks_exact(query.lower.len()).zip(out) {
                    let (blocks, rest) = packed.as_chunks::<64>();
                    let (mut sum, mut other) = (_mm512_setzero_si512(), _mm512_setzero_si512());
                    for (bytes, (lower, upper)) in blocks.iter().zip(lower_blocks.iter().zip(upper_blocks)) {
                        // SAFETY: each block has exactly the 64 bytes that a load reads; they need no alignment.
                        let (bytes, lower, upper) = unsafe {
                            (
                                _mm512_loadu_si512(bytes.as_ptr().cast::<__m512i>()),
                                _mm512_loadu_si512(lower.as_ptr().cast::<__m512i>()),
                                _mm512_loadu_si512(upper.as_ptr().cast::<__m512i>()),
                            )
                        };
                        sum = ($add)(sum, _mm512_and_si512(bytes, half), lower);
                        other = ($add)(other, _mm512_and_si512(_mm512_srli_epi16::<4>(bytes), half), upper);
                    }
                    *out = _mm512_reduce_add_epi32(_mm512_add_epi32(sum, other))
                        + super::portable_packed(rest, lower_rest, upper_rest);
                }
            }
        };
    }

    packed_of_64!(each_avx512, "avx512f,avx512bw", |sum, halves, numbers| {
        let pairs = _mm512_maddubs_epi16(halves, numbers);
        _mm512_add_epi32(sum, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)))
    });
    packed_of_64!(each_avx512vnni, "avx512f,avx512bw,avx512vnni", |sum, halves, numbers| _mm512_dpbusd_epi32(
        sum, halves, numbers
    ));

    #[target_feature(enable = "avx2")]
    fn each_avx2(packed: &[u8], query: Halves<'_>, out: &mut [i32]) {
        let (half, ones) = (_mm256_set1_epi8(15), _mm256_set1_epi16(1));
        let (lower_blocks, lower_rest) = query.lower.as_chunks::<32>();
        let (upper_blocks, upper_rest) = query.upper.as_chunks::<32>();
        for (packed, out) in packed.chunks_exact(query.lower.len()).zip(out) {
            let (blocks, rest) = packed.as_chunks::<32>();
            let mut sum = _mm256_setzero_si256();
            for (bytes, (lower, upper)) in blocks.iter().zip(lower_blocks.iter().zip(upper_blocks)) {
                // SAFETY: each block has exactly the 32 bytes that a load reads; they need no alignment.
                let (bytes, lower, upper) = unsafe {
                    (
                        _mm256_loadu_si256(bytes.as_ptr().cast::<__m256i>()),
                        _mm256_loadu_si256(lower.as_ptr().cast::<__m256i>()),
                        _mm256_loadu_si256(upper.as_ptr().cast::<__m256i>()),
                    )
                };
                let below = _mm256_maddubs_epi16(_mm256_and_si256(bytes, half), lower);
                let above = _mm256_maddubs_epi16(_mm256_and_si256(_mm256_srli_epi16::<4>(bytes), half), upper);
                sum = _mm256_add_epi32(sum, _mm256_madd_epi16(below, ones));
                sum = _mm256_add_epi32(sum, _mm256_madd_epi16(above, ones));
            }
            *out = of_eight(sum) + super::portable_packed(rest, lower_rest, upper_rest);
        }
    }

    /// Sums 32 numbers at a time; processors differ in how they multiply and add.
    macro_rules! sum_of_32 {
        ($name:ident, $features:literal, $add:expr) => {
            #[inline]
            #[target_feature(enable = $features)]
            fn $name(codes: &[u8], query: &[i16]) -> i32 {
                let (code_blocks, code_rest) = codes.as_chunks::<32>();
                let (query_blocks, query_rest) = query.as_chunks::<32>();
                let mut sum = _mm512_setzero_si512();
                for (codes, numbers) in code_blocks.iter().zip(query_blocks) {
                    // SAFETY: each block has exactly the 32 and 64 bytes that the loads read; they need no alignment.
                    let (codes, numbers) = unsafe {
                        (
                            _mm256_loadu_si256(codes.as_ptr().cast::<__m256i>()),
                            _mm512_loadu_si512(numbers.as_ptr().cast::<__m512i>()),
                        )
                    };
                    sum = ($add)(sum, _mm512_cvtepi8_epi16(codes), numbers);
                }
                _mm512_reduce_add_epi32(sum) + super::portable(code_rest, query_rest)
            }
        };
    }

    sum_of_32!(sum_avx512, "avx512f,avx512bw", |sum, a, b| _mm512_add_epi32(sum, _mm512_madd_epi16(a, b)));
    sum_of_32!(sum_avx512vnni, "avx512f,avx512bw,avx512vnni", |sum, a, b| _mm512_dpwssd_epi32(sum, a, b));

    #[inline]
    #[target_feature(enable = "avx2")]
    fn sum_avx2(codes: &[u8], query: &[i16]) -> i32 {
        let (code_blocks, code_rest) = codes.as_chunks::<16>();
        let (query_blocks, query_rest) = query.as_chunks::<16>();
        let mut sum = _mm256_setzero_si256();
        for (codes, numbers) in code_blocks.iter().zip(query_blocks) {
            // SAFETY: each block has exactly the 16 and 32 bytes that the loads read; they need no alignment.
            let (codes, numbers) = unsafe {
                (
                    _mm_loadu_si128(codes.as_ptr().cast::<__m128i>()),
                    _mm256_loadu_si256(numbers.as_ptr().cast::<__m256i>()),
                )
            };
            sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_cvtepi8_epi16(codes), numbers));
        }
        of_eight(sum) + super::portable(code_rest, query_rest)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn of_eight(sum: __m256i) -> i32 {
        let half = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256::<1>(sum));
        let half = _mm_add_epi32(half, _mm_shuffle_epi32::<0b01_00_11_10>(half));
        let half = _mm_add_epi32(half, _mm_shuffle_epi32::<0b10_11_00_01>(half));
        _mm_cvtsi128_si32(half)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn all_paths_agree(values in proptest::collection::vec((any::<i8>(), any::<i16>()), 0..200)) {
            let codes: Vec<u8> = values.iter().map(|(code, _)| code.cast_unsigned()).collect();
            let query: Vec<i16> = values.iter().map(|(_, number)| *number).collect();
            let expected: i32 = values.iter().map(|(a, b)| i32::from(*a) * i32::from(*b)).sum();
            prop_assert_eq!(portable(&codes, &query), expected);
            prop_assert_eq!(Kernel::detect().dot(&codes, &query), expected);
            #[cfg(target_arch = "x86_64")]
            if std::arch::is_x86_feature_detected!("avx2") {
                prop_assert_eq!(Kernel::Avx2.dot(&codes, &query), expected);
            }
            #[cfg(target_arch = "x86_64")]
            if std::arch::is_x86_feature_detected!("avx512bw") {
                prop_assert_eq!(Kernel::Avx512.dot(&codes, &query), expected);
            }
        }

        #[test]
        fn all_paths_agree_on_packed_ones(
            values in proptest::collection::vec((any::<u8>(), any::<u8>(), -127_i8..=127, -127_i8..=127), 1..200),
        ) {
            let packed: Vec<u8> =
                values.iter().map(|(first, ..)| *first).chain(values.iter().map(|(_, second, ..)| *second)).collect();
            let lower: Vec<i8> = values.iter().map(|(_, _, lower, _)| *lower).collect();
            let upper: Vec<i8> = values.iter().map(|(_, _, _, upper)| *upper).collect();
            let expected: Vec<i32> = packed
                .chunks(values.len())
                .map(|bytes| {
                    let each = bytes.iter().zip(&lower).zip(&upper);
                    each.map(|((byte, lower), upper)| {
                        i32::from(byte % 16) * i32::from(*lower) + i32::from(byte / 16) * i32::from(*upper)
                    })
                    .sum()
                })
                .collect();
            let query = Halves { lower: &lower, upper: &upper };
            let products = |kernel: Kernel| {
                let mut out = [0; 2];
                kernel.packed_dots(&packed, query, &mut out);
                out.to_vec()
            };
            prop_assert_eq!(products(Kernel::Portable), expected.clone());
            prop_assert_eq!(products(Kernel::detect()), expected.clone());
            #[cfg(target_arch = "x86_64")]
            if std::arch::is_x86_feature_detected!("avx2") {
                prop_assert_eq!(products(Kernel::Avx2), expected.clone());
            }
            #[cfg(target_arch = "x86_64")]
            if std::arch::is_x86_feature_detected!("avx512bw") {
                prop_assert_eq!(products(Kernel::Avx512), expected);
            }
        }
    }
}
