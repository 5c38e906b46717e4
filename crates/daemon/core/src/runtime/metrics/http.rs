//! Request counts and latencies. Labels are the route template, the method and the status class. Each combination has a
//! fixed set of counters, created at its first request and retained.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use agentd_web::RequestObserver;
use arc_swap::ArcSwap;
use http::{Method, StatusCode};

use super::exposition::{FamilySnapshot, float};
use super::source::{Family, Sample};
use crate::runtime::recorder::{HistogramFamily, LabelledHistogram, Recorder, Series};

/// Upper bounds of the histogram, in microseconds.
const BOUNDS_US: &[u64] = &[
    1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000,
];
const STATUS_CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];
const METHODS: [&str; 8] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "other"];
/// Safety limit: route templates come from the router and are few.
const MAX_ROUTES: usize = 1024;
const OTHER_ROUTE: &str = "other";

#[derive(Debug)]
struct MethodMetrics {
    /// Method and route template, such as `GET /api/agents`.
    label: Box<str>,
    by_class: [AtomicU64; STATUS_CLASSES.len()],
    latency: LabelledHistogram,
}

type RouteMetrics = [OnceLock<Box<MethodMetrics>>; METHODS.len()];

#[derive(Debug)]
pub(super) struct HttpMetrics {
    routes: ArcSwap<HashMap<Box<str>, Arc<RouteMetrics>>>,
    latency: HistogramFamily,
    recorder: Recorder,
}

impl HttpMetrics {
    pub(super) fn new(recorder: Recorder) -> Self {
        let name = "svc_http_request_duration_seconds";
        let help = "Time until the response headers were sent; a stream continues after that.";
        let latency = HistogramFamily::new(recorder.meter(), (name, help), &["route", "method"], BOUNDS_US);
        Self { routes: ArcSwap::default(), latency, recorder }
    }

    fn route(&self, route: &str) -> Arc<RouteMetrics> {
        if let Some(found) = self.routes.load().get(route) {
            return Arc::clone(found);
        }
        self.routes.rcu(|known| {
            let mut known = HashMap::clone(known);
            let name = if known.len() < MAX_ROUTES { route } else { OTHER_ROUTE };
            known.entry(name.into()).or_default();
            known
        });
        let known = self.routes.load();
        known.get(route).or_else(|| known.get(OTHER_ROUTE)).map(Arc::clone).unwrap_or_default()
    }

    pub(super) fn families(&self) -> [FamilySnapshot; 2] {
        let mut routes: Vec<_> =
            self.routes.load().iter().map(|(name, route)| (name.clone(), Arc::clone(route))).collect();
        routes.sort_unstable_by(|(left, _), (right, _)| left.cmp(right));
        let (mut samples, mut series) = (Vec::new(), Vec::new());
        for (route, methods) in &routes {
            for (method, metrics) in METHODS.iter().zip(methods.iter()) {
                let Some(metrics) = metrics.get() else { continue };
                let labels = [route.to_string(), (*method).to_owned()];
                for (class, count) in STATUS_CLASSES.iter().zip(&metrics.by_class) {
                    let value = float(count.load(Ordering::Relaxed));
                    if value > 0.0 {
                        let labels = labels.iter().cloned().chain([(*class).to_owned()]).collect();
                        samples.push(Sample { labels, value });
                    }
                }
                series.push((labels.into(), metrics.latency.prometheus()));
            }
        }
        let help = "Requests by route, method and status class.";
        let family = Family::counter("svc_http_requests_total", help).by(&["route", "method", "status"]);
        let HistogramFamily { name, help, labels, .. } = self.latency;
        [FamilySnapshot::Values { family, samples }, FamilySnapshot::Histograms { name, help, labels, series }]
    }

    fn method(&self, method: &str, route: &str) -> MethodMetrics {
        MethodMetrics {
            label: format!("{method} {route}").into(),
            by_class: Default::default(),
            latency: self.latency.with(&[route, method]),
        }
    }
}

impl RequestObserver for HttpMetrics {
    fn observe(&self, method: &Method, route: &str, status: StatusCode, elapsed: Duration) {
        let position = METHODS.iter().position(|name| *name == method.as_str()).unwrap_or(METHODS.len() - 1);
        let metrics = self.route(route);
        let Some(slot) = metrics.get(position) else { return };
        let metrics = slot.get_or_init(|| Box::new(self.method(METHODS[position], route)));
        if let Some(count) = metrics.by_class.get(usize::from(status.as_u16() / 100).saturating_sub(1)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        metrics.latency.record(elapsed);
        self.recorder.record(Series::Request, &metrics.label, elapsed, status.is_server_error());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::metrics::exposition;

    fn text(metrics: &HttpMetrics) -> String {
        String::from_utf8(exposition::text(metrics.families().into()).to_vec()).unwrap()
    }

    #[test]
    fn requests_are_counted_by_class_and_buckets_are_cumulative() {
        let metrics = HttpMetrics::new(Recorder::default());
        let route = "/api/agents/{name}";
        metrics.observe(&Method::GET, route, StatusCode::OK, Duration::from_micros(1_000));
        metrics.observe(&Method::GET, route, StatusCode::NOT_FOUND, Duration::from_micros(1_001));
        metrics.observe(&Method::GET, route, StatusCode::OK, Duration::from_secs(20));
        let text = text(&metrics);
        let labels = r#"route="/api/agents/{name}",method="GET""#;
        for line in [
            format!(r#"svc_http_requests_total{{{labels},status="2xx"}} 2"#),
            format!(r#"svc_http_requests_total{{{labels},status="4xx"}} 1"#),
            format!(r#"svc_http_request_duration_seconds_bucket{{{labels},le="0.001"}} 1"#),
            format!(r#"svc_http_request_duration_seconds_bucket{{{labels},le="0.0025"}} 2"#),
            format!(r#"svc_http_request_duration_seconds_bucket{{{labels},le="10"}} 2"#),
            format!(r#"svc_http_request_duration_seconds_bucket{{{labels},le="+Inf"}} 3"#),
            format!("svc_http_request_duration_seconds_count{{{labels}}} 3"),
            format!("svc_http_request_duration_seconds_sum{{{labels}}} 20.002001"),
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }

    #[test]
    fn routes_and_methods_are_bounded() {
        let metrics = HttpMetrics::new(Recorder::default());
        for number in 0..MAX_ROUTES + 50 {
            let method = Method::from_bytes(format!("M{number}").as_bytes()).unwrap();
            metrics.observe(&method, &format!("/{number}"), StatusCode::OK, Duration::ZERO);
        }
        assert_eq!(metrics.routes.load().len(), MAX_ROUTES + 1);
        let text = text(&metrics);
        assert!(text.contains(r#"svc_http_requests_total{route="other",method="other",status="2xx"} 50"#));
        assert!(!text.contains("M1"));
    }
}
