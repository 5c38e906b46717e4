//! Parsing of `Retry-After` (RFC 9110, section 10.2.3) and OpenAI's `retry-after-ms`.

use std::time::{Duration, UNIX_EPOCH};

use agentd_base::Timestamp;
use http::HeaderMap;

/// Maximum accepted delay, one day.
pub const MAX_RETRY_AFTER: Duration = Duration::from_secs(86_400);

/// Returns the requested delay; `None` if it is missing or invalid. A date is relative to `now`, or to the response's
/// `Date` header if the caller has no clock.
#[must_use]
pub fn retry_after(headers: &HeaderMap, now: Option<Timestamp>) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let number = |name: &str| text(name)?.parse::<f64>().ok().filter(|number| number.is_finite());
    let in_milliseconds = number("retry-after-ms").map(|ms| ms / 1000.0);
    let in_seconds = in_milliseconds.or_else(|| number("retry-after"));
    let wait = match in_seconds {
        Some(seconds) => Duration::try_from_secs_f64(seconds).ok()?,
        None => {
            let until = httpdate::parse_http_date(text("retry-after")?).ok()?;
            let sent = || text("date").and_then(|date| httpdate::parse_http_date(date).ok());
            let now =
                now.and_then(|now| UNIX_EPOCH.checked_add(Duration::from_micros(u64::try_from(now.as_micros()).ok()?)));
            until.duration_since(now.or_else(sent)?).unwrap_or_default()
        }
    };
    Some(wait.min(MAX_RETRY_AFTER))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(fields: &[(&'static str, &str)], now: Option<&str>) -> Option<f64> {
        let headers = fields.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        retry_after(&headers, now.map(|now| Timestamp::parse(now).unwrap())).map(|wait| wait.as_secs_f64())
    }

    #[test]
    fn seconds_milliseconds_and_dates_are_parsed() {
        let date = ("date", "Fri, 20 Nov 2026 10:00:00 GMT");
        let until = ("retry-after", "Fri, 20 Nov 2026 10:01:30 GMT");
        assert_eq!(read(&[("retry-after", " 7 ")], None), Some(7.0));
        assert_eq!(read(&[("retry-after", "0.5")], None), Some(0.5));
        assert_eq!(read(&[("retry-after-ms", "250"), ("retry-after", "1")], None), Some(0.25));
        assert_eq!(read(&[("retry-after-ms", "nan"), ("retry-after", "1")], None), Some(1.0));
        assert_eq!(read(&[until, date], None), Some(90.0));
        assert_eq!(read(&[until, date], Some("2026-11-20T10:01:00Z")), Some(30.0));
        assert_eq!(read(&[until], Some("2026-11-20T10:01:00Z")), Some(30.0));
        assert_eq!(read(&[("retry-after", "Fri, 20 Nov 2026 09:00:00 GMT"), date], None), Some(0.0));
        assert_eq!(read(&[until], None), None);
        for bad in ["-3", "soon", "", "nan", "99999999999999999999999"] {
            assert_eq!(read(&[("retry-after", bad), date], None), None, "{bad}");
        }
        assert_eq!(read(&[("retry-after", "1e9")], None), Some(86_400.0));
        assert_eq!(read(&[], None), None);
    }

    proptest! {
        #[test]
        fn any_header_is_parsed_without_panic(bytes in proptest::collection::vec(32_u8..=255, 0..40), now in any::<i64>()) {
            if let Ok(value) = http::HeaderValue::from_bytes(&bytes) {
                let headers = HeaderMap::from_iter([(http::header::RETRY_AFTER, value)]);
                let wait = retry_after(&headers, Some(Timestamp::from_micros(now)));
                prop_assert!(wait.is_none_or(|wait| wait <= MAX_RETRY_AFTER));
            }
        }
    }
}
