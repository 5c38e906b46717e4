//! Requests: logged for every source, recorded in a HAR, answered by mocks.

use std::collections::BTreeMap;

use agentd_browser::{Context, Mock, NetworkRequest, RequestFilter, Tab};
use serde_json::{Value, json};

use crate::support::{
    self, act, address, context, eventually, expect_title, new_browser, open, options, page, path, run, script,
};

fn requests(context: &Context, part: &str) -> Vec<NetworkRequest> {
    context.environment().requests(&RequestFilter { url: Some(part.to_owned()), ..RequestFilter::default() })
}

/// Returns the request whose URL contains `part`, after it has ended.
async fn ended(context: &Context, part: &str) -> NetworkRequest {
    eventually(&format!("a request to {part}"), || {
        requests(context, part).into_iter().next_back().filter(|request| request.duration_ms.is_some())
    })
    .await
}

async fn mock(context: &Context, pattern: &str, status: u16, body: &str) {
    let mock = Mock::new(pattern.to_owned(), status, body.to_owned(), BTreeMap::new()).unwrap();
    context.environment().add_mock(mock).unwrap();
    context.apply_environment().await.unwrap();
}

/// Returns the result of a script in the page.
async fn evaluate(tab: &Tab, script: &str) -> String {
    let html = format!(
        "<script>(async () => {script})().catch(e => e.message).then(t => document.title = `= ${{t}}`)</script>"
    );
    act(tab, json!({"action": "goto", "url": page(&html).await})).await;
    support::title_result(tab).await
}

#[test]
fn requests_of_pages_frames_workers_popups_and_sockets_are_listed() {
    run(async {
        let context = context().await;
        let nested = script("0").await;
        let worker = script(&format!("fetch('/headers?worker').then(() => new Worker('{nested}'))")).await;
        let shared = script("fetch('/headers?shared')").await;
        let service = script("addEventListener('install', e => e.waitUntil(fetch('/headers?service')))").await;
        let framed = path("<img src=/missing.png?framed>").await;
        let popup = path("<title>popup</title>").await;
        let html = format!(
            "<img src='data:image/gif;base64,R0lGODlhAQABAAAAACw='><iframe src='OTHER{framed}'></iframe><script>
            new Worker('{worker}'); new SharedWorker('{shared}'); navigator.serviceWorker.register('{service}');
            fetch('/moved', {{method: 'POST', body: 'x'}}); new WebSocket('ws://' + location.host + '/socket');
            fetch('/long?' + 'x'.repeat(1000000)).catch(() => 0);
            fetch('http://127.0.0.1:1/').catch(() => 0);
            const image = new Image(); image.src = '/never?left'; setTimeout(() => image.src = '', 100)</script>
            <button onclick=\"open('{popup}', '_blank', 'noopener')\">Open</button>"
        );
        let tab = open(&context, &html).await;
        act(&tab, json!({"action": "click", "selector": "text=Open"})).await;
        for (part, kind, status) in [
            ("worker", "fetch", 200),
            (&*nested, "script", 200),
            ("shared", "fetch", 200),
            ("service", "fetch", 200),
            ("missing.png?framed", "image", 404),
            (&*popup, "document", 200),
            (&*service, "script", 200),
        ] {
            let request = ended(&context, part).await;
            assert_eq!((&*request.resource_type, request.status), (kind, Some(status)), "{request:?}");
            assert!(!request.failed && request.size_bytes.unwrap() > 0 && !request.mocked, "{request:?}");
        }
        let moved = ended(&context, "/moved").await;
        assert_eq!((&*moved.method, moved.status, moved.failed), ("POST", Some(302), false), "{moved:?}");
        let target = eventually("the redirect's target", || {
            requests(&context, "/headers").into_iter().find(|request| request.url.ends_with("/headers"))
        })
        .await;
        assert_eq!(&*target.method, "GET");
        let socket = ended(&context, "/socket").await;
        assert_eq!((&*socket.resource_type, socket.failed), ("websocket", true), "{socket:?}");
        let refused = ended(&context, "127.0.0.1:1/").await;
        assert!(refused.failed && refused.error.as_deref().unwrap().contains("net::ERR"), "{refused:?}");
        assert!(refused.status.is_none());
        let left = ended(&context, "/never?left").await;
        assert_eq!((left.failed, left.error.as_deref()), (true, Some("net::ERR_ABORTED")));
        assert!(requests(&context, "/long").iter().all(|request| request.url.len() < 2_010));
        assert!(!requests(&context, "/long").is_empty() && requests(&context, "data:").is_empty());
        let everything = context.environment().requests(&RequestFilter::default());
        assert!(everything.iter().all(|request| !request.url.contains("agentd")));
        let documents = RequestFilter {
            url: Some("http://*/**".to_owned()),
            status: Some(200),
            resource_type: Some("document".to_owned()),
        };
        let urls: Vec<_> = context.environment().requests(&documents).into_iter().map(|request| request.url).collect();
        assert_eq!(urls.len(), 3, "{urls:?}");
    });
}

#[test]
fn request_list_is_limited() {
    run(async {
        let context = context().await;
        let many = "<script>(async () => { for (let i = 0; i < 1200; i++) await fetch('/headers?' + i);
            document.title = 'all' })()</script>";
        let tab = open(&context, many).await;
        expect_title(&tab, "all").await;
        let all = context.environment().requests(&RequestFilter::default());
        assert_eq!(all.len(), 1_000);
        assert!(all.last().unwrap().url.ends_with("?1199") && all.iter().all(|request| !request.url.ends_with("?100")));
    });
}

#[test]
fn mocks_answer_pages_frames_workers_popups_and_other_sites() {
    run(async {
        let context = context().await;
        let tab = context.open_tab().await.unwrap();
        let real = address("/headers").await;
        mock(&context, "**/headers?mocked*", 201, "[\"mocked\"]").await;
        mock(&context, "http://mocked.example/**", 200, "<title>no such host</title>").await;
        let text = "{ const answer = await fetch('/headers?mocked=1'); return answer.status + await answer.text() }";
        assert_eq!(evaluate(&tab, text).await, "201[\"mocked\"]");
        let request = ended(&context, "mocked=1").await;
        assert!(request.mocked && request.status == Some(201), "{request:?}");
        assert_eq!(request.mime_type.as_deref(), Some("application/json"));
        let real = format!("{{ return (await (await fetch('{real}')).json()).host }}");
        assert!(evaluate(&tab, &real).await.starts_with("127.0.0.1:"));
        // Cross-origin, with a header that requires a preflight.
        let other = "{ const answer = await fetch('http://mocked.example/api', {method: 'PUT', credentials: 'include',
            headers: {'x-own': '1'}}); return answer.text() }";
        assert_eq!(evaluate(&tab, other).await, "<title>no such host</title>");
        let worker = script("fetch('/headers?mocked=worker').then(a => a.text()).then(postMessage)").await;
        let from_worker = format!("{{ return new Promise(r => new Worker('{worker}').onmessage = e => r(e.data)) }}");
        assert_eq!(evaluate(&tab, &from_worker).await, "[\"mocked\"]");
        // Documents: in a frame, in a popup, in a new tab.
        let html = "<iframe src='http://mocked.example/frame'></iframe><a target=_blank href='http://mocked.example/popup'>Go</a>";
        act(&tab, json!({"action": "goto", "url": page(html).await})).await;
        act(&tab, json!({"action": "click", "selector": "text=Go"})).await;
        let popup = context.wait_for_tab(support::SOON, |tab| tab.url.contains("mocked.example/popup")).await.unwrap();
        expect_title(&popup, "no such host").await;
        assert!(ended(&context, "mocked.example/frame").await.mocked);
        let new = context.open_tab().await.unwrap();
        let outcome = act(&new, json!({"action": "goto", "url": "http://mocked.example/new"})).await;
        assert_eq!(outcome.title, "no such host");
        // Without mocks requests reach their server.
        assert_eq!(context.environment().remove_mocks(None), 2);
        context.apply_environment().await.unwrap();
        assert!(evaluate(&tab, text).await.starts_with("200{"));
        assert!(!ended(&context, "mocked=1").await.mocked);
    });
}

fn entry<'a>(har: &'a Value, part: &str) -> &'a Value {
    let entries = har["log"]["entries"].as_array().unwrap();
    let found = entries.iter().find(|entry| entry["request"]["url"].as_str().unwrap().contains(part));
    found.unwrap_or_else(|| panic!("{part} is not in {har:#}"))
}

#[test]
fn har_contains_headers_timings_and_bodies() {
    run(async {
        let browser = new_browser(options());
        let context = browser.context().await.unwrap();
        let environment = context.environment();
        assert!(environment.stop_har("x").await.is_none());
        let tab = context.open_tab().await.unwrap();
        assert!(environment.start_har() && !environment.start_har());
        context.apply_environment().await.unwrap();
        act(&tab, json!({"action": "goto", "url": address("/cookie").await})).await;
        mock(&context, "**/mocked", 200, "{\"a\": 1}").await;
        let worker = script("fetch('/headers?worker').then(a => a.text()).then(postMessage)").await;
        let text = format!(
            "{{ await (await fetch('/moved?x=1&y=%C3%A9', {{method: 'POST', body: 'sent', headers: {{'x-own': '1'}}}})).text();
            await (await fetch('/large')).text(); await (await fetch('/mocked')).text();
            await fetch('http://127.0.0.1:1/').catch(() => 0);
            return new Promise(r => new Worker('{worker}').onmessage = e => r('all')) }}"
        );
        assert_eq!(evaluate(&tab, &text).await, "all");
        // Bodies of a previous page are retained.
        act(&tab, json!({"action": "goto", "url": address("/echo-cookie").await})).await;
        let har = environment.stop_har(context.version()).await.unwrap();
        context.apply_environment().await.unwrap();
        assert!(environment.stop_har("x").await.is_none());
        let log = &har["log"];
        assert_eq!((&log["version"], &log["browser"]["name"]), (&json!("1.2"), &json!("Chrome")));
        assert_eq!(log["pages"].as_array().unwrap().len(), 3, "{log:#}");
        assert!(log["pages"][1]["pageTimings"]["onLoad"].as_f64().unwrap() > 0.0);
        let page = entry(&har, "/cookie");
        assert_eq!((&page["pageref"], &page["response"]["cookies"][0]["name"]), (&json!("page_1"), &json!("kept")));
        assert_eq!(page["response"]["content"]["text"], "<title>cookie</title>");
        let moved = entry(&har, "/moved");
        assert_eq!(
            (&moved["response"]["status"], &moved["request"]["postData"]["text"]),
            (&json!(302), &json!("sent"))
        );
        assert_eq!(moved["request"]["queryString"][1], json!({"name": "y", "value": "é"}));
        assert_eq!(moved["request"]["cookies"][0], json!({"name": "kept", "value": "yes"}));
        assert!(moved["response"]["redirectURL"].as_str().unwrap().ends_with("/headers"));
        let target = entry(&har, "/headers");
        let sent: Value = serde_json::from_str(target["response"]["content"]["text"].as_str().unwrap()).unwrap();
        let names: Vec<_> = target["request"]["headers"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
        assert!(names.iter().any(|name| name.as_str().unwrap().eq_ignore_ascii_case("user-agent")), "{names:?}");
        assert_eq!(sent["x-own"], "1");
        assert!(target["time"].as_f64().unwrap() > 0.0 && target["timings"]["wait"].as_f64().unwrap() >= 0.0);
        assert_eq!(target["serverIPAddress"], "127.0.0.1");
        let large = &entry(&har, "/large")["response"]["content"];
        assert_eq!(large["size"], (1 << 20) + 1);
        assert!(large.get("text").is_none() && large["comment"].as_str().unwrap().contains("exceeds"), "{large}");
        let mocked = entry(&har, "/mocked");
        assert_eq!((&mocked["_mocked"], &mocked["response"]["content"]["text"]), (&json!(true), &json!("{\"a\": 1}")));
        assert!(entry(&har, "?worker")["response"]["content"]["text"].as_str().unwrap().contains("127.0.0.1"));
        let refused = entry(&har, "127.0.0.1:1/");
        assert!(refused["response"]["status"] == 0 && refused["_error"].as_str().unwrap().contains("net::ERR"));
        // Recording has stopped.
        act(&tab, json!({"action": "goto", "url": address("/headers").await})).await;
        assert!(environment.start_har());
        assert_eq!(environment.stop_har("x").await.unwrap()["log"]["entries"], json!([]));
    });
}
