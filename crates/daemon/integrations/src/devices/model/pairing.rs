//! Pairing codes: six digits, with limits that prevent guessing.
//!
//! A code is one of only a million, so attempts are limited to 5 per minute from one network and 10 in total during the
//! lifetime of a code. With [`MAX_OPEN_CODES`] open codes, the probability that guessing succeeds is below 1 in 10,000
//! per code lifetime.

use std::time::Duration;

use agentd_base::{Timestamp, sha256};

use super::PairingCodeId;

pub(crate) const CODE_TTL: Duration = Duration::from_secs(300);
/// Duration for which a wrong code counts against the network it came from.
pub(crate) const FAILURE_WINDOW: Duration = Duration::from_secs(60);
pub(crate) const MAX_FAILURES_PER_NETWORK: u32 = 5;
/// Creating another code voids the oldest one.
pub(crate) const MAX_OPEN_CODES: u32 = 5;
/// This many wrong codes during the lifetime of a code void all open codes.
pub(crate) const MAX_WRONG_ATTEMPTS: u32 = 10;

const CODE_COUNT: u32 = 1_000_000;

/// Derives six digits from random bits. Returns `None` for values that would bias the distribution.
#[must_use]
pub(crate) fn code_from(random: u32) -> Option<String> {
    let bound = u32::MAX - u32::MAX % CODE_COUNT;
    (random < bound).then(|| format!("{:06}", random % CODE_COUNT))
}

/// The hash that is stored for a code. It includes the id, so equal codes have different hashes.
#[must_use]
pub(crate) fn code_hash(id: &PairingCodeId, code: &str) -> [u8; 32] {
    sha256(format!("{id}:{code}").as_bytes())
}

/// Returns the time until the next attempt of a network is checked; `None` if it need not wait. `failures` are the
/// failures within [`FAILURE_WINDOW`], newest first.
#[must_use]
pub(crate) fn evaluate(failures: &[Timestamp], now: Timestamp) -> Option<Duration> {
    let allowed = usize::try_from(MAX_FAILURES_PER_NETWORK).unwrap_or(usize::MAX);
    let oldest = failures.get(allowed - 1)?;
    Some((*oldest + FAILURE_WINDOW).since(now).max(Duration::from_secs(1)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn codes_are_uniformly_distributed() {
        assert_eq!(code_from(0).as_deref(), Some("000000"));
        assert_eq!(code_from(1_234_567).as_deref(), Some("234567"));
        assert_eq!(code_from(4_293_999_999).as_deref(), Some("999999"));
        assert_eq!(code_from(4_294_000_000), None);
        assert_eq!(code_from(u32::MAX), None);
    }

    #[test]
    fn fifth_failure_blocks_until_it_leaves_the_window() {
        let at = |second: u64| Timestamp::default() + Duration::from_secs(second);
        let failures: Vec<Timestamp> = [40, 30, 20, 10, 0].map(at).to_vec();
        assert_eq!(evaluate(&failures[..4], at(41)), None);
        assert_eq!(evaluate(&failures, at(41)), Some(Duration::from_secs(19)));
    }

    proptest! {
        #[test]
        fn waiting_for_the_returned_time_is_sufficient(seconds in prop::collection::vec(0u64..60, 0..12)) {
            let at = |second: u64| Timestamp::default() + Duration::from_secs(second);
            let mut seconds = seconds;
            seconds.sort_unstable_by(|a, b| b.cmp(a));
            let recent = |now: Timestamp| -> Vec<Timestamp> {
                seconds.iter().map(|second| at(*second)).filter(|when| *when > now - FAILURE_WINDOW).collect()
            };
            if let Some(wait) = evaluate(&recent(at(59)), at(59)) {
                let then = at(59) + wait;
                prop_assert_eq!(evaluate(&recent(then), then), None);
            }
        }
    }
}
