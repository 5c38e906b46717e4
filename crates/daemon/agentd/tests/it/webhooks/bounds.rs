//! Rate limits, retention, and recovery after kills.

use std::collections::BTreeMap;
use std::time::Duration;

use agentd_base::Entropy;
use agentd_llm::Vendor;
use agentd_store::{Args, CursorStart, StoreError, Tx, args};
use agentd_testing_llm::{FakeVendor, Reply, Script};
use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{Sender, ci, metric};
use crate::support::chat_fixture::{TEST_USAGE, create_agent};
use crate::support::{Eventually, TestApp, TestProcess};

const JSON: &str = "application/json";
/// Requests per minute that one webhook accepts.
const MAX_REQUESTS_PER_MINUTE: usize = 600;

async fn execute(app: &TestApp, sql: &'static str, args: Args) {
    let work = async move |tx: &mut Tx| tx.execute(sql, args.clone()).await;
    app.running().context().db.write::<_, StoreError, _>(work).await.expect("the statement runs");
}

async fn count(app: &TestApp, sql: &'static str) -> u64 {
    let mut read = app.running().context().db.read().await.expect("a connection");
    read.fetch_one(sql, args![]).await.expect("a count").first().expect("a number")
}

#[tokio::test]
async fn flood_is_rejected_with_retry_after() {
    let app = TestApp::with_owner().await;
    let (flood, calm) = (Sender::create(&app, ci()).await, Sender::create(&app, ci()).await);
    let mut statuses: BTreeMap<u16, usize> = BTreeMap::new();
    for _ in 0..(MAX_REQUESTS_PER_MINUTE + 40) / 40 {
        let sends = (0..40).map(|_| flood.signed(&app, JSON, b"{}").send());
        for answer in join_all(sends).await {
            *statuses.entry(answer.status.as_u16()).or_default() += 1;
        }
    }
    assert_eq!(statuses, BTreeMap::from([(202, MAX_REQUESTS_PER_MINUTE), (429, 40)]));
    let refused = flood.signed(&app, JSON, b"{}").send().await.expect_error(429, "rate_limited");
    assert_eq!(refused.header("retry-after"), Some("1"));
    // Other webhooks and unsigned requests are not affected.
    calm.signed(&app, JSON, b"{}").send().await.expect_status(202);
    flood.bare(&app, JSON, b"{}").send().await.expect_error(401, "missing_signature");
    assert_eq!(metric(&app, r#"svc_webhook_requests_total{outcome="rate_limited"}"#).await, 41.0);
    // Two seconds have passed for the metric; ten requests per second are accepted.
    for _ in 0..20 {
        flood.signed(&app, JSON, b"{}").send().await.expect_status(202);
    }
    flood.signed(&app, JSON, b"{}").send().await.expect_error(429, "rate_limited");
    assert_eq!(flood.deliveries(&app, "").await["total"], MAX_REQUESTS_PER_MINUTE + 20);
}

#[tokio::test]
async fn requests_are_rejected_while_the_backlog_is_full() {
    let app = TestApp::with_owner().await;
    let ci = Sender::create(&app, ci()).await;
    let first = ci.send(&app, &json!({})).await;
    let many = "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 10000) \
                INSERT INTO queue (id, queue, payload, status, run_at, due_at, attempt, fence, max_attempts, created_at, \
                updated_at) SELECT 'item_' || n, 'webhooks', '{\"delivery_id\": \"wdl_none\"}', 'pending', 0, 0, 0, 0, 9, 0, 0 \
                FROM numbers";
    execute(&app, many, args![]).await;
    app.clock.advance(Duration::from_secs(1));
    let refused = ci.signed(&app, JSON, b"{}").send().await.expect_error(503, "overloaded");
    assert_eq!(refused.header("retry-after"), Some("30"));
    let replay = format!("{}/deliveries/{first}/replay", ci.path());
    app.post(&replay).send().await.expect_error(503, "overloaded");
    assert_eq!(metric(&app, "svc_webhook_turns_waiting").await, 10_000.0);
    assert_eq!(metric(&app, r#"svc_webhook_requests_total{outcome="overloaded"}"#).await, 1.0);
    execute(&app, "DELETE FROM queue", args![]).await;
    app.clock.advance(Duration::from_secs(1));
    ci.send(&app, &json!({})).await;

    // A consumer of events cannot keep up.
    let slow = async |tx: &mut Tx| tx.ensure_cursor("slow", CursorStart::Beginning).await;
    app.running().context().db.write::<_, StoreError, _>(slow).await.expect("a cursor");
    let many = "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 100000) \
                INSERT INTO outbox (id, event_type, data, created_at) \
                SELECT 'evt_' || n, 'webhook.received', '{}', 0 FROM numbers";
    execute(&app, many, args![]).await;
    app.clock.advance(Duration::from_secs(1));
    ci.signed(&app, JSON, b"{}").send().await.expect_error(503, "overloaded");
    execute(&app, "DELETE FROM cursors", args![]).await;
    app.clock.advance(Duration::from_secs(1));
    ci.send(&app, &json!({})).await;
}

#[tokio::test]
async fn deliveries_are_retained_for_thirty_days() {
    let app = TestApp::with_owner().await;
    create_agent(&app, "scout").await;
    let (ci, scouts) =
        (Sender::create(&app, ci()).await, Sender::create(&app, json!({"name": "s", "agent_id": "scout"})).await);
    let old = ci.send(&app, &json!({})).await;
    app.clock.advance(Duration::from_secs(29 * 24 * 3600));
    app.run_workers().await;
    let young = ci.send(&app, &json!({})).await;
    assert_eq!(ci.delivery(&app, &old).await["status"], "received");
    app.clock.advance(Duration::from_secs(24 * 3600 + 1));
    // A pending delivery is retained at any age.
    let waiting = scouts.send(&app, &json!({})).await;
    execute(&app, "UPDATE webhook_deliveries SET created_at = 0 WHERE status = 'pending'", args![]).await;
    execute(&app, "UPDATE queue SET due_at = 9000000000000000 WHERE queue = 'webhooks'", args![]).await;
    app.run_workers().await;
    app.get(&format!("{}/deliveries/{old}", ci.path())).send().await.expect_error(404, "delivery_not_found");
    assert_eq!(ci.delivery(&app, &young).await["status"], "received");
    assert_eq!(scouts.delivery(&app, &waiting).await["status"], "pending");
    assert_eq!(count(&app, "SELECT COUNT(*) FROM webhook_requests").await, 2);
    assert_eq!(count(&app, "SELECT COUNT(*) FROM webhook_messages").await, 0);
}

#[tokio::test]
async fn deliveries_of_a_webhook_are_limited_by_count_and_size() {
    let app = TestApp::with_owner().await;
    let (many, heavy) = (Sender::create(&app, ci()).await, Sender::create(&app, ci()).await);
    app.run_workers().await;
    let rows = "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 10120) \
                INSERT INTO webhook_deliveries (id, webhook_id, event_id, status, body_bytes, created_at) \
                SELECT 'wdl_' || n, $1, 'evt_x', CASE WHEN n = 1 THEN 'pending' ELSE 'received' END, 2, $2 + n FROM numbers";
    let now = app.clock.clock().now();
    execute(&app, rows, args![many.id.as_str(), now - Duration::from_secs(60)]).await;
    let newest = many.send(&app, &json!({})).await;
    let mut sent = Vec::new();
    for number in 0..4 {
        app.clock.advance(Duration::from_secs(1));
        sent.push(heavy.send(&app, &json!(number)).await);
    }
    let weigh = "UPDATE webhook_deliveries SET body_bytes = 100000000 WHERE webhook_id = $1";
    execute(&app, weigh, args![heavy.id.as_str()]).await;
    app.run_workers().await;
    let list = many.deliveries(&app, "?limit=1").await;
    // Pending deliveries count toward the limit and are retained.
    assert_eq!((&list["total"], &list["deliveries"][0]["id"]), (&json!(10_001), &json!(newest)));
    assert_eq!(many.deliveries(&app, "?status=pending").await["deliveries"][0]["id"], "wdl_1");
    assert_eq!(count(&app, "SELECT COUNT(*) FROM webhook_deliveries WHERE id = 'wdl_121'").await, 0);
    assert_eq!(count(&app, "SELECT COUNT(*) FROM webhook_deliveries WHERE id = 'wdl_122'").await, 1);
    let kept = heavy.deliveries(&app, "").await;
    let kept: Vec<&Value> = kept["deliveries"].as_array().unwrap().iter().map(|delivery| &delivery["id"]).collect();
    assert_eq!(kept, [&json!(sent[3]), &json!(sent[2])]);
}

/// Every request answered with 202 exists once after `kill -9`, and its turn starts once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_lose_no_accepted_delivery() {
    let reply = Reply::text(["Seen", "."], TEST_USAGE).delayed(Duration::from_millis(5));
    let vendor = FakeVendor::start(Vendor::Openai, Script::always(reply)).await.expect("a fake vendor");
    let mut process = TestProcess::with_owner().await;
    let key = json!({"api_key": "k", "base_url": vendor.base_url().as_str()});
    process.put("/api/providers/openai/key").json(&key).send().await.expect_status(200);
    let agent = json!({"svc_name": "scout", "user_name": "Ada", "archetype": "assistant"});
    process.post("/api/agents").json(&agent).send().await.expect_status(201);
    let hook = json!({"name": "ci", "agent_id": "scout", "prompt_template": "{{body.number}}"});
    let made = process.post("/api/webhooks").json(&hook).send().await.expect_status(201).json();
    let text = |name: &str| made[name].as_str().expect("a text").to_owned();
    let ci = Sender { id: text("id"), secret: text("secret") };
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let entropy = Entropy::seeded(7);
    let mut accepted: BTreeMap<String, String> = BTreeMap::new();
    for round in 0..5 {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 5 and 30")]
        let message_count = 5 + (entropy.unit() * 25.0) as usize;
        let url = format!("http://{}{}/receive", process.address, ci.path());
        let sends = (0..4).map(|sender| {
            let (ci, client, url) = (&ci, &client, &url);
            async move {
                let mut acknowledged = Vec::new();
                for number in 0..message_count {
                    let message = format!("{round}-{sender}-{number}");
                    let body = json!({"number": message}).to_string();
                    let request = client.post(url.as_str()).header("x-svc-signature", ci.signature(body.as_bytes()));
                    let answer = request.header("x-svc-delivery", &message).body(body).send().await;
                    let Ok(answer) = answer else { break };
                    assert_eq!(answer.status().as_u16(), 202);
                    let Ok(answer) = answer.json::<Value>().await else { break };
                    acknowledged.push((message, answer["delivery_id"].as_str().expect("an id").to_owned()));
                }
                acknowledged
            }
        });
        for (message, id) in join_all(sends).await.into_iter().flatten() {
            assert_eq!(accepted.insert(message, id), None);
        }
        process.kill();
        process.spawn().await;
    }
    assert!(accepted.len() > 100, "{} were accepted", accepted.len());
    let path = |query: &str| format!("{}/deliveries{query}", ci.path());
    let total = async |query: &str| {
        let list = process.get(&path(query)).send().await.expect_status(200).json();
        list["total"].as_u64().expect("a number")
    };
    let mut eventually = Eventually::new();
    while total("?status=pending").await + total("?status=running").await > 0 {
        eventually.retry().await;
    }
    let mut outcomes: BTreeMap<String, usize> = BTreeMap::new();
    for (message, id) in &accepted {
        let delivery = process.get(&path(&format!("/{id}"))).send().await.expect_status(200).json();
        assert_eq!(delivery["message_id"], *message);
        assert!(delivery["session_id"].is_string(), "{delivery}");
        *outcomes.entry(delivery["status"].as_str().expect("a status").to_owned()).or_default() += 1;
    }
    // Turns interrupted by a kill are marked; all others were answered.
    assert!(outcomes.keys().all(|status| status == "success" || status == "interrupted"), "{outcomes:?}");
    assert!(outcomes.get("success").copied().unwrap_or(0) > outcomes.get("interrupted").copied().unwrap_or(0));
    // Repeated messages map to the same deliveries.
    let before = total("").await;
    for (message, id) in accepted.iter().take(20) {
        let body = json!({"number": message}).to_string();
        let request = process.post(&format!("{}/receive", ci.path())).anonymous().body(JSON, body.clone());
        let request =
            request.header("x-svc-signature", &ci.signature(body.as_bytes())).header("x-svc-delivery", message);
        assert_eq!(request.send().await.expect_status(202).json()["delivery_id"], *id);
    }
    assert_eq!(total("").await, before);
}
