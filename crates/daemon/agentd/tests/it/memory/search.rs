//! Searching memories.

use agentd_inference::{LocalError, LocalErrorCode};
use serde_json::{Value, json};

use super::{app, contents, embedder, remember, say, search};

#[tokio::test]
async fn new_episode_is_found_in_every_mode() {
    let app = app().await;
    for (number, content) in
        ["The red lighthouse stands in Bremerhaven.", "Naïve Bäcker backen süße Brötchen.", "東京の天気は晴れです。"]
            .iter()
            .enumerate()
    {
        let id = say(&app, content).await;
        // The test embedder knows letters, not meanings.
        let modes = if number == 0 { &["keyword", "semantic", "hybrid"][..] } else { &["keyword", "hybrid"] };
        for mode in modes {
            let query = [
                "a+red+lighthouse+stands",
                "naive+BACKER+suesse+Brotchen",
                "%E6%9D%B1%E4%BA%AC%E3%81%AE%E5%A4%A9%E6%B0%97",
            ][number];
            let found = search(&app, &format!("{query}&mode={mode}")).await;
            assert_eq!(found["results"][0]["episode"]["id"], id, "{mode} {found}");
            assert_eq!((&found["mode"], &found["degraded"]), (&json!(mode), &json!(false)));
        }
    }
}

#[tokio::test]
async fn filters_apply_to_results_and_totals() {
    let app = app().await;
    for (day, source, agent) in
        [(1, "conversation", "scout"), (2, "task", "scout"), (3, "task", "other"), (31, "task", "scout")]
    {
        let body = json!({"content": format!("The comet of day {day}"), "source": source, "agent_id": agent,
            "occurred_at": format!("2025-01-{day:02}T23:30:00Z")});
        remember(&app, &body).await;
    }
    for (query, total) in [
        ("", 4),
        ("&source=task", 3),
        ("&agent_id=scout", 3),
        ("&agent_id=scout&source=task", 2),
        ("&start_date=2025-01-02", 3),
        ("&end_date=2025-01-02", 2),
        ("&start_date=2025-01-02&end_date=2025-01-03", 2),
        ("&start_date=2025-01-02T23:30:00Z&end_date=2025-01-02T23:30:00Z", 1),
        ("&start_date=2026-01-01", 0),
        ("&source=nothing", 0),
        ("&limit=1", 4),
        ("&limit=1&offset=3", 4),
        ("&offset=9", 4),
    ] {
        for mode in ["keyword", "hybrid"] {
            let found = search(&app, &format!("comet&mode={mode}{query}")).await;
            assert_eq!(found["total"], total, "{mode} {query}: {found}");
        }
    }
    let pages: Vec<Value> =
        futures_util::future::join_all((0..4).map(|offset| {
            let app = &app;
            async move {
                search(app, &format!("comet&limit=1&offset={offset}")).await["results"][0]["episode"]["id"].clone()
            }
        }))
        .await;
    let mut different = pages.clone();
    different.sort_by_key(Value::to_string);
    different.dedup();
    assert_eq!(different.len(), 4, "pages do not overlap: {pages:?}");
}

#[tokio::test]
async fn matches_are_highlighted_and_text_is_escaped() {
    let app = app().await;
    say(&app, "<script>alert('x')</script> The gardeners were gardening & planting.").await;
    let found = search(&app, "gardener&mode=keyword").await;
    let highlights = found["results"][0]["highlights"].as_array().expect("highlights");
    let text = highlights[0].as_str().expect("a text");
    assert!(
        text.contains("<mark>gardeners</mark>") && text.contains("&lt;script&gt;") && text.contains("&amp;"),
        "{text}"
    );
    assert!(!text.contains("<script>"));
}

#[tokio::test]
async fn special_characters_are_treated_as_plain_text() {
    let app = app().await;
    say(&app, "Nothing special happened today, or did it?").await;
    let long = "word%20".repeat(8_500);
    for query in [
        "%22%22%22",
        "AND+OR+NOT",
        "a:b^2~*?",
        "%F0%9F%92%A5",
        "the+a+of",
        "%E2%80%AE%D7%A9%D7%9C%D7%95%D7%9D",
        "((((",
        "%5C",
        &long,
    ] {
        for mode in ["keyword", "semantic", "hybrid"] {
            search(&app, &format!("{query}&mode={mode}")).await;
        }
    }
    // A query of only stop words is searched literally.
    assert_eq!(contents(&search(&app, "or+did+it&mode=keyword").await).len(), 1);
    for bad in [
        "q=",
        "q=%20",
        "x=1",
        "q=a%00b",
        "q=a&mode=magic",
        "q=a&limit=101",
        "q=a&start_date=soon",
        "q=a&start_date=2026-02-02&end_date=2026-02-01",
    ] {
        app.get(&format!("/api/memory/search?{bad}")).send().await.expect_status(400);
    }
    app.get("/api/memory/search?q=a&agent_id=nobody").send().await.expect_status(404);
}

#[tokio::test]
async fn keyword_search_works_without_a_model() {
    let app = app().await;
    let embedder = embedder(&app);
    let missing = "there is no embedding model; fetch the default one with `make models`";
    embedder.set_failure(Some(LocalError::new(LocalErrorCode::ModelMissing, missing)));
    say(&app, "A violin without a bow").await;
    let found = search(&app, "violin").await;
    assert_eq!((contents(&found).len(), &found["degraded"]), (1, &json!(true)));
    let refused = app.get("/api/memory/search?q=violin&mode=semantic").send().await.expect_status(503).json();
    assert!(refused["error"].as_str().is_some_and(|message| message.contains("make models")), "{refused}");
    embedder.set_failure(None);
    app.run_workers().await;
    let found = search(&app, "violin&mode=semantic").await;
    assert_eq!((contents(&found).len(), &found["degraded"]), (1, &json!(false)), "{found}");
}

#[tokio::test]
async fn query_without_a_word_has_no_results() {
    let app = app().await;
    let empty = search(&app, "violin").await;
    assert_eq!((&empty["total"], &empty["degraded"]), (&json!(0), &json!(false)), "an empty memory is not degraded");
    say(&app, "A violin without a bow").await;
    for mode in ["semantic", "hybrid", "keyword"] {
        let found = search(&app, &format!("%01&mode={mode}")).await;
        assert_eq!((&found["total"], &found["degraded"]), (&json!(0), &json!(false)), "{mode}");
    }
}

#[tokio::test]
async fn damaged_model_does_not_affect_existing_vectors() {
    let mut app = app().await;
    for number in 0..20 {
        say(&app, &format!("Whale number {number} of the northern sea")).await;
    }
    let clusters = async |app: &crate::support::TestApp| {
        app.get("/api/memory/clusters?n=2").send().await.expect_status(200).json()["total"].clone()
    };
    embedder(&app).set_model_id("damaged");
    embedder(&app).set_damaged(true);
    app.run_workers().await;
    assert_eq!(clusters(&app).await, 20);
    app.restart().await;
    app.run_workers().await;
    assert_eq!(clusters(&app).await, 20);
    let found = search(&app, "whale").await;
    assert_eq!((&found["total"], &found["degraded"]), (&json!(20), &json!(true)));
    app.get("/api/memory/search?q=whale&mode=semantic").send().await.expect_error(503, "no_embedding_model");
    let jobs = app.get("/api/memory/jobs").send().await.expect_status(200).json();
    let embedding = jobs["jobs"].as_array().expect("jobs").iter().find(|job| job["name"] == "embed_episodes");
    assert_eq!(embedding.expect("a job")["status"], "idle", "{jobs}");
    // A repaired model counts as a different model.
    embedder(&app).set_damaged(false);
    app.run_workers().await;
    assert_eq!(search(&app, "whale&mode=semantic").await["total"], 20);
}

#[tokio::test]
async fn model_change_causes_no_outage() {
    let app = app().await;
    for number in 0..100 {
        say(&app, &format!("Episode {number} about whales")).await;
    }
    embedder(&app).set_model_id("another");
    assert_eq!(search(&app, "whales&mode=keyword").await["total"], 100);
    app.run_workers().await;
    let found = search(&app, "whales&mode=semantic").await;
    assert_eq!((&found["total"], &found["degraded"]), (&json!(100), &json!(false)));
}

#[tokio::test]
async fn related_episodes_share_meaning_or_entities() {
    let app = app().await;
    let rust = say(&app, "The crawler is written in Rust with Tokio").await;
    say(&app, "We rewrote the crawler in Rust, Tokio drives it").await;
    say(&app, "Tokio is loved by Anna Berg").await;
    say(&app, "A recipe for lentil soup").await;
    remember(&app, &json!({"content": "The crawler is written in Rust with Tokio", "agent_id": "other"})).await;
    let related = app.get(&format!("/api/memory/episodes/{rust}/related")).send().await.expect_status(200).json();
    let related = related["related"].as_array().expect("a list");
    assert_eq!(related[0]["episode"]["content"], "We rewrote the crawler in Rust, Tokio drives it");
    let shared: Vec<_> =
        related[0]["shared_entities"].as_array().expect("names").iter().map(Value::to_string).collect();
    assert!(shared.len() >= 2, "{shared:?}");
    assert!(related.iter().all(|other| other["episode"]["id"] != rust && other["score"].as_f64() <= Some(1.0)));
    app.get("/api/memory/episodes/ep_nothing/related").send().await.expect_status(404);
}

#[tokio::test]
async fn replica_finds_episodes_of_another_replica() {
    let app = app().await;
    let Some(replica) = app.replica().await else { return };
    for number in 0..20 {
        let (one, other) = if number % 2 == 0 { (&app, &replica) } else { (&replica, &app) };
        let id = say(one, &format!("Secret number {number} of the lighthouse")).await;
        let found = search(other, &format!("{number}&mode=keyword&agent_id=scout")).await;
        assert_eq!(found["results"][0]["episode"]["id"], id);
        if number % 4 == 0 {
            other.delete(&format!("/api/memory/episodes/{id}")).send().await.expect_status(200);
            assert!(
                search(one, &format!("{number}&mode=keyword")).await["results"]
                    .as_array()
                    .expect("a list")
                    .iter()
                    .all(|result| result["episode"]["id"] != id)
            );
        }
    }
}
