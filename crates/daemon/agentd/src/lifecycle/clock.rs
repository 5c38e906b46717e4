//! Comparison of this machine's clock with the database server's. Replicas evaluate each other's leases with their own
//! clocks, so the clocks must agree.

use agentd_base::Clock;
use agentd_store::{DatabaseUrl, StoreError, server_clock_offset};

use super::error::StartError;
use crate::config::Config;

/// Difference that causes a warning. Leases still work, with little margin.
const WARN_ABOVE_MICROS: u64 = 2_000_000;
/// Difference that prevents the start: a lease held by another replica may appear expired.
const REFUSE_ABOVE_MICROS: u64 = 10_000_000;

/// Assessment of the clock difference. The text describes the difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClockAgreement {
    /// SQLite, where no other machine is involved.
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
/// `StoreError` if the server cannot be queried.
pub async fn compare_clocks(config: &Config, clock: &Clock) -> Result<ClockAgreement, StoreError> {
    let url = DatabaseUrl::parse(config.database_url.as_ref(), &config.data_dir)?;
    let ahead = server_clock_offset(&url, clock).await?;
    Ok(ahead.map_or(ClockAgreement::Alone, ClockAgreement::classify))
}

/// Checks that the system clock agrees with the database server's. Not for clocks that a test controls.
///
/// # Errors
/// `ClocksDisagree` if the difference is too large, `Store` if the server cannot be queried.
pub async fn require_clock_agreement(config: &Config, clock: &Clock) -> Result<(), StartError> {
    match compare_clocks(config, clock).await? {
        ClockAgreement::Alone | ClockAgreement::Good(_) => Ok(()),
        ClockAgreement::Warning(difference) => {
            tracing::warn!(
                "clocks differ: {difference}; synchronize both by NTP, the daemon does not start beyond 10 seconds"
            );
            Ok(())
        }
        ClockAgreement::Unusable(difference) => Err(StartError::ClocksDisagree { difference }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn difference_is_classified_by_its_size() {
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
