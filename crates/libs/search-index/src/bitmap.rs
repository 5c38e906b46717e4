//! Growable set of slots, one bit each.

#[derive(Clone, Debug, Default)]
pub(crate) struct Bitmap {
    words: Vec<u64>,
}

impl Bitmap {
    pub(crate) fn with_len(bits: usize) -> Self {
        Self { words: vec![0; bits.div_ceil(64)] }
    }

    pub(crate) fn insert(&mut self, bit: u32) {
        let word = bit as usize / 64;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (bit % 64);
    }

    pub(crate) fn remove(&mut self, bit: u32) {
        if let Some(word) = self.words.get_mut(bit as usize / 64) {
            *word &= !(1 << (bit % 64));
        }
    }

    #[inline]
    pub(crate) fn contains(&self, bit: u32) -> bool {
        self.words.get(bit as usize / 64).is_some_and(|word| word >> (bit % 64) & 1 == 1)
    }

    /// Returns the 64 bits starting at `first`, lowest first; bits beyond the end are 0.
    #[inline]
    pub(crate) fn bits_from(&self, first: u32) -> u64 {
        let (word, shift) = (first as usize / 64, first % 64);
        let low = self.words.get(word).map_or(0, |bits| bits >> shift);
        match shift {
            0 => low,
            _ => low | self.words.get(word + 1).map_or(0, |bits| bits << (64 - shift)),
        }
    }

    /// Iterates over the non-zero words with the first slot of each; for performance-critical loops.
    pub(crate) fn words(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        (0_u32..).step_by(64).zip(self.words.iter().copied()).filter(|(_, word)| *word != 0)
    }

    /// Iterates over the members in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.words.iter().enumerate().flat_map(|(index, word)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                (rest != 0).then(|| {
                    let bit = rest.trailing_zeros();
                    rest &= rest - 1;
                    u32::try_from(index * 64).unwrap_or(u32::MAX) + bit
                })
            })
        })
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.words.capacity() * 8
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bitmap_behaves_like_a_set(inserted in proptest::collection::vec(0_u32..400, 0..300), full in 0_u32..4, removed in 0_u32..400) {
            let mut bits = Bitmap::default();
            let mut model = BTreeSet::new();
            for bit in inserted.into_iter().chain(full * 64..full * 64 + 64) {
                bits.insert(bit);
                model.insert(bit);
            }
            bits.remove(removed);
            model.remove(&removed);
            let words: Vec<(u32, u64)> = bits.words().collect();
            prop_assert_eq!(words.iter().map(|(_, word)| word.count_ones() as usize).sum::<usize>(), model.len());
            prop_assert!(words.iter().all(|(first, word)| *word != 0 && *word == bits.bits_from(*first)));
            prop_assert!(bits.iter().eq(model.iter().copied()));
            prop_assert!((0..500).all(|bit| bits.contains(bit) == model.contains(&bit)));
            for first in 0..500 {
                let expected = (0..64).filter(|at| model.contains(&(first + at))).fold(0, |sum, at| sum | 1_u64 << at);
                prop_assert_eq!(bits.bits_from(first), expected);
            }
        }
    }
}
