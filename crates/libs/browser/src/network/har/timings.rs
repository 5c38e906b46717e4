//! Timings of a request by phase.

use serde_json::{Value, json};

use super::events::Timing;

/// Returns the phases and their total in milliseconds.
pub(super) fn timings(started: f64, timing: Option<&Timing>, ended: Option<f64>) -> (Value, f64) {
    let Some(timing) = timing else {
        // Served from a cache or a mock, or not answered.
        let wait = ended.map_or(0.0, |ended| round((ended - started) * 1e3));
        let parts = json!({
            "blocked": -1, "dns": -1, "connect": -1, "ssl": -1, "send": 0, "wait": wait, "receive": 0,
        });
        return (parts, wait);
    };
    let span = |start: f64, end: f64| if start < 0.0 { -1.0 } else { round(end - start) };
    let first = [timing.dns_start, timing.connect_start, timing.send_start].into_iter().find(|start| *start >= 0.0);
    let blocked = round((timing.request_time - started) * 1e3 + first.unwrap_or(0.0));
    let dns = span(timing.dns_start, timing.dns_end);
    let connect = span(timing.connect_start, timing.connect_end);
    let ssl = span(timing.ssl_start, timing.ssl_end);
    let send = round(timing.send_end - timing.send_start);
    let wait = round(timing.receive_headers_end - timing.send_end);
    let received = ended.map_or(0.0, |ended| (ended - timing.request_time) * 1e3 - timing.receive_headers_end);
    let receive = round(received);
    // TLS is part of connecting.
    let total = [blocked, dns, connect, send, wait, receive].into_iter().filter(|part| *part > 0.0).sum();
    let parts = json!({
        "blocked": blocked, "dns": dns, "connect": connect, "ssl": ssl, "send": send, "wait": wait, "receive": receive,
    });
    (parts, round(total))
}

/// Rounds to microseconds and clamps at zero, since two clocks are involved.
pub(super) fn round(milliseconds: f64) -> f64 {
    (milliseconds.max(0.0) * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_add_up_to_the_total() {
        let timing = Timing {
            request_time: 100.010,
            dns_start: 1.0,
            dns_end: 3.0,
            connect_start: 3.0,
            connect_end: 9.0,
            ssl_start: 5.0,
            ssl_end: 9.0,
            send_start: 9.5,
            send_end: 10.0,
            receive_headers_end: 30.0,
        };
        let (parts, total) = timings(100.0, Some(&timing), Some(100.050));
        let expected = json!({
            "blocked": 11.0, "dns": 2.0, "connect": 6.0, "ssl": 4.0, "send": 0.5, "wait": 20.0, "receive": 10.0,
        });
        assert_eq!((parts, total), (expected, 49.5));
        let reused = Timing { dns_start: -1.0, connect_start: -1.0, ssl_start: -1.0, ..timing };
        let (parts, _) = timings(100.0, Some(&reused), None);
        assert_eq!((&parts["dns"], &parts["ssl"], &parts["receive"]), (&json!(-1.0), &json!(-1.0), &json!(0.0)));
        assert_eq!(timings(1.0, None, Some(1.5)).0["wait"], 500.0);
    }
}
