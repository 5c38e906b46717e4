//! Background workers as shown to operators.

use std::fmt::Write;
use std::path::Path;

use serde_json::Value;

use crate::cli::agentd;
use crate::support::{TestApp, TestProcess};

async fn listed(app: &TestApp) -> Vec<Value> {
    let list = app.get("/api/monitoring/workers").send().await.expect_status(200).json();
    list["workers"].as_array().expect("workers").clone()
}

fn text<'a>(worker: &'a Value, field: &str) -> &'a str {
    worker[field].as_str().expect("a text")
}

#[tokio::test]
async fn every_worker_has_a_description_and_statistics() {
    let app = TestApp::with_owner().await;
    let before = listed(&app).await;
    assert!(before.iter().all(|worker| worker["last_success_at"].is_null() && worker["items"] == 0), "{before:?}");
    app.run_workers().await;
    for worker in listed(&app).await {
        assert!(text(&worker, "description").ends_with('.'), "{worker}");
        assert_eq!((&worker["is_late"], &worker["failures"]), (&Value::from(false), &Value::from(0)), "{worker}");
        assert!(worker["last_success_at"].is_string(), "{worker}");
    }
}

/// Renders the tables of the guide from the running daemon.
fn tables(workers: &[Value]) -> String {
    let mut page = String::from("| worker | description |\n|---|---|");
    for worker in workers {
        write!(page, "\n| `{}` | {} |", text(worker, "name"), text(worker, "description")).expect("a string");
    }
    page += "\n\n| data | deleted after | worker |\n|---|---|---|";
    for worker in workers {
        for retention in worker["retention"].as_array().expect("retention") {
            let days = retention["kept_seconds"].as_u64().expect("seconds") / 86_400;
            let unit = if days == 1 { "day" } else { "days" };
            let (what, name) = (text(retention, "what"), text(worker, "name"));
            write!(page, "\n| {what} | {days} {unit} | `{name}` |").expect("a string");
        }
    }
    page
}

/// Updates the guide instead if `AGENTD_TEST_REWRITE` is set.
#[tokio::test]
async fn guide_tables_match_the_daemon() {
    const BEGIN: &str = "<!-- workers -->\n";
    const END: &str = "\n<!-- end of workers -->";
    let app = TestApp::with_owner().await;
    let expected = tables(&listed(&app).await);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/reference/workers.md");
    let page = std::fs::read_to_string(&path).expect("the page");
    let (before, after) = page.split_once(BEGIN).expect("the start marker");
    let (shown, rest) = after.split_once(END).expect("the end marker");
    if std::env::var_os("AGENTD_TEST_REWRITE").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{expected}{END}{rest}")).expect("write the guide");
        return;
    }
    assert_eq!(shown, expected, "run `make workers-guide` to update it");
}

#[tokio::test]
async fn workers_command_prints_columns_and_json() {
    let process = TestProcess::with_owner().await;
    let ran = agentd(&process, &["workers", "--json"]).await.success();
    let list: Value = serde_json::from_str(ran.text()).expect("JSON");
    let workers = list["workers"].as_array().expect("workers");
    let shown = agentd(&process, &["workers"]).await.success();
    let mut lines = shown.text().lines();
    let head = lines.next().expect("a head");
    let columns: Vec<&str> = head.split("  ").map(str::trim).filter(|column| !column.is_empty()).collect();
    assert_eq!(columns, ["NAME", "STATE", "LAST SUCCESS", "ITEMS", "FAILURES", "DESCRIPTION"]);
    for (line, worker) in lines.zip(workers) {
        let is_whole = line.starts_with(text(worker, "name")) && line.ends_with(text(worker, "description"));
        assert!(is_whole && line.contains("  ok  "), "{line}");
    }
    assert_eq!(shown.text().trim_end().lines().count(), workers.len() + 1);
}
