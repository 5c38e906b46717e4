//! Whether this machine's clock may be trusted beside the database server's: replicas compare each
//! other's leases by their own clocks.

use agentd_base::Clock;
use agentd_store::{DatabaseUrl, StoreError, server_clock_ahead};

use super::error::StartError;
use crate::config::Config;

/// Worth a warning: leases still hold, but not by much.
const WARN_ABOVE_MICROS: u64 = 2_000_000;
/// Beyond this a lease of another replica may look over while it is held.
const REFUSE_ABOVE_MICROS: u64 = 10_000_000;

/// What a difference between the clocks means. The text says which clock is off, and how far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClockAgreement {
    /// SQLite: no other machine takes part.
    Alone,
    Good(String),
    Warning(String),
    Unusable(String),
}

impl ClockAgreement {
    fn classify(ahead_micros: i64) -> Self {
        let apart = ahead_micros.unsigned_abs();
        #[allow(clippy::cast_precision_loss, reason = "a tenth of a second is shown")]
        let seconds = apart as f64 / 1e6;
        let which = if ahead_micros > 0 { "behind" } else { "ahead of" };
        let text = format!("this machine's clock is {seconds:.1} seconds {which} the database server's");
        if apart <= WARN_ABOVE_MICROS {
            Self::Good(text)
        } else if apart <= REFUSE_ABOVE_MICROS {
            Self::Warning(text)
        } else {
            Self::Unusable(text)
        }
    }
}

/// Compares `clock` with the database server's.
///
/// # Errors
/// The server cannot be asked.
pub async fn compare_clocks(config: &Config, clock: &Clock) -> Result<ClockAgreement, StoreError> {
    let url = DatabaseUrl::parse(config.database_url.as_ref(), &config.data_dir)?;
    let ahead = server_clock_ahead(&url, clock).await?;
    Ok(ahead.map_or(ClockAgreement::Alone, ClockAgreement::classify))
}

/// For whoever composes a daemon over the machine's own clock; one that a test moves is its own
/// business.
///
/// # Errors
/// `ClocksDisagree`, or the server cannot be asked.
pub async fn require_clock_agreement(config: &Config, clock: &Clock) -> Result<(), StartError> {
    match compare_clocks(config, clock).await? {
        ClockAgreement::Alone | ClockAgreement::Good(_) => Ok(()),
        ClockAgreement::Warning(difference) => {
            tracing::warn!("{difference}: set both by NTP, beyond 10 seconds no daemon starts");
            Ok(())
        }
        ClockAgreement::Unusable(difference) => Err(StartError::ClocksDisagree { difference }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_good_or_a_warning_or_too_large() {
        use ClockAgreement::{Good, Unusable, Warning};
        assert!(matches!(ClockAgreement::classify(0), Good(_)));
        assert!(matches!(ClockAgreement::classify(-2_000_000), Good(_)));
        assert!(matches!(ClockAgreement::classify(2_000_001), Warning(text) if text.contains("2.0 seconds behind")));
        assert!(
            matches!(ClockAgreement::classify(-10_000_000), Warning(text) if text.contains("10.0 seconds ahead of"))
        );
        assert!(matches!(ClockAgreement::classify(10_000_001), Unusable(_)));
        assert!(matches!(ClockAgreement::classify(i64::MIN), Unusable(_)));
    }
}
