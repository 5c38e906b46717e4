//! How long a provider asks to wait (RFC 9110, section 10.2.3, and OpenAI's `retry-after-ms`).

use std::time::Duration;

use http::HeaderMap;

/// Nobody waits longer than a day on a provider's word.
const LONGEST: Duration = Duration::from_secs(86_400);

/// A date is taken relative to the answer's own `Date`, so that the clocks need not agree.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let in_milliseconds = text("retry-after-ms").and_then(|text| text.parse::<f64>().ok()).map(|ms| ms / 1000.0);
    let in_seconds = in_milliseconds.or_else(|| text("retry-after")?.parse::<f64>().ok());
    let wait = match in_seconds {
        Some(seconds) => Duration::try_from_secs_f64(seconds).ok()?,
        None => {
            let until = httpdate::parse_http_date(text("retry-after")?).ok()?;
            let sent = httpdate::parse_http_date(text("date")?).ok()?;
            until.duration_since(sent).unwrap_or_default()
        }
    };
    Some(wait.min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(fields: &[(&'static str, &'static str)]) -> Option<f64> {
        let headers = fields.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        retry_after(&headers).map(|wait| wait.as_secs_f64())
    }

    #[test]
    fn seconds_milliseconds_and_dates() {
        let date = ("date", "Fri, 20 Nov 2026 10:00:00 GMT");
        assert_eq!(read(&[("retry-after", "7")]), Some(7.0));
        assert_eq!(read(&[("retry-after", "0.5")]), Some(0.5));
        assert_eq!(read(&[("retry-after-ms", "250"), ("retry-after", "1")]), Some(0.25));
        assert_eq!(read(&[("retry-after", "Fri, 20 Nov 2026 10:01:30 GMT"), date]), Some(90.0));
        assert_eq!(read(&[("retry-after", "Fri, 20 Nov 2026 09:00:00 GMT"), date]), Some(0.0));
        assert_eq!(read(&[("retry-after", "Fri, 20 Nov 2026 10:01:30 GMT")]), None);
        assert_eq!(read(&[("retry-after", "-3")]), None);
        assert_eq!(read(&[("retry-after", "soon"), date]), None);
        assert_eq!(read(&[("retry-after", "1e9")]), Some(86_400.0));
        assert_eq!(read(&[]), None);
    }
}
