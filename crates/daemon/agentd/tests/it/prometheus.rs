//! Runs a real Prometheus against a real daemon with the queries of the dashboard.

#![allow(clippy::disallowed_methods, reason = "tests start processes")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use agentd_llm::Vendor;
use agentd_testing_llm::{FakeVendor, Reply, Script};
use regex::Regex;
use serde_json::{Value, json};

use crate::support::chat_fixture::TEST_USAGE;
use crate::support::{Eventually, TestProcess};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").canonicalize().expect("the repository")
}

/// Returns the folder with `prometheus` and `promtool`, or `None` with a message if they are not installed.
#[allow(clippy::print_stderr, reason = "skipped tests are reported")]
fn folder() -> Option<PathBuf> {
    let unpacked = repository().join(".prometheus/usr/bin");
    let found = [unpacked, PathBuf::from("/usr/bin")].into_iter().find(|folder| folder.join("promtool").is_file());
    if found.is_none() {
        let is_required = std::env::var_os("AGENTD_REQUIRE_PROMETHEUS").is_some();
        assert!(!is_required, "Prometheus is not installed; run `make prometheus`");
        eprintln!("SKIPPED: Prometheus is not installed; run `make prometheus`");
    }
    found
}

fn dashboard() -> Value {
    let text = std::fs::read_to_string(repository().join("deploy/grafana/agentd.json")).expect("the dashboard");
    serde_json::from_str(&text).expect("JSON")
}

/// Returns the title and expression of every panel, as Grafana sends it.
fn expressions() -> Vec<(String, String)> {
    let dashboard = dashboard();
    let panels = dashboard["panels"].as_array().expect("panels");
    let mut found = Vec::new();
    for panel in panels {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expression = target["expr"].as_str().expect("an expression");
            let sent = expression.replace("$__rate_interval", "5m").replace("$instance", ".*");
            found.push((panel["title"].as_str().expect("a title").to_owned(), sent));
        }
    }
    found
}

/// Returns the metric names in an expression or a rule file.
fn names(text: &str) -> BTreeSet<String> {
    let name = Regex::new(r"\b(?:svc|process)_[a-z0-9_]+").expect("a pattern");
    name.find_iter(text).map(|found| found.as_str().to_owned()).collect()
}

/// Returns whether the daemon exports this metric, even without samples.
fn is_known(metrics: &str, name: &str) -> bool {
    let has = |line: String| metrics.lines().any(|found| found.starts_with(&line));
    let of_histogram = ["_bucket", "_sum", "_count"].iter().find_map(|part| name.strip_suffix(part));
    has(format!("# TYPE {name} ")) || of_histogram.is_some_and(|family| has(format!("# TYPE {family} histogram")))
}

fn promtool(folder: &Path, arguments: &[&str]) {
    let run =
        Command::new(folder.join("promtool")).args(arguments).current_dir(repository()).output().expect("promtool");
    let output = format!("{}{}", String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "promtool {arguments:?}: {output}");
}

#[test]
fn dashboard_is_consistent() {
    let dashboard = dashboard();
    let panels = dashboard["panels"].as_array().expect("panels");
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64().expect("an id")).collect();
    assert_eq!(ids.len(), panels.len(), "ids are unique");
    let rule_expressions = expressions();
    assert!(rule_expressions.len() > 50, "{}", rule_expressions.len());
    for (title, expression) in &rule_expressions {
        assert!(!names(expression).is_empty() || expression.contains("up{"), "{title}: {expression}");
        assert!(!expression.contains('$'), "{title}: {expression} has an undefined variable");
    }
}

#[test]
fn prometheus_rules_and_configuration_are_valid_and_tested() {
    let Some(folder) = folder() else { return };
    promtool(&folder, &["check", "config", "deploy/prometheus/prometheus.yml"]);
    promtool(&folder, &["check", "rules", "deploy/prometheus/alerts.yml"]);
    promtool(&folder, &["test", "rules", "deploy/prometheus/alerts_test.yml"]);
    let text = |name: &str| std::fs::read_to_string(repository().join("deploy/prometheus").join(name)).expect("a file");
    let (rules, tests) = (text("alerts.yml"), text("alerts_test.yml"));
    let alerts: Vec<&str> = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() > 10);
    for alert in alerts {
        let is_tested = tests
            .split(&format!("alertname: {alert}\n"))
            .skip(1)
            .any(|rest| rest.trim_start().starts_with("exp_alerts:\n"));
        assert!(is_tested, "no test covers {alert} firing");
    }
}

struct Prometheus {
    child: Child,
    base_url: String,
    client: reqwest::Client,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Prometheus {
    /// Starts a Prometheus that scrapes the daemon twice a second and evaluates the rules of the project.
    async fn start(folder: &Path, process: &TestProcess) -> Self {
        let rules = repository().join("deploy/prometheus/alerts.yml");
        let config = json!({
            "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "1s"},
            "rule_files": [rules],
            "scrape_configs": [{
                "job_name": "agentd", "metrics_path": "/api/metrics/prometheus",
                "static_configs": [{"targets": [process.address.to_string()]}],
            }],
        });
        let (file, log) = (process.folder().join("prometheus.yml"), process.folder().join("prometheus.log"));
        std::fs::write(&file, config.to_string()).expect("a configuration");
        let child = Command::new(folder.join("prometheus"))
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", process.folder().join("prometheus").display()))
            .args(["--web.listen-address=127.0.0.1:0", "--log.level=info"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log).expect("a log"))
            .spawn()
            .expect("start prometheus");
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        let mut prometheus = Self { child, base_url: String::new(), client };
        let listening = Regex::new(r#"msg="Listening on" address=(\S+)"#).expect("a pattern");
        let mut eventually = Eventually::new();
        while prometheus.base_url.is_empty() {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            if let Some(found) = listening.captures(&text) {
                prometheus.base_url = format!("http://{}", &found[1]);
            } else {
                eventually.retry_with(&text).await;
            }
        }
        let mut eventually = Eventually::new();
        while !prometheus.is_ready().await {
            eventually.retry().await;
        }
        prometheus
    }

    async fn is_ready(&self) -> bool {
        let answer = self.client.get(format!("{}/-/ready", self.base_url)).send().await;
        answer.is_ok_and(|answer| answer.status().is_success())
    }

    async fn get(&self, path: &str, query: &[(&str, &str)]) -> Value {
        let url = url::Url::parse_with_params(&format!("{}{path}", self.base_url), query).expect("a url");
        let answer = self.client.get(url).send().await.expect("an answer");
        answer.json().await.expect("JSON")
    }

    /// Returns the series of an expression; the expression must be valid.
    async fn query(&self, expression: &str) -> Vec<Value> {
        let answer = self.get("/api/v1/query", &[("query", expression)]).await;
        assert_eq!(answer["status"], "success", "{expression}: {answer}");
        assert!(answer["warnings"].is_null(), "{expression}: {answer}");
        answer["data"]["result"].as_array().expect("a result").clone()
    }
}

#[tokio::test]
async fn every_panel_and_rule_has_data() {
    let Some(folder) = folder() else { return };
    let process = TestProcess::with_owner().await;
    let vendor = FakeVendor::start(Vendor::Openai, Script::always(Reply::text(["Hello"], TEST_USAGE))).await;
    let vendor = vendor.expect("a fake vendor");
    let key = json!({"api_key": "k", "base_url": vendor.base_url().as_str()});
    process.put("/api/providers/openai/key").json(&key).send().await.expect_status(200);
    let settings = json!({"default_provider": "openai", "default_model": "fake", "daily_token_limit": 100_000});
    process.put("/api/settings/agent").json(&settings).send().await.expect_status(200);
    process.create_agent("ada").await;
    let say = json!({"agent_id": "ada", "content": "Hi"});
    process.post("/api/chat/messages/stream").json(&say).stream().await.collect().await;

    let prometheus = Prometheus::start(&folder, &process).await;
    let mut eventually = Eventually::new();
    while prometheus
        .query(r#"count_over_time(svc_turn_duration_seconds_count{job="agentd"}[5m]) >= 3"#)
        .await
        .is_empty()
    {
        eventually.retry().await;
    }
    let metrics = process.get("/api/metrics/prometheus").send().await.expect_status(200).text();
    let mut answered = BTreeSet::new();
    for (title, expression) in expressions() {
        for name in names(&expression) {
            assert!(is_known(&metrics, &name), "{title} uses {name}, which the daemon does not export");
        }
        if !prometheus.query(&expression).await.is_empty() {
            answered.insert(title);
        }
    }
    for title in [
        "Answering",
        "Running since",
        "Turns running",
        "Dead letters",
        "Budget used",
        "Disk left",
        "Requests by class",
        "Latency",
        "Slowest routes, p95",
        "Turns by how they ended",
        "Duration of turns",
        "First token",
        "Calls by provider",
        "Duration of calls, p95",
        "Tokens by model",
        "Duration of all tools",
        "Lateness",
        "Memory",
        "Processors",
        "Disk",
        "Open files",
        "Time since the last success",
        "Versions",
    ] {
        assert!(answered.contains(title), "{title} has no data; panels with data: {answered:?}");
    }

    let rules = std::fs::read_to_string(repository().join("deploy/prometheus/alerts.yml")).expect("the rules");
    for name in names(&rules) {
        assert!(is_known(&metrics, &name), "a rule uses {name}, which the daemon does not export");
    }
    let mut eventually = Eventually::new();
    loop {
        let answer = prometheus.get("/api/v1/rules", &[]).await;
        let rules = answer["data"]["groups"][0]["rules"].as_array().cloned().unwrap_or_default();
        let is = |health: &str| rules.iter().filter(|rule| rule["health"] == health).count();
        assert_eq!(is("err"), 0, "{answer}");
        if !rules.is_empty() && is("ok") == rules.len() {
            let firing: Vec<_> = rules.iter().filter(|rule| rule["state"] == "firing").collect();
            assert!(
                firing.is_empty() || firing.iter().all(|rule| rule["name"] == "AgentdDiskNearlyFull"),
                "{firing:?}"
            );
            break;
        }
        eventually.retry_with(&answer).await;
    }
}
