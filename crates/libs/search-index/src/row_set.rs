//! Row numbers and sets of them for filters. Sets consist of blocks of 4,096 bits, because related rows often have
//! close numbers.

const BLOCK_BITS: u64 = 4096;

/// Number of the episode in the database; increasing and never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowNumber(pub u64);

/// Set of rows. Fastest to build from ascending rows.
#[derive(Clone, Debug, Default)]
pub struct RowSet {
    /// Sorted by block number.
    blocks: Vec<(u64, Box<[u64; 64]>)>,
    len: usize,
}

impl RowSet {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    pub fn insert(&mut self, row: RowNumber) {
        let number = row.0 / BLOCK_BITS;
        let index = if self.blocks.last().is_none_or(|(last, _)| *last < number) {
            self.blocks.push((number, Box::new([0; 64])));
            self.blocks.len() - 1
        } else {
            self.blocks.binary_search_by_key(&number, |(block, _)| *block).unwrap_or_else(|index| {
                self.blocks.insert(index, (number, Box::new([0; 64])));
                index
            })
        };
        let (word, bit) = bit_position(row);
        let word = &mut self.blocks[index].1[word];
        self.len += usize::from(*word & bit == 0);
        *word |= bit;
    }

    #[must_use]
    pub fn contains(&self, row: RowNumber) -> bool {
        self.blocks.binary_search_by_key(&(row.0 / BLOCK_BITS), |(block, _)| *block).is_ok_and(|index| {
            let (word, bit) = bit_position(row);
            self.blocks[index].1[word] & bit != 0
        })
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

fn bit_position(row: RowNumber) -> (usize, u64) {
    let bit = row.0 % BLOCK_BITS;
    ((bit / 64) as usize, 1 << (bit % 64))
}

impl FromIterator<RowNumber> for RowSet {
    fn from_iter<I: IntoIterator<Item = RowNumber>>(rows: I) -> Self {
        let mut set = Self::new();
        rows.into_iter().for_each(|row| set.insert(row));
        set
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn set_contains_inserted_rows(rows in proptest::collection::vec(0_u64..20_000, 0..100)) {
            let set: RowSet = rows.iter().copied().map(RowNumber).collect();
            let model: BTreeSet<u64> = rows.into_iter().collect();
            prop_assert_eq!(set.len(), model.len());
            for row in 0..20_000 {
                prop_assert_eq!(set.contains(RowNumber(row)), model.contains(&row));
            }
        }
    }
}
