//! How guessing passwords is slowed down.
//!
//! One address that fails too often for a user is refused for a while. Over all addresses a user's
//! failures only delay the next checks, up to a cap, so that nobody can lock the owner out.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use agentd_base::Timestamp;

const FIRST_DELAY: Duration = Duration::from_millis(250);
const LONGEST_DELAY: Duration = Duration::from_secs(10);

/// What the security settings say of logins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LoginPolicy {
    pub(crate) session_ttl: Duration,
    pub(crate) max_failures: u32,
    pub(crate) window: Duration,
}

/// Whom failures are counted for: an IPv4 address, or an IPv6 /64, which is what one customer
/// commonly holds, or the daemon's own machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Network {
    Own,
    Address(IpAddr),
}

impl Network {
    #[must_use]
    pub(crate) fn of(address: Option<IpAddr>) -> Self {
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

/// What becomes of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Refused without looking at the password.
    Refused { retry_after: Duration },
    /// Checked after a delay.
    Checked { delay: Duration },
}

/// Decides about an attempt. `here` are the times of the user's failures from this network within the
/// window, newest first, at most `max_failures` of them; `everywhere` is how many there were from
/// all networks.
#[must_use]
pub(crate) fn evaluate(policy: &LoginPolicy, here: &[Timestamp], everywhere: u32, now: Timestamp) -> Standing {
    let allowed = usize::try_from(policy.max_failures.max(1)).unwrap_or(usize::MAX);
    if let Some(oldest) = here.get(allowed - 1) {
        let retry_after = (*oldest + policy.window).since(now).max(Duration::from_secs(1));
        return Standing::Refused { retry_after };
    }
    Standing::Checked { delay: delay_after(everywhere, policy.max_failures) }
}

fn delay_after(failures: u32, free: u32) -> Duration {
    match failures.checked_sub(free.max(1)) {
        None => Duration::ZERO,
        Some(doublings) => FIRST_DELAY.saturating_mul(2u32.saturating_pow(doublings)).min(LONGEST_DELAY),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const POLICY: LoginPolicy =
        LoginPolicy { session_ttl: Duration::from_secs(86_400), max_failures: 5, window: Duration::from_secs(900) };

    #[test]
    fn the_fifth_failure_closes_until_it_leaves_the_window() {
        let at = |second: u64| Timestamp::default() + Duration::from_secs(second);
        let failures: Vec<Timestamp> = [40, 30, 20, 10, 0].map(at).to_vec();
        assert!(matches!(evaluate(&POLICY, &failures[1..], 4, at(41)), Standing::Checked { delay: Duration::ZERO }));
        let refused = evaluate(&POLICY, &failures, 5, at(41));
        assert_eq!(refused, Standing::Refused { retry_after: Duration::from_secs(900 - 41) });
    }

    #[test]
    fn customers_of_ipv6_count_by_their_network() {
        let network = |text: &str| Network::of(Some(text.parse().unwrap())).to_string();
        assert_eq!(network("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(network("::ffff:192.0.2.1"), "192.0.2.1");
        assert_eq!(network("192.0.2.1"), "192.0.2.1");
        assert_eq!(Network::of(None), Network::Own);
    }

    proptest! {
        #[test]
        fn failures_from_elsewhere_only_delay(everywhere in 0u32..100_000, max_failures in 1u32..100) {
            let policy = LoginPolicy { max_failures, ..POLICY };
            let Standing::Checked { delay } = evaluate(&policy, &[], everywhere, Timestamp::default()) else {
                panic!("locked out by others");
            };
            prop_assert!(delay <= LONGEST_DELAY);
            prop_assert_eq!(delay.is_zero(), everywhere < max_failures);
            let Standing::Checked { delay: next } = evaluate(&policy, &[], everywhere + 1, Timestamp::default()) else {
                panic!("locked out by others");
            };
            prop_assert!(next >= delay);
        }

        #[test]
        fn waiting_as_told_is_enough(seconds in prop::collection::vec(0u64..2000, 1..12), max_failures in 1u32..8) {
            let policy = LoginPolicy { max_failures, ..POLICY };
            let now = Timestamp::default() + Duration::from_secs(2000);
            let mut failures: Vec<Timestamp> =
                seconds.into_iter().map(|second| Timestamp::default() + Duration::from_secs(second)).collect();
            failures.sort_unstable_by(|a, b| b.cmp(a));
            let recent = |now: Timestamp| -> Vec<Timestamp> {
                let since = now - policy.window;
                failures.iter().copied().filter(|at| *at > since).take(max_failures as usize).collect()
            };
            if let Standing::Refused { retry_after } = evaluate(&policy, &recent(now), 0, now) {
                prop_assert!(retry_after <= policy.window);
                let then = now + retry_after;
                prop_assert!(matches!(evaluate(&policy, &recent(then), 0, then), Standing::Checked { .. }), "still refused");
            }
        }
    }
}
