//! Conversion of a sample to lines of text.

use serde_json::Value;

use super::sample::Sample;

/// Highlighting of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Faint,
    Good,
    Warning,
    Bad,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) text: String,
    pub(super) tone: Tone,
}

/// Placeholder of unknown values.
const UNKNOWN: &str = "–";
const MAX_ROUTES: usize = 8;
const MAX_ITEMS: usize = 6;
/// Maximum length of text from the daemon.
const MAX_CHARACTERS: usize = 200;

pub(super) fn lines(sample: &Sample) -> Vec<Line> {
    let mut view = View::default();
    view.head(sample);
    if !sample.is_reachable {
        return view.0;
    }
    view.problems(sample);
    view.statistics(sample);
    let entries = |name: &str| sample.performance.get(name).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    view.timed("SLOWEST ROUTES", "route", entries("routes"), MAX_ROUTES);
    view.timed("MODELS BY PROVIDER", "name", entries("providers"), MAX_ITEMS);
    view.timed("TOOLS", "name", entries("tools"), MAX_ITEMS);
    view.queues(entries("queues"));
    view.0
}

#[derive(Default)]
struct View(Vec<Line>);

impl View {
    fn line(&mut self, tone: Tone, text: impl Into<String>) {
        self.0.push(Line { text: text.into(), tone });
    }

    fn title(&mut self, text: &str) {
        self.line(Tone::Plain, "");
        self.line(Tone::Faint, text);
    }

    fn head(&mut self, sample: &Sample) {
        let health = &sample.health;
        let overall = if sample.is_reachable { text(health, "overall") } else { "unavailable".to_owned() };
        let tone = match overall.as_str() {
            "healthy" => Tone::Good,
            "degraded" => Tone::Warning,
            "unhealthy" | "unavailable" => Tone::Bad,
            _ => Tone::Plain,
        };
        let at = sample.at.to_string();
        let uptime = number(health, "uptime").map_or_else(|| UNKNOWN.to_owned(), duration);
        let version = text(health, "version");
        self.line(tone, format!("agentd {version}  {overall}  up {uptime}  {at}  (q quits)"));
        if let Some(error) = &sample.error {
            self.line(Tone::Bad, sanitize(error));
        }
    }

    /// Shows unhealthy components and active alerts.
    fn problems(&mut self, sample: &Sample) {
        for component in list(&sample.health, "components") {
            let status = text(component, "status");
            if !["healthy", "unknown", UNKNOWN].contains(&status.as_str()) {
                let tone = if status == "unhealthy" { Tone::Bad } else { Tone::Warning };
                self.line(tone, format!("{} {status}: {}", text(component, "name"), text(component, "message")));
            }
        }
        for alert in list(&sample.alerts, "alerts") {
            let state = text(alert, "state");
            if ["firing", "acknowledged", "snoozed"].contains(&state.as_str()) {
                let tone = if state == "firing" { Tone::Bad } else { Tone::Warning };
                let (name, value) = (text(alert, "name"), format_number(number(alert, "value"), 2));
                self.line(tone, format!("alert {name}: {state}, {value}, since {}", text(alert, "firing_since")));
            }
        }
    }

    fn statistics(&mut self, sample: &Sample) {
        let performance = &sample.performance;
        let (requests, turns) = (at(performance, &["requests"]), at(performance, &["turns"]));
        self.line(
            Tone::Plain,
            format!(
                "requests {}/s  errors {}  p50 {}  p95 {}  p99 {}",
                format_number(number(requests, "per_second"), 1),
                share(number(requests, "error_rate")),
                milliseconds(number(requests, "p50_ms")),
                milliseconds(number(requests, "p95_ms")),
                milliseconds(number(requests, "p99_ms"))
            ),
        );
        let running = sample.turns_running.map_or_else(|| UNKNOWN.to_owned(), |running| running.to_string());
        self.line(
            Tone::Plain,
            format!(
                "turns    {running} running  {} in {}  errors {}  first token p95 {}  total p95 {}",
                format_number(number(turns, "count"), 0),
                number(performance, "window_seconds").map_or_else(|| UNKNOWN.to_owned(), duration),
                share(number(turns, "error_rate")),
                milliseconds(number(turns, "first_token_p95_ms")),
                milliseconds(number(turns, "duration_p95_ms"))
            ),
        );
        let tokens = &sample.tokens;
        self.line(
            Tone::Plain,
            format!(
                "tokens   {}/s  today {}{}  total {}{}",
                format_number(sample.tokens_per_second, 1),
                format_number(number(tokens, "used_today"), 0),
                of_limit(number(tokens, "limit_today")),
                format_number(number(tokens, "total_used"), 0),
                of_limit(number(tokens, "total_limit"))
            ),
        );
        let system = &sample.system;
        let (cpu, memory) = (at(system, &["cpu"]), at(system, &["memory"]));
        self.line(
            Tone::Plain,
            format!(
                "machine  cpu {} of {}  load {}  memory {}  disk {}",
                percent(number(cpu, "percent")),
                format_number(number(cpu, "cores"), 0),
                format_number(number(cpu, "load_1m"), 2),
                percent(number(memory, "percent")),
                percent(number(at(system, &["disk"]), "percent"))
            ),
        );
        let process = at(system, &["process"]);
        self.line(
            Tone::Plain,
            format!(
                "process  memory {} + children {}  data {}  files {}  threads {}  children {}",
                bytes(number(memory, "process_bytes")),
                bytes(number(memory, "children_bytes")),
                bytes(number(at(system, &["disk"]), "data_bytes")),
                format_number(number(process, "open_files"), 0),
                format_number(number(process, "threads"), 0),
                format_number(number(process, "children"), 0)
            ),
        );
    }

    /// Shows counts and latencies of a list of operations.
    fn timed(&mut self, title: &str, name: &str, items: &[Value], max_items: usize) {
        if items.is_empty() {
            return;
        }
        self.title(&format!("{:>9}{:>9}{:>10}{:>10}  {title}", "calls", "errors", "p50", "p95"));
        for item in items.iter().take(max_items) {
            let error_rate = number(item, "error_rate");
            let tone = if error_rate.is_some_and(|rate| rate > 0.0) { Tone::Warning } else { Tone::Plain };
            let line = format!(
                "{:>9}{:>9}{:>10}{:>10}  {}",
                format_number(number(item, "count"), 0),
                share(error_rate),
                milliseconds(number(item, "p50_ms")),
                milliseconds(number(item, "p95_ms")),
                text(item, name)
            );
            self.line(tone, line);
        }
    }

    fn queues(&mut self, items: &[Value]) {
        if items.is_empty() {
            return;
        }
        self.title(&format!("{:>9}{:>9}{:>10}  QUEUES", "pending", "leased", "dead"));
        for item in items.iter().take(MAX_ITEMS) {
            let dead = number(item, "dead_letter");
            let tone = if dead.is_some_and(|dead| dead > 0.0) { Tone::Warning } else { Tone::Plain };
            let line = format!(
                "{:>9}{:>9}{:>10}  {}",
                format_number(number(item, "pending"), 0),
                format_number(number(item, "leased"), 0),
                format_number(dead, 0),
                text(item, "queue")
            );
            self.line(tone, line);
        }
    }
}

fn at<'v>(value: &'v Value, path: &[&str]) -> &'v Value {
    path.iter().fold(value, |value, name| value.get(name).unwrap_or(&Value::Null))
}

fn list<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn number(value: &Value, name: &str) -> Option<f64> {
    value.get(name).and_then(Value::as_f64)
}

fn text(value: &Value, name: &str) -> String {
    sanitize(value.get(name).and_then(Value::as_str).unwrap_or(UNKNOWN))
}

fn sanitize(text: &str) -> String {
    text.chars().filter(|character| !character.is_control()).take(MAX_CHARACTERS).collect()
}

fn format_number(value: Option<f64>, digits: usize) -> String {
    match value {
        None => UNKNOWN.to_owned(),
        Some(value) if value.abs() >= 1e9 => format!("{:.1}G", value / 1e9),
        Some(value) if value.abs() >= 1e6 => format!("{:.1}M", value / 1e6),
        Some(value) if value.abs() >= 1e4 => format!("{:.1}k", value / 1e3),
        Some(value) => format!("{value:.digits$}"),
    }
}

fn of_limit(limit: Option<f64>) -> String {
    limit.map_or_else(String::new, |limit| format!(" of {}", format_number(Some(limit), 0)))
}

fn share(value: Option<f64>) -> String {
    percent(value.map(|share| share * 100.0))
}

fn percent(value: Option<f64>) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), |percent| format!("{percent:.1}%"))
}

fn milliseconds(value: Option<f64>) -> String {
    match value {
        None => UNKNOWN.to_owned(),
        Some(value) if value >= 10_000.0 => format!("{:.1}s", value / 1e3),
        Some(value) if value >= 10.0 => format!("{value:.0}ms"),
        Some(value) => format!("{value:.1}ms"),
    }
}

fn bytes(value: Option<f64>) -> String {
    match value {
        None => UNKNOWN.to_owned(),
        Some(value) if value >= 1e9 => format!("{:.1} GB", value / 1e9),
        Some(value) => format!("{:.1} MB", value / 1e6),
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "seconds of an uptime")]
fn duration(seconds: f64) -> String {
    let seconds = seconds.max(0.0) as u64;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m"),
        (0, _, _) => format!("{hours}h {minutes}m"),
        _ => format!("{days}d {hours}h"),
    }
}

#[cfg(test)]
mod tests {
    use agentd_base::Timestamp;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn sample() -> Sample {
        let null = Value::Null;
        Sample {
            at: Timestamp::from_micros(1_800_000_000_000_000),
            error: None,
            is_reachable: true,
            turns_running: None,
            tokens_per_second: None,
            health: null.clone(),
            performance: null.clone(),
            system: null.clone(),
            tokens: null.clone(),
            alerts: null,
        }
    }

    fn render(sample: &Sample) -> String {
        lines(sample).iter().map(|line| format!("{}\n", line.text)).collect()
    }

    #[test]
    fn known_values_are_shown_and_unknown_ones_are_dashes() {
        let statistics = json!({"count": 5, "per_second": 12.345, "error_rate": 0.025, "p50_ms": 1.25, "p95_ms": 48.2,
            "p99_ms": 12_500});
        let mut route = statistics.clone();
        route["route"] = json!("GET /api/agents");
        let known = Sample {
            turns_running: Some(3),
            tokens_per_second: Some(123.45),
            health: json!({"overall": "degraded", "uptime": 93_784, "version": "1.2.3", "components": [
                {"name": "Workers", "status": "degraded", "message": "hooks.deliver fails\u{1b}[2J"},
                {"name": "Database", "status": "healthy"}]}),
            performance: json!({"window_seconds": 300, "requests": statistics, "routes": [route], "turns": {"count": 7},
                "queues": [{"queue": "notify", "pending": 2, "leased": 1, "dead_letter": 4}]}),
            tokens: json!({"used_today": 1_204_332, "limit_today": 2_000_000, "total_used": 3}),
            system: json!({"memory": {"process_bytes": 10_200_000, "percent": 61.2}}),
            alerts: json!({"alerts": [{"name": "Disk", "state": "firing", "value": 91.5}, {"name": "x", "state": "ok"}]}),
            ..sample()
        };
        let text = render(&known);
        for expected in [
            "agentd 1.2.3  degraded  up 1d 2h",
            "Workers degraded: hooks.deliver fails[2J",
            "alert Disk: firing, 91.50, since –",
            "requests 12.3/s  errors 2.5%  p50 1.2ms  p95 48ms  p99 12.5s",
            "turns    3 running  7 in 5m  errors –",
            "tokens   123.5/s  today 1.2M of 2.0M  total 3\n",
            "memory 61.2%",
            "memory 10.2 MB + children –",
            "        5     2.5%     1.2ms      48ms  GET /api/agents\n",
            "        2        1         4  notify\n",
        ] {
            assert!(text.contains(expected), "{expected:?} in\n{text}");
        }
        assert!(!text.contains("Database") && !text.contains("alert x"));
    }

    #[test]
    fn unavailable_daemon_has_no_statistics() {
        let unavailable = Sample { is_reachable: false, error: Some("no daemon runs".to_owned()), ..sample() };
        let text = render(&unavailable);
        assert!(text.starts_with("agentd –  unavailable") && text.contains("no daemon runs"), "{text}");
        assert_eq!(lines(&unavailable).len(), 2);
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let names = prop::sample::select(vec![
            "components",
            "alerts",
            "routes",
            "queues",
            "status",
            "state",
            "uptime",
            "per_second",
            "p95_ms",
            "name",
            "requests",
            "queue",
            "pending",
            "overall",
        ]);
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<f64>().prop_map(|number| json!(number)),
            "(firing|unhealthy|\\PC*|[\\x00-\\x1f]*)".prop_map(|text| json!(text))
        ];
        leaf.prop_recursive(4, 40, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(|items| json!(items)),
                prop::collection::vec((names.clone(), inner), 0..6)
                    .prop_map(|fields| Value::Object(fields.into_iter().map(|(n, v)| (n.to_owned(), v)).collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn lines_contain_no_control_characters_for_any_response(health in any_json(), performance in any_json(), other in any_json()) {
            let strange = Sample { health, performance, system: other.clone(), tokens: other.clone(), alerts: other, ..sample() };
            for line in lines(&strange) {
                prop_assert!(!line.text.chars().any(char::is_control), "{:?}", line.text);
            }
        }
    }
}
