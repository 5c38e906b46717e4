//! Clusters: deterministic, labeled by their terms, and usable as a filter.

use std::collections::BTreeSet;

use agentd_inference::{LocalError, LocalErrorCode};
use serde_json::{Value, json};

use super::{app, embedder, remember, say};
use crate::support::TestApp;

const TOPICS: [&str; 3] =
    ["bread oven baking flour", "violin concert orchestra strings", "glacier mountain climbing rope"];

/// Stores `each` episodes per topic, alternating between topics.
async fn filled(each: usize) -> TestApp {
    let app = app().await;
    for number in 0..each {
        for topic in TOPICS {
            say(&app, &format!("{topic} number {number}")).await;
        }
    }
    app
}

async fn clusters(app: &TestApp, query: &str) -> Value {
    app.get(&format!("/api/memory/clusters{query}")).send().await.expect_status(200).json()
}

async fn list(app: &TestApp, query: &str) -> Value {
    app.get(&format!("/api/memory/episodes?{query}")).send().await.expect_status(200).json()
}

fn ids(answer: &Value) -> Vec<String> {
    let clusters = answer["clusters"].as_array().expect("clusters");
    clusters.iter().map(|cluster| cluster["id"].as_str().expect("an id").to_owned()).collect()
}

fn sizes(answer: &Value) -> Vec<u64> {
    let clusters = answer["clusters"].as_array().expect("clusters");
    clusters.iter().map(|cluster| cluster["size"].as_u64().expect("a size")).collect()
}

#[tokio::test]
async fn topics_are_separated_and_labeled() {
    let app = filled(12).await;
    say(&app, "violin concert orchestra strings once more").await;
    let answer = clusters(&app, "?n=3").await;
    assert_eq!((sizes(&answer), &answer["total"]), (vec![13, 12, 12], &json!(37)));
    assert!(answer["clusters"][0]["label"].as_str().is_some_and(|label| label.contains("concert")), "{answer}");
    for (cluster, id) in answer["clusters"].as_array().expect("clusters").iter().zip(ids(&answer)) {
        let keywords: Vec<&str> =
            cluster["keywords"].as_array().expect("words").iter().filter_map(Value::as_str).collect();
        let topic = TOPICS.iter().find(|topic| keywords[..3].iter().all(|word| topic.contains(word)));
        let topic = topic.unwrap_or_else(|| panic!("{keywords:?} are of no topic"));
        let named: BTreeSet<&str> =
            cluster["episode_ids"].as_array().expect("ids").iter().filter_map(Value::as_str).collect();
        let listed = list(&app, &format!("cluster_id={id}&limit=100")).await;
        let episodes = listed["episodes"].as_array().expect("episodes");
        assert_eq!(listed["total"], cluster["size"]);
        assert!(
            episodes.iter().all(|episode| episode["content"].as_str().is_some_and(|content| content.contains(topic)))
        );
        let of_list: BTreeSet<&str> = episodes.iter().filter_map(|episode| episode["id"].as_str()).collect();
        assert_eq!(of_list, named);
    }
    // The default is four clusters; fewer are possible but never more.
    assert_eq!(ids(&clusters(&app, "").await), ids(&clusters(&app, "?n=4").await));
    assert!(sizes(&clusters(&app, "?n=2").await).len() == 2);
}

#[tokio::test]
async fn cluster_is_listed_in_pages_newest_first() {
    let app = filled(10).await;
    let id = ids(&clusters(&app, "?n=3").await)[1].clone();
    let all = list(&app, &format!("cluster_id={id}&limit=100")).await;
    let numbers: Vec<&Value> =
        all["episodes"].as_array().expect("a list").iter().map(|episode| &episode["id"]).collect();
    let mut paged = Vec::new();
    for offset in [0, 4, 8, 12] {
        let page = list(&app, &format!("cluster_id={id}&limit=4&offset={offset}")).await;
        assert_eq!((&page["total"], &page["offset"]), (&json!(10), &json!(offset)));
        paged.extend(page["episodes"].as_array().expect("a list").iter().map(|episode| episode["id"].clone()));
    }
    assert_eq!(paged.iter().collect::<Vec<_>>(), numbers);
    let made: Vec<&str> =
        all["episodes"].as_array().expect("a list").iter().filter_map(|episode| episode["content"].as_str()).collect();
    assert!(made[0].ends_with("number 9") && made[9].ends_with("number 0"), "{made:?}");
    assert_eq!(list(&app, &format!("cluster_id={id}&offset=9999999999")).await["episodes"], json!([]));
}

#[tokio::test]
async fn cluster_ids_are_stable_until_memory_changes() {
    let mut app = filled(8).await;
    let before = clusters(&app, "?n=3").await;
    app.run_workers().await;
    assert_eq!(clusters(&app, "?n=3").await, before);
    app.restart().await;
    let id = ids(&before)[0].clone();
    // Before the clusters are requested again.
    assert_eq!(list(&app, &format!("cluster_id={id}")).await["total"], 8);
    assert_eq!(clusters(&app, "?n=3").await, before);
    if let Some(replica) = app.replica().await {
        assert_eq!(list(&replica, &format!("cluster_id={id}")).await["total"], 8);
        assert_eq!(clusters(&replica, "?n=3").await, before);
    }
    let more = say(&app, "bread oven baking flour one more").await;
    let gone = app.get(&format!("/api/memory/episodes?cluster_id={id}")).send().await.expect_error(404, "not_found");
    assert!(gone.json().to_string().contains("/api/memory/clusters"), "{:?}", gone.json());
    let after = clusters(&app, "?n=3").await;
    assert!(ids(&before).iter().all(|id| !ids(&after).contains(id)));
    assert_eq!(after["total"], 25);
    // With the original content the old ids are valid again.
    app.delete(&format!("/api/memory/episodes/{more}")).send().await.expect_status(200);
    assert_eq!(clusters(&app, "?n=3").await, before);
    // A rebuilt index has the same clusters.
    app.stop().await;
    std::fs::remove_dir_all(app.data_dir().join("index")).expect("removed");
    app.try_start().await.expect("start the daemon");
    assert_eq!(clusters(&app, "?n=3").await, before);
}

#[tokio::test]
async fn agents_have_separate_clusters() {
    let app = filled(6).await;
    for number in 0..5 {
        remember(&app, &json!({"content": format!("bread oven baking flour of other {number}"), "agent_id": "other"}))
            .await;
    }
    let mine = clusters(&app, "?n=3&agent_id=scout").await;
    assert_eq!((sizes(&mine), &mine["total"]), (vec![6, 6, 6], &json!(18)));
    let theirs = clusters(&app, "?n=2&agent_id=other").await;
    assert_eq!(theirs["total"], 5);
    let all = clusters(&app, "?n=3").await;
    assert_eq!(sizes(&all), [11, 6, 6]);
    // A cluster of all agents can be filtered by agent.
    let id = ids(&all)[0].clone();
    assert_eq!(list(&app, &format!("cluster_id={id}&agent_id=other")).await["total"], 5);
    assert_eq!(list(&app, &format!("cluster_id={id}&agent_id=scout")).await["total"], 6);
    let id = ids(&mine)[0].clone();
    assert_eq!(list(&app, &format!("cluster_id={id}&agent_id=other")).await["total"], 0);
    // Memories of other agents do not change the clusters.
    remember(&app, &json!({"content": "something else", "agent_id": "other"})).await;
    assert_eq!(clusters(&app, "?n=3&agent_id=scout").await, mine);
    assert_eq!(list(&app, &format!("cluster_id={id}")).await["total"], 6);
    app.delete("/api/agents/scout").send().await.expect_status(200);
    app.get(&format!("/api/memory/episodes?cluster_id={id}")).send().await.expect_status(404);
}

#[tokio::test]
async fn few_or_identical_memories_are_grouped() {
    let app = app().await;
    assert_eq!(clusters(&app, "").await, json!({"clusters": [], "total": 0}));
    say(&app, "The only one").await;
    assert_eq!(sizes(&clusters(&app, "?n=8").await), [1]);
    app.delete("/api/settings/memory/data").send().await.expect_status(200);
    for _ in 0..7 {
        say(&app, "Always the same sentence").await;
    }
    let same = clusters(&app, "?n=5").await;
    assert_eq!((sizes(&same), same["clusters"][0]["episode_ids"].as_array().map(Vec::len)), (vec![7], Some(7)));
    say(&app, "Glaciers melt").await;
    assert_eq!(sizes(&clusters(&app, "?n=5").await), [7, 1]);
}

#[tokio::test]
async fn large_clusters_list_every_episode_once() {
    let app = app().await;
    let mut episode_ids = Vec::new();
    for number in 0..170 {
        episode_ids.push(say(&app, &format!("Always the same sentence {}", number % 3)).await);
    }
    let answer = clusters(&app, "?n=2").await;
    assert_eq!(sizes(&answer).iter().sum::<u64>(), 170);
    assert!(sizes(&answer)[0] > 100, "{:?}", sizes(&answer));
    let mut named = BTreeSet::new();
    for cluster in answer["clusters"].as_array().expect("clusters") {
        let ids = cluster["episode_ids"].as_array().expect("ids");
        assert_eq!(Some(ids.len() as u64), cluster["size"].as_u64());
        let places: Vec<usize> = ids
            .iter()
            .map(|id| episode_ids.iter().position(|episode_id| id == episode_id).expect("an episode"))
            .collect();
        assert!(places.iter().skip(100).is_sorted(), "oldest first after the nearest: {places:?}");
        named.extend(places);
    }
    assert_eq!(named.len(), 170);
}

#[tokio::test]
async fn episodes_without_a_vector_are_excluded() {
    let app = app().await;
    let missing = LocalError::new(LocalErrorCode::ModelMissing, "there is no model");
    embedder(&app).set_failure(Some(missing));
    say(&app, "Nobody knows what this means").await;
    assert_eq!(clusters(&app, "").await, json!({"clusters": [], "total": 0}));
    embedder(&app).set_failure(None);
    say(&app, "This is known").await;
    assert_eq!(clusters(&app, "").await["total"], 1);
    app.run_workers().await;
    assert_eq!(clusters(&app, "").await["total"], 2);
}

#[tokio::test]
async fn invalid_cluster_parameters_are_rejected() {
    let app = filled(1).await;
    for bad in ["n=1", "n=9", "n=-1", "n=0", "n=x", "n=4.5", "n=99999999999999999999"] {
        app.get(&format!("/api/memory/clusters?{bad}")).send().await.expect_status(400);
    }
    app.get("/api/memory/clusters?agent_id=nobody").send().await.expect_status(404);
    let id = ids(&clusters(&app, "?n=2").await)[0].clone();
    for unknown in ["", "cl_", &id[..20], &format!("{}9", &id[..id.len() - 1]), &id.to_uppercase()] {
        app.get(&format!("/api/memory/episodes?cluster_id={unknown}")).send().await.expect_error(404, "not_found");
    }
}
