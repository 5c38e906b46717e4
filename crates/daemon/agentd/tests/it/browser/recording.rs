//! Recordings: create, list, replay on changed pages, and recover after a kill.

use std::path::Path;

use serde_json::{Value, json};

use super::{Pages, act, get, has_chromium, open, start, try_act};
use crate::support::{Eventually, TestApp, TestProcess};

const START: &str = "/api/browser/recording/start";
const STOP: &str = "/api/browser/recording/stop";
const PASSWORD: &str = "correct horse 7";

fn login_page(id: &str) -> String {
    format!(
        "<title>log in</title><form onsubmit='return false'><label>User <input id={id}1></label>\
         <label>Password <input id={id}2 type=password></label><button id={id}3>Log in</button></form>\
         <script>{id}3.onclick = () => document.title = {id}1.value + ' ' + {id}2.value.length</script>"
    )
}

async fn replay(app: &TestApp, id: &str, secrets: Value) -> Value {
    let path = format!("/api/browser/recordings/{id}/replay");
    app.post(&path).json(&json!({"secrets": secrets})).send().await.expect_status(200).json()
}

#[tokio::test]
async fn recording_is_replayed_on_a_changed_page() {
    if !has_chromium() {
        return;
    }
    let (app, pages) = start().await;
    let url = pages.page(&login_page("a"));
    let started = app.post(START).json(&json!({"name": "Log in"})).send().await.expect_status(200).json();
    assert_eq!((&started["state"], &started["action_count"]), (&json!("running"), &json!(0)));
    app.post(START).json(&json!({"name": "other"})).send().await.expect_error(409, "recording_running");
    let id = started["recording_id"].as_str().expect("an id").to_owned();
    assert!(id.starts_with("rec_"), "{id}");
    open(&app, &url).await;
    act(&app, json!({"action": "type_text", "selector": "#a1", "text": "ada"})).await;
    try_act(&app, json!({"action": "click", "selector": "#b", "timeout_ms": 50}))
        .await
        .expect_error(409, "not_actionable");
    act(&app, json!({"action": "type_text", "selector": "#a2", "text": PASSWORD})).await;
    let done = act(&app, json!({"action": "click", "selector": "#a3"})).await;
    assert_eq!(done["title"], "ada 15");
    let one = format!("/api/browser/recordings/{id}");
    let running = get(&app, &one).await;
    assert_eq!((&running["state"], &running["action_count"]), (&json!("running"), &json!(4)));
    app.delete(&one).send().await.expect_error(409, "recording_running");
    app.clock.advance(std::time::Duration::from_secs(90));
    let stopped = app.post(STOP).send().await.expect_status(200).json();
    assert_eq!(
        (&stopped["recording_id"], &stopped["action_count"], &stopped["duration_seconds"], &stopped["state"]),
        (&json!(id), &json!(4), &json!(90.0), &json!("complete"))
    );
    app.post(STOP).send().await.expect_error(409, "not_recording");
    let file = stopped["file_path"].as_str().expect("a path");
    assert_eq!(file, format!("recordings/{id}/recording.jsonl"));
    let text = std::fs::read_to_string(app.data_dir().join(file)).expect("the file");
    assert!(text.contains("{{secret:1}}") && !text.contains(PASSWORD), "{text}");
    let listed = get(&app, "/api/browser/recordings").await;
    assert_eq!(listed, json!({"recordings": [stopped], "total": 1}));
    let whole = get(&app, &one).await;
    let step = &whole["steps"][3];
    assert_eq!(
        (&step["action"], &step["caption"], &step["url"]),
        (&json!("click"), &json!("click button \"Log in\""), &json!(url))
    );
    let alternatives = step["targets"][0]["alternatives"].to_string();
    assert!(
        alternatives.contains("role=button[name=\\\"Log in\\\"]") && alternatives.contains("#a3"),
        "{alternatives}"
    );
    let picture = app.get(&format!("{one}/pictures/3")).send().await.expect_status(200);
    assert_eq!((picture.header("content-type"), &picture.body[..2]), (Some("image/jpeg"), &b"\xff\xd8"[..]));
    let path = step["picture_path"].as_str().expect("a path");
    assert_eq!(std::fs::read(app.data_dir().join(path)).expect("the picture"), picture.body);

    let refused = app.post(&format!("{one}/replay")).send().await.expect_error(400, "invalid_request");
    assert_eq!(refused.bad_fields(), ["secrets.1"]);
    assert!(refused.text().contains("type_text textbox \\\"Password\\\""), "{}", refused.text());

    pages.change(&url, &login_page("z"));
    let report = replay(&app, &id, json!({"1": PASSWORD})).await;
    assert_eq!((&report["ok"], &report["recording_id"]), (&json!(true), &json!(id)), "{report}");
    assert_eq!(report["steps"].as_array().map(Vec::len), Some(4));
    assert!(report["steps"][0].get("drift").is_none() && report.get("failed_step").is_none(), "{report}");
    assert_eq!(report["steps"][3]["drift"][0]["recorded"], "#a3");
    assert_eq!(get(&app, "/api/browser/tabs").await["tabs"][0]["title"], "ada 15");

    pages.change(&url, "<title>gone</title><label>User <input></label><button>Log in</button>");
    let report = replay(&app, &id, json!({"1": PASSWORD})).await;
    assert_eq!((&report["ok"], &report["failed_step"]), (&json!(false), &json!(2)), "{report}");
    let steps = report["steps"].as_array().expect("steps");
    assert_eq!((steps.len(), &steps[1]["ok"], &steps[2]["ok"]), (3, &json!(true), &json!(false)));
    let failure = &steps[2]["failure"];
    assert_eq!(failure["code"], "not_actionable");
    assert!(failure["picture"].as_str().is_some_and(|jpeg| jpeg.starts_with("/9j/")), "{failure}");
    assert!(failure["tried"].as_array().is_some_and(|tried| tried.len() > 2), "{failure}");
    assert!(!report.to_string().contains(PASSWORD));
    assert_eq!(get(&app, "/api/browser/status").await["current_url"], url);

    // A replay ends when its client disconnects; until then a second one is rejected.
    pages.change(&url, "<title>empty</title>");
    let (path, secrets) = (format!("{one}/replay"), json!({"secrets": {"1": PASSWORD}}));
    let waiting = tokio::spawn(app.post(&path).json(&secrets).send());
    let mut eventually = Eventually::new();
    while get(&app, "/api/browser/tabs").await["tabs"][0]["title"] != "empty" {
        eventually.retry().await;
    }
    app.post(&path).json(&secrets).send().await.expect_error(409, "replay_running");
    waiting.abort();
    pages.change(&url, &login_page("y"));
    let mut eventually = Eventually::new();
    loop {
        let answer = app.post(&path).json(&secrets).send().await;
        if answer.status == 200 {
            assert_eq!(answer.json()["ok"], true);
            break;
        }
        assert_eq!(answer.json()["code"], "replay_running");
        eventually.retry().await;
    }
    assert_eq!(app.delete(&one).send().await.expect_status(200).json(), json!({"deleted": true}));
    assert!(!app.data_dir().join(format!("recordings/{id}")).exists());
    app.get(&one).send().await.expect_error(404, "recording_not_found");
}

#[tokio::test]
async fn invalid_recordings_are_rejected() {
    let app = TestApp::with_owner().await;
    app.post(STOP).send().await.expect_error(409, "not_recording");
    for name in [json!(""), json!("  "), json!("a\nb"), json!("x".repeat(201)), json!(7), Value::Null] {
        let refused = app.post(START).json(&json!({"name": name})).send().await;
        assert_eq!(refused.expect_error(400, "invalid_request").bad_fields(), ["name"], "{name}");
    }
    app.post(START).send().await.expect_status(400);
    for id in ["rec_01jd3000000000000000000000", "none", "..%2F..%2Fsecret.key", "downloads"] {
        let one = format!("/api/browser/recordings/{id}");
        app.get(&one).send().await.expect_error(404, "recording_not_found");
        app.get(&format!("{one}/pictures/0")).send().await.expect_error(404, "recording_not_found");
        app.delete(&one).send().await.expect_error(404, "recording_not_found");
        app.post(&format!("{one}/replay")).send().await.expect_error(404, "recording_not_found");
    }
    assert_eq!(get(&app, "/api/browser/recordings").await, json!({"recordings": [], "total": 0}));
    // An empty recording needs no browser, but a replay still validates its request.
    app.post(START).json(&json!({"name": "empty"})).send().await.expect_status(200);
    let stopped = app.post(STOP).send().await.expect_status(200).json();
    assert_eq!((&stopped["action_count"], &stopped["secrets"]), (&json!(0), &json!([])));
    let secrets = json!({"secrets": ["a"]});
    let path = format!("/api/browser/recordings/{}/replay", stopped["recording_id"].as_str().expect("an id"));
    app.post(&path).json(&secrets).send().await.expect_error(400, "invalid_request");
}

/// Reads every file below a folder.
fn files_below(folder: &Path) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(files_below(&path)),
            Ok(kind) if kind.is_file() => found.push(std::fs::read(&path).unwrap_or_default()),
            _ => {}
        }
    }
    found
}

#[tokio::test]
async fn recorded_steps_survive_a_kill_without_secrets() {
    if !has_chromium() {
        return;
    }
    let mut daemon = TestProcess::with_owner().await;
    let allow = json!({"ssrf_allowlist": ["127.0.0.1"]});
    daemon.put("/api/browser/config").json(&allow).send().await.expect_status(200);
    let pages = Pages::serve().await;
    let url = pages.page(&login_page("a"));
    daemon.post(START).json(&json!({"name": "cut"})).send().await.expect_status(200);
    for action in [
        json!({"action": "goto", "url": format!("{url}?token=tok-98765432")}),
        json!({"action": "type_text", "selector": "text=Password", "text": PASSWORD, "timeout_ms": 1}),
        json!({"action": "type_text", "selector": "#a2", "text": PASSWORD}),
    ] {
        let is_short = action["timeout_ms"] == 1;
        let answer = daemon.post("/api/browser/action").json(&action).send().await;
        assert_eq!(answer.status == 200, !is_short, "{}", answer.text());
    }
    daemon.kill();
    daemon.spawn().await;
    let listed = daemon.get("/api/browser/recordings").send().await.expect_status(200).json();
    let one = &listed["recordings"][0];
    assert_eq!(
        (&one["state"], &one["action_count"], &one["secrets"]),
        (&json!("interrupted"), &json!(2), &json!([1, 2])),
        "{listed}"
    );
    let whole = daemon.get(&format!("/api/browser/recordings/{}", one["recording_id"].as_str().expect("an id")));
    let whole = whole.send().await.expect_status(200).json();
    assert_eq!(whole["steps"][1]["parameters"]["text"], "{{secret:2}}");
    assert_eq!(whole["steps"][0]["url"], format!("{url}?token=***"));
    daemon.post(STOP).send().await.expect_error(409, "not_recording");
    for hidden in [PASSWORD, "tok-98765432"] {
        let is_in = |bytes: &[u8]| bytes.windows(hidden.len()).any(|window| window == hidden.as_bytes());
        assert!(!is_in(daemon.log().as_bytes()), "{hidden} is in the log");
        assert!(!files_below(&daemon.data_dir()).iter().any(|file| is_in(file)), "{hidden} is in a file");
    }
}
