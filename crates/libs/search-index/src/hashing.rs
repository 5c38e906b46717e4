//! Hashing of numbers assigned by the daemon itself: they are not chosen by clients, so a multiplication suffices.

use std::hash::{BuildHasherDefault, Hasher};

pub(crate) type FastHashing = BuildHasherDefault<NumberHasher>;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        // Fibonacci hashing, folded so that both halves of the product contribute.
        let product = u128::from(self.0 ^ value ^ 0x5851_f42d_4c95_7f2d).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}
