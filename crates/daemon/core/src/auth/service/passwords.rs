//! Password hashing: slow and hungry on purpose, so few at a time and never on an async thread.

use std::sync::Arc;

use agentd_base::{Entropy, Secret};
use argon2::{Algorithm, Argon2, Block, Params, Version};
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use subtle::ConstantTimeEq;
use tokio::sync::Semaphore;

use crate::auth::error::AuthError;

/// The second of OWASP's equivalent choices for argon2id: 19 MiB, two passes, one lane.
/// <https://cheatsheetseries.owasp.org/cheatsheets/Password_Storage_Cheat_Sheet.html>
const MEMORY_KIB: u32 = 19 * 1024;
const PASSES: u32 = 2;
const LANES: u32 = 1;
const AT_ONCE: usize = 2;
/// glibc serves requests above 32 MiB by a mapping of their own, always, and gives it back at once.
/// Smaller ones it learns to keep: without this, eight hashes on two threads left 117 MB with an idle
/// process, with it 0.3 MB. What lies beyond the blocks in use is never touched and costs nothing.
const RESERVED_BLOCKS: usize = 33 * 1024;
/// Stands in for a user who does not exist: same cost, and a hash that no password has.
const NOBODY: &str = "$argon2id$v=19$m=19456,t=2,p=1$bm9ib2R5J3Mgc2FsdA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Hashes and verifies, at most two at a time. Callers bound how many wait.
#[derive(Debug, Clone)]
pub(super) struct Passwords(Arc<Semaphore>);

impl Default for Passwords {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(AT_ONCE)))
    }
}

impl Passwords {
    /// A PHC string of the password under a fresh salt.
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

    /// Whether the password belongs to the hash. Takes as long without one.
    pub(super) async fn verify(&self, password: Secret, stored: Option<String>) -> Result<bool, AuthError> {
        self.run(move || {
            let is_somebody = stored.is_some();
            let (params, salt, expected) = parse(stored.as_deref().unwrap_or(NOBODY))?;
            let found = derive(&password, &salt, params)?;
            Ok(bool::from(found.ct_eq(expected.as_slice())) && is_somebody)
        })
        .await
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, AuthError> + Send + 'static,
    ) -> Result<T, AuthError> {
        let turn = Arc::clone(&self.0).acquire_owned().await.map_err(|_| AuthError::Busy)?;
        let done = tokio::task::spawn_blocking(move || {
            // Held by the work itself: a caller who goes away must not let a third one in.
            let _turn = turn;
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

/// Reads `$argon2id$v=19$m=…,t=…,p=…$salt$hash`, so that stored passwords outlive a change of cost.
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
    async fn only_the_password_itself_fits() {
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
    fn nobody_costs_what_a_user_costs() {
        let (params, salt, hash) = parse(NOBODY).unwrap();
        assert_eq!((params.m_cost(), params.t_cost(), params.p_cost()), (MEMORY_KIB, PASSES, LANES));
        assert_eq!((salt.len(), hash.len()), (13, 32));
    }

    #[test]
    fn broken_hashes_are_errors() {
        for text in ["", "$argon2i$v=19$m=8,t=1,p=1$c2FsdA$aGFzaA", "$argon2id$v=19$m=x,t=1,p=1$c$d", "$argon2id$v=19$"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
