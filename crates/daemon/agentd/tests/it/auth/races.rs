//! Exactly one of several racing requests wins, within a process and between processes.

use agentd_base::Secret;
use agentd_core::auth::{AuthError, LoginOrigin, NewKey};
use agentd_store::Recorder;
use agentd_web::Caller;
use futures_util::future::join_all;
use serde_json::json;

use super::{account, replicas, text};
use crate::support::TestApp;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_of_sixteen_registrations_wins() {
    let app = TestApp::start().await;
    let requests = (0..16).map(|number| {
        let body = json!({"username": format!("owner {number}"), "password": "correct horse"});
        app.post("/api/auth/register").json(&body).send()
    });
    let answers = join_all(requests).await;
    let (won, lost): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| answer.status.as_u16() == 201);
    assert_eq!(won.len(), 1);
    for answer in lost {
        answer.expect_error(409, "account_exists");
    }
    let winner = text(&won[0].json(), "username");
    let login = json!({"username": winner, "password": "correct horse"});
    app.post("/api/auth/login").json(&login).send().await.expect_status(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_of_sixteen_first_keys_wins() {
    let app = TestApp::start().await;
    let requests =
        (0..16).map(|number| app.post("/api/auth/keys").json(&json!({"name": format!("first {number}")})).send());
    let answers = join_all(requests).await;
    let (won, lost): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| answer.status.as_u16() == 200);
    assert_eq!(won.len(), 1);
    for answer in lost {
        answer.expect_error(401, "missing_credential");
    }
    let key = text(&won[0].json(), "key");
    let keys = app.get("/api/auth/keys").bearer(&key).send().await.expect_status(200).json();
    assert_eq!(keys["keys"].as_array().map(Vec::len), Some(1));
}

/// The processes share only the database.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_registrations_and_first_keys_of_several_processes_have_one_winner() {
    let app = TestApp::start().await;
    let processes = replicas(&app, 4).await;
    let registrations =
        processes.iter().map(|auth| {
            let password = Secret::new("correct horse".to_owned());
            let caller = Caller::anonymous();
            async move {
                auth.register(&caller, "owner".to_owned(), password, LoginOrigin::default(), Recorder::none()).await
            }
        });
    let outcomes = join_all(registrations).await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
    for lost in outcomes.into_iter().filter_map(Result::err) {
        assert!(matches!(lost, AuthError::AccountExists), "{lost}");
    }
    let keys = processes.iter().flat_map(|auth| std::iter::repeat_n(auth, 4)).map(|auth| {
        let caller = Caller::anonymous();
        async move { auth.create_key(&caller, NewKey::named("first"), Recorder::none()).await }
    });
    let outcomes = join_all(keys).await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
    for lost in outcomes.into_iter().filter_map(Result::err) {
        assert!(matches!(lost, AuthError::NeedsCredential), "{lost}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_repeats_create_one_key() {
    let app = TestApp::with_owner().await;
    let requests = (0..8)
        .map(|_| app.post("/api/auth/keys").header("idempotency-key", "at once").json(&json!({"name": "one"})).send());
    let answers = join_all(requests).await;
    assert_eq!(answers.iter().filter(|answer| answer.status.as_u16() == 200).count(), 1);
    assert!(answers.iter().all(|answer| [200, 409].contains(&answer.status.as_u16())));
    let keys = app.get("/api/auth/keys").send().await.json();
    assert_eq!(keys["keys"].as_array().map(Vec::len), Some(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_of_sixteen_rotated_keys_remains_valid() {
    let app = TestApp::with_owner().await;
    app.post("/api/auth/register").json(&account()).send().await.expect_status(409);
    let (id, _) = super::create_key(&app, json!({"name": "contested"})).await;
    let path = format!("/api/auth/keys/{id}/rotate");
    let answers = join_all((0..16).map(|_| app.post(&path).send())).await;
    let mut good = 0;
    for answer in answers {
        let key = text(&answer.expect_status(200).json(), "key");
        good += usize::from(app.get("/api/auth/keys").bearer(&key).send().await.status.as_u16() == 200);
    }
    assert_eq!(good, 1);
}
