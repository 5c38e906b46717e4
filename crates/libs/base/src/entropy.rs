//! Randomness as an argument, so that tests are reproducible.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::Secret;

#[derive(Clone)]
enum Source {
    System,
    Seeded(Arc<Mutex<StdRng>>),
}

/// Source of random bytes. Cheap to clone.
#[derive(Clone)]
pub struct Entropy(Source);

impl Entropy {
    /// Returns the operating system's generator. Called once, in `main`.
    #[must_use]
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// Returns a reproducible generator, for tests only.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self(Source::Seeded(Arc::new(Mutex::new(StdRng::seed_from_u64(seed)))))
    }

    pub fn fill(&self, bytes: &mut [u8]) {
        match &self.0 {
            #[allow(
                clippy::expect_used,
                clippy::disallowed_methods,
                reason = "a machine without randomness must not run a daemon that creates keys"
            )]
            Source::System => getrandom::fill(bytes).expect("the operating system provides no random bytes"),
            Source::Seeded(rng) => rng.lock().fill_bytes(bytes),
        }
    }

    #[must_use]
    pub fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.fill(&mut bytes);
        bytes
    }

    /// Returns a uniform number in `0.0..1.0`, for jitter.
    #[must_use]
    pub fn unit(&self) -> f64 {
        // An f64 represents exactly 53 bits.
        #[allow(clippy::cast_precision_loss)]
        let numerator = (u64::from_le_bytes(self.bytes()) >> 11) as f64;
        numerator / (1u64 << 53) as f64
    }

    /// Generates a secret: `prefix` followed by 256 random bits in hex.
    #[must_use]
    pub fn secret(&self, prefix: &str) -> Secret {
        Secret::new(format!("{prefix}{}", hex::encode(self.bytes::<32>())))
    }
}

impl fmt::Debug for Entropy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Source::System => "Entropy(system)",
            Source::Seeded(_) => "Entropy(seeded)",
        })
    }
}
