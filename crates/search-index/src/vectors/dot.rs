//! The dot product of a stored vector (bytes, taken as i8) and a query (i16), in whole numbers.
//!
//! 127 × the query's greatest value × dimensions stays below 2³¹, see [`super::quantize::Query`]; so the sums
//! cannot overflow in any order and every path gives the same number.

/// Which instructions this processor has.
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

    /// The dot products of vectors that stand one after the other.
    pub(crate) fn dots(self, codes: &[u8], query: &[i16], out: &mut [i32]) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Vnni => wide::avx512vnni_dots(codes, query, out),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => wide::avx512_dots(codes, query, out),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => wide::avx2_dots(codes, query, out),
            Self::Portable => {
                for (codes, out) in codes.chunks_exact(query.len()).zip(out) {
                    *out = portable(codes, query);
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

/// Written so that the compiler can vectorize it.
fn portable(codes: &[u8], query: &[i16]) -> i32 {
    codes.iter().zip(query).map(|(code, number)| i32::from(code.cast_signed()) * i32::from(*number)).sum()
}

#[cfg(target_arch = "x86_64")]
mod wide {
    #![allow(unsafe_code, reason = "vector instructions, each behind a check that the processor has them")]

    use std::arch::x86_64::{
        __m128i, __m256i, __m512i, _mm_add_epi32, _mm_cvtsi128_si32, _mm_loadu_si128, _mm_shuffle_epi32,
        _mm256_add_epi32, _mm256_castsi256_si128, _mm256_cvtepi8_epi16, _mm256_extracti128_si256, _mm256_loadu_si256,
        _mm256_madd_epi16, _mm256_setzero_si256, _mm512_add_epi32, _mm512_cvtepi8_epi16, _mm512_dpwssd_epi32,
        _mm512_loadu_si512, _mm512_madd_epi16, _mm512_reduce_add_epi32, _mm512_setzero_si512,
    };

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

    pub(super) fn avx512_dots(codes: &[u8], query: &[i16], out: &mut [i32]) {
        // SAFETY: as above.
        unsafe { each_avx512(codes, query, out) }
    }

    pub(super) fn avx512vnni_dots(codes: &[u8], query: &[i16], out: &mut [i32]) {
        // SAFETY: as above.
        unsafe { each_avx512vnni(codes, query, out) }
    }

    pub(super) fn avx2_dots(codes: &[u8], query: &[i16], out: &mut [i32]) {
        // SAFETY: as above.
        unsafe { each_avx2(codes, query, out) }
    }

    #[target_feature(enable = "avx512f,avx512bw")]
    fn each_avx512(codes: &[u8], query: &[i16], out: &mut [i32]) {
        for (codes, out) in codes.chunks_exact(query.len()).zip(out) {
            *out = sum_avx512(codes, query);
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    fn each_avx512vnni(codes: &[u8], query: &[i16], out: &mut [i32]) {
        for (codes, out) in codes.chunks_exact(query.len()).zip(out) {
            *out = sum_avx512vnni(codes, query);
        }
    }

    #[target_feature(enable = "avx2")]
    fn each_avx2(codes: &[u8], query: &[i16], out: &mut [i32]) {
        for (codes, out) in codes.chunks_exact(query.len()).zip(out) {
            *out = sum_avx2(codes, query);
        }
    }

    /// The sums of 32 numbers at a time; processors differ in how they multiply and add.
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
        let half = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256::<1>(sum));
        let half = _mm_add_epi32(half, _mm_shuffle_epi32::<0b01_00_11_10>(half));
        let half = _mm_add_epi32(half, _mm_shuffle_epi32::<0b10_11_00_01>(half));
        _mm_cvtsi128_si32(half) + super::portable(code_rest, query_rest)
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
            if !query.is_empty() {
                let mut both = [0; 2];
                Kernel::detect().dots(&[&codes[..], &codes].concat(), &query, &mut both);
                prop_assert_eq!(both, [expected; 2]);
                Kernel::Portable.dots(&codes, &query, &mut both[..1]);
                prop_assert_eq!(both[0], expected);
            }
            #[cfg(target_arch = "x86_64")]
            if std::arch::is_x86_feature_detected!("avx2") {
                prop_assert_eq!(Kernel::Avx2.dot(&codes, &query), expected);
            }
            #[cfg(target_arch = "x86_64")]
            if std::arch::is_x86_feature_detected!("avx512bw") {
                prop_assert_eq!(Kernel::Avx512.dot(&codes, &query), expected);
            }
        }
    }
}
