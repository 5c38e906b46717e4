//! Little-endian and variable-length numbers, read with bounds checks.

/// Reader for untrusted bytes. Returns `None` if the bytes are truncated or invalid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.rest.split_at_checked(count)?;
        self.rest = tail;
        Some(head)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.bytes(4).and_then(|b| b.try_into().ok()).map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.bytes(8).and_then(|b| b.try_into().ok()).map(u64::from_le_bytes)
    }

    /// Reads a count that is used as a size in memory.
    pub(crate) fn count(&mut self) -> Option<usize> {
        self.u32().and_then(|n| usize::try_from(n).ok())
    }

    #[inline]
    pub(crate) fn varint(&mut self) -> Option<u32> {
        let mut value = 0_u32;
        for shift in [0, 7, 14, 21, 28] {
            let (&byte, tail) = self.rest.split_first()?;
            self.rest = tail;
            value |= u32::from(byte & 0x7f).checked_shl(shift)?;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }
}

pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Reads `bytes[index * 4..]` as a number.
#[inline]
pub(crate) fn u32_at(bytes: &[u8], index: usize) -> Option<u32> {
    let start = index.checked_mul(4)?;
    bytes.get(start..start.checked_add(4)?).and_then(|b| b.try_into().ok()).map(u32::from_le_bytes)
}

#[inline]
pub(crate) fn f32_at(bytes: &[u8], index: usize) -> Option<f32> {
    u32_at(bytes, index).map(f32::from_bits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn varints_round_trip(values in proptest::collection::vec(any::<u32>(), 0..50)) {
            let mut bytes = Vec::new();
            values.iter().for_each(|value| put_varint(&mut bytes, *value));
            let mut reader = Reader::new(&bytes);
            for value in values {
                prop_assert_eq!(reader.varint(), Some(value));
            }
            prop_assert!(reader.is_empty() && reader.varint().is_none());
        }
    }
}
