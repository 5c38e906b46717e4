//! Password hashing. It is slow and uses much memory by design, so concurrency is limited and it runs on blocking
//! threads.

use std::sync::Arc;

use agentd_base::{Entropy, Secret};
use argon2::{Algorithm, Argon2, Block, Params, Version};
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use subtle::ConstantTimeEq;
use tokio::sync::Semaphore;

use crate::auth::error::AuthError;

/// Second of OWASP's equivalent parameter sets for argon2id: 19 MiB, two passes, one lane.
/// <https://cheatsheetseries.owasp.org/cheatsheets/Password_Storage_Cheat_Sheet.html>
const MEMORY_KIB: u32 = 19 * 1024;
const PASSES: u32 = 2;
const LANES: u32 = 1;
const MAX_CONCURRENT_HASHES: usize = 2;
/// Allocated blocks per hash. glibc always serves requests above 32 MiB with their own mapping and unmaps it when
/// freed. It retains smaller ones: eight hashes on two threads left 117 MB in an idle process, and 0.3 MB with this
/// size. Blocks beyond those in use are never touched and use no memory.
const RESERVED_BLOCKS: usize = 33 * 1024;
/// Hash for a user that does not exist: same cost, and no password matches it.
const DUMMY_HASH: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$bm9ib2R5J3Mgc2FsdA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Hashes and verifies passwords, at most two concurrently. Callers limit the number of waiting requests.
#[derive(Debug, Clone)]
pub(super) struct Passwords(Arc<Semaphore>);

impl Default for Passwords {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_CONCURRENT_HASHES)))
    }
}

impl Passwords {
    /// Returns the PHC string of the password with a new salt.
    pub(super) async fn hash(&self, password: Secret, entropy: &Entropy) -> Result<String, AuthError> {
        let salt = entropy.bytes::<16>();
        self.run(move || {
            let params = Params::new(MEMORY_KIB, PASSES, LANES, Some(32)).map_err(failed)?;
            let hash = derive(&password, &salt, params)?;
            Ok(format!(
                "$argon2id$v=19$m={MEMORY_KIB},t={PASSES},p={LANES}${}${}",
                STANDARD_NO_PAD.encode(salt),
                STANDARD_NO_PAD.encode(hash)
            ))
        })
        .await
    }

    /// Whether the password matches the hash. Takes the same time without a hash, to hide whether the user exists.
    pub(super) async fn verify(&self, password: Secret, stored: Option<String>) -> Result<bool, AuthError> {
        self.run(move || {
            let has_hash = stored.is_some();
            let (params, salt, expected) = parse(stored.as_deref().unwrap_or(DUMMY_HASH))?;
            let found = derive(&password, &salt, params)?;
            Ok(bool::from(found.ct_eq(expected.as_slice())) && has_hash)
        })
        .await
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, AuthError> + Send + 'static,
    ) -> Result<T, AuthError> {
        let permit = Arc::clone(&self.0).acquire_owned().await.map_err(|_| AuthError::Busy)?;
        let done = tokio::task::spawn_blocking(move || {
            // Held by the blocking task: a cancelled caller must not release the permit early.
            let _permit = permit;
            work()
        });
        done.await.map_err(|error| AuthError::Hashing { reason: error.to_string() })?
    }
}

fn derive(password: &Secret, salt: &[u8], params: Params) -> Result<[u8; 32], AuthError> {
    let mut memory: Vec<Block> = Vec::with_capacity(RESERVED_BLOCKS.max(params.block_count()));
    memory.resize(params.block_count(), Block::new());
    let mut hash = [0; 32];
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into_with_memory(password.expose().as_bytes(), salt, &mut hash, &mut memory)
        .map_err(failed)?;
    Ok(hash)
}

/// Parses `$argon2id$v=19$m=…,t=…,p=…$salt$hash`, so that stored hashes remain valid after a change of the parameters.
fn parse(phc: &str) -> Result<(Params, Vec<u8>, Vec<u8>), AuthError> {
    let broken = || AuthError::Hashing { reason: "a stored hash cannot be read".to_owned() };
    let mut parts = phc.strip_prefix("$argon2id$v=19$").ok_or_else(broken)?.split('$');
    let mut next = || parts.next().ok_or_else(broken);
    let (costs, salt, hash) = (next()?, next()?, next()?);
    let cost = |name: &str| {
        let value = costs.split(',').find_map(|cost| cost.strip_prefix(name)?.strip_prefix('='));
        value.and_then(|value| value.parse().ok()).ok_or_else(broken)
    };
    let params = Params::new(cost("m")?, cost("t")?, cost("p")?, Some(32)).map_err(failed)?;
    let decode = |text: &str| STANDARD_NO_PAD.decode(text).map_err(|_| broken());
    Ok((params, decode(salt)?, decode(hash)?))
}

fn failed(error: argon2::Error) -> AuthError {
    AuthError::Hashing { reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> Secret {
        Secret::new(text.to_owned())
    }

    #[tokio::test]
    async fn only_the_exact_password_is_verified() {
        let passwords = Passwords::default();
        let stored = passwords.hash(secret("correct horse"), &Entropy::seeded(1)).await.unwrap();
        assert!(stored.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"));
        assert!(!stored.contains("horse"));
        assert!(passwords.verify(secret("correct horse"), Some(stored.clone())).await.unwrap());
        for wrong in ["correct hors", "Correct horse", "", "correct horse "] {
            assert!(!passwords.verify(secret(wrong), Some(stored.clone())).await.unwrap(), "{wrong}");
        }
        assert!(!passwords.verify(secret("correct horse"), None).await.unwrap());
        let again = passwords.hash(secret("correct horse"), &Entropy::seeded(2)).await.unwrap();
        assert_ne!(stored, again);
    }

    #[test]
    fn dummy_hash_has_the_cost_of_a_real_hash() {
        let (params, salt, hash) = parse(DUMMY_HASH).unwrap();
        assert_eq!((params.m_cost(), params.t_cost(), params.p_cost()), (MEMORY_KIB, PASSES, LANES));
        assert_eq!((salt.len(), hash.len()), (13, 32));
    }

    #[test]
    fn malformed_hashes_are_errors() {
        for text in ["", "$argon2i$v=19$m=8,t=1,p=1$c2FsdA$aGFzaA", "$argon2id$v=19$m=x,t=1,p=1$c$d", "$argon2id$v=19$"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
