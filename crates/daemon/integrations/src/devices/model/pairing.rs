//! Pairing codes: six digits, and what keeps them from being guessed.
//!
//! A million codes are few, so tries are: 5 a minute from one network, and 10 in all in the life of
//! a code. With [`MOST_OPEN_CODES`] open at once, guessing succeeds in less than one of 10,000 lives
//! of a code.

use std::time::Duration;

use agentd_base::{Timestamp, sha256};

use super::PairingCodeId;

pub(crate) const CODE_TTL: Duration = Duration::from_secs(300);
/// Wrong codes count for so long against their network.
pub(crate) const FAILURE_WINDOW: Duration = Duration::from_secs(60);
pub(crate) const MOST_FAILURES_OF_A_NETWORK: u32 = 5;
/// A further code voids the oldest.
pub(crate) const MOST_OPEN_CODES: u32 = 5;
/// So many wrong codes in the life of one void every open one.
pub(crate) const MOST_WRONG_TRIES: u32 = 10;

const CODES: u32 = 1_000_000;

/// Six digits out of random bits; `None` where they would make some codes likelier than others.
#[must_use]
pub(crate) fn code_from(random: u32) -> Option<String> {
    let fair = u32::MAX - u32::MAX % CODES;
    (random < fair).then(|| format!("{:06}", random % CODES))
}

/// What is stored of a code. The id in it makes equal codes look different.
#[must_use]
pub(crate) fn code_hash(id: &PairingCodeId, code: &str) -> [u8; 32] {
    sha256(format!("{id}:{code}").as_bytes())
}

/// How long a network has to wait before its next try is looked at; `None`: not at all. `failures`
/// are those in [`FAILURE_WINDOW`], newest first.
#[must_use]
pub(crate) fn evaluate(failures: &[Timestamp], now: Timestamp) -> Option<Duration> {
    let allowed = usize::try_from(MOST_FAILURES_OF_A_NETWORK).unwrap_or(usize::MAX);
    let oldest = failures.get(allowed - 1)?;
    Some((*oldest + FAILURE_WINDOW).since(now).max(Duration::from_secs(1)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn codes_are_fair() {
        assert_eq!(code_from(0).as_deref(), Some("000000"));
        assert_eq!(code_from(1_234_567).as_deref(), Some("234567"));
        assert_eq!(code_from(4_293_999_999).as_deref(), Some("999999"));
        assert_eq!(code_from(4_294_000_000), None);
        assert_eq!(code_from(u32::MAX), None);
    }

    #[test]
    fn the_fifth_failure_closes_until_it_leaves_the_window() {
        let at = |second: u64| Timestamp::default() + Duration::from_secs(second);
        let failures: Vec<Timestamp> = [40, 30, 20, 10, 0].map(at).to_vec();
        assert_eq!(evaluate(&failures[..4], at(41)), None);
        assert_eq!(evaluate(&failures, at(41)), Some(Duration::from_secs(19)));
    }

    proptest! {
        #[test]
        fn waiting_as_told_is_enough(seconds in prop::collection::vec(0u64..60, 0..12)) {
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
