//! Slows down password guessing.
//!
//! After `max_failures` failures of a user from one network within the window, attempts from there are rejected until a
//! wait after the last failure has passed. The wait doubles with every further failure, up to a minute, so that another
//! user of the owner's machine cannot lock the owner out for long. Failures from all networks only delay the next
//! checks.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use agentd_base::Timestamp;

/// Wait after the first failure that exceeds the allowed ones.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const MAX_WAIT: Duration = Duration::from_secs(60);
const FIRST_DELAY: Duration = Duration::from_millis(250);
const MAX_DELAY: Duration = Duration::from_secs(10);

/// Security settings of logins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LoginPolicy {
    pub(crate) session_ttl: Duration,
    pub(crate) max_failures: u32,
    pub(crate) window: Duration,
}

/// Network for which failures are counted: an IPv4 address, an IPv6 /64 network (the usual size for one customer), or
/// the daemon's own machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Network {
    Own,
    Address(IpAddr),
}

impl Network {
    #[must_use]
    pub fn from_address(address: Option<IpAddr>) -> Self {
        match address.map(|address| address.to_canonical()) {
            None => Self::Own,
            Some(IpAddr::V6(address)) => {
                let network = address.to_bits() & !u128::from(u64::MAX);
                Self::Address(IpAddr::V6(network.into()))
            }
            Some(address) => Self::Address(address),
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own => f.write_str("own"),
            Self::Address(address) => address.fmt(f),
        }
    }
}

/// Decision about an attempt to log in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttemptDecision {
    /// The attempt is rejected without checking the password.
    Refused { retry_after: Duration },
    /// The password is checked after a delay.
    Checked { delay: Duration },
}

impl LoginPolicy {
    /// Number of the newest failures from one network that decide about the wait.
    #[must_use]
    pub(crate) fn deciding_failures(&self) -> u32 {
        self.max_failures.max(1).saturating_add(MAX_WAIT.as_secs().ilog2() + 1)
    }
}

/// Decides whether an attempt is checked or rejected.
///
/// `here` are the times of the user's failures from this network within the window, newest first, at most
/// [`LoginPolicy::deciding_failures`] of them. `everywhere` is the number of failures from all networks.
#[must_use]
pub(crate) fn evaluate(policy: &LoginPolicy, here: &[Timestamp], everywhere: u32, now: Timestamp) -> AttemptDecision {
    let allowed = usize::try_from(policy.max_failures.max(1)).unwrap_or(usize::MAX);
    if let (Some(newest), Some(excess)) = (here.first(), here.len().checked_sub(allowed)) {
        let doublings = u32::try_from(excess).unwrap_or(u32::MAX);
        let wait = FIRST_WAIT.saturating_mul(2u32.saturating_pow(doublings)).min(MAX_WAIT);
        let retry_after = (*newest + wait).since(now);
        if !retry_after.is_zero() {
            return AttemptDecision::Refused { retry_after };
        }
    }
    AttemptDecision::Checked { delay: check_delay(everywhere, policy.max_failures) }
}

fn check_delay(failures: u32, free: u32) -> Duration {
    match failures.checked_sub(free.max(1)) {
        None => Duration::ZERO,
        Some(doublings) => FIRST_DELAY.saturating_mul(2u32.saturating_pow(doublings)).min(MAX_DELAY),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const POLICY: LoginPolicy =
        LoginPolicy { session_ttl: Duration::from_secs(86_400), max_failures: 5, window: Duration::from_secs(900) };

    #[test]
    fn failures_beyond_the_allowed_ones_double_the_wait() {
        let at = |second: u64| Timestamp::default() + Duration::from_secs(second);
        let mut failures: Vec<Timestamp> = [30, 20, 10, 0].map(at).to_vec();
        assert!(matches!(evaluate(&POLICY, &failures, 4, at(30)), AttemptDecision::Checked { delay: Duration::ZERO }));
        for (number, wait) in [1, 2, 4, 8, 16, 32, 60, 60, 60].into_iter().enumerate() {
            let now = at(100 + 100 * u64::try_from(number).unwrap());
            failures.insert(0, now);
            let counted = &failures[..failures.len().min(POLICY.deciding_failures() as usize)];
            let retry_after = Duration::from_secs(wait);
            assert_eq!(
                evaluate(&POLICY, counted, 0, now),
                AttemptDecision::Refused { retry_after },
                "failure {number}"
            );
            assert!(matches!(evaluate(&POLICY, counted, 0, now + retry_after), AttemptDecision::Checked { .. }));
        }
    }

    #[test]
    fn guesses_per_day_from_one_address_are_bounded() {
        let (mut now, mut failures, mut guesses) = (Timestamp::default(), Vec::new(), 0);
        while now < Timestamp::default() + Duration::from_secs(86_400) {
            let since = now - POLICY.window;
            let counted = failures.iter().copied().rev().filter(|at| *at > since);
            let counted: Vec<Timestamp> = counted.take(POLICY.deciding_failures() as usize).collect();
            match evaluate(&POLICY, &counted, 0, now) {
                AttemptDecision::Refused { retry_after } => now = now + retry_after,
                AttemptDecision::Checked { .. } => {
                    guesses += 1;
                    failures.push(now);
                }
            }
        }
        assert!(guesses <= 1_500, "{guesses} guesses a day");
    }

    #[test]
    fn ipv6_addresses_count_by_their_network() {
        let network = |text: &str| Network::from_address(Some(text.parse().unwrap())).to_string();
        assert_eq!(network("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(network("::ffff:192.0.2.1"), "192.0.2.1");
        assert_eq!(network("192.0.2.1"), "192.0.2.1");
        assert_eq!(Network::from_address(None), Network::Own);
    }

    proptest! {
        #[test]
        fn failures_from_elsewhere_only_delay(everywhere in 0u32..100_000, max_failures in 1u32..100) {
            let policy = LoginPolicy { max_failures, ..POLICY };
            let AttemptDecision::Checked { delay } = evaluate(&policy, &[], everywhere, Timestamp::default()) else {
                panic!("rejected because of failures from other networks");
                };
                prop_assert!(delay <= MAX_DELAY);
            prop_assert_eq!(delay.is_zero(), everywhere < max_failures);
            let AttemptDecision::Checked { delay: next } = evaluate(&policy, &[], everywhere + 1, Timestamp::default()) else {
                panic!("rejected because of failures from other networks");
            };
            prop_assert!(next >= delay);
        }

        #[test]
        fn attempt_is_checked_after_retry_after(seconds in prop::collection::vec(0u64..2000, 1..12), max_failures in 1u32..8) {
            let policy = LoginPolicy { max_failures, ..POLICY };
            let now = Timestamp::default() + Duration::from_secs(2000);
            let counted = policy.deciding_failures() as usize;
            let mut failures: Vec<Timestamp> =
                seconds.into_iter().map(|second| Timestamp::default() + Duration::from_secs(second)).collect();
            failures.sort_unstable_by(|a, b| b.cmp(a));
            let recent = |now: Timestamp| -> Vec<Timestamp> {
                let since = now - policy.window;
                failures.iter().copied().filter(|at| *at > since).take(counted).collect()
            };
            if let AttemptDecision::Refused { retry_after } = evaluate(&policy, &recent(now), 0, now) {
                prop_assert!(retry_after <= MAX_WAIT);
                let then = now + retry_after;
                prop_assert!(matches!(evaluate(&policy, &recent(then), 0, then), AttemptDecision::Checked { .. }), "still rejected");
            }
        }
    }
}
