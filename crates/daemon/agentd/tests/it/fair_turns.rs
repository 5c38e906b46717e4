//! Fair scheduling of the local model among many concurrent clients.

use std::path::{Path, PathBuf};

use agentd_testing_inference::scripted::{HELD_PREFIX, recorded_prompts, release};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::local_model::{TEMPLATE_WITHOUT_TOOLS, with_scripted_model};
use crate::support::TestApp;
use crate::support::eventually::Eventually;
use crate::support::request::token_text;

const CROWD_SIZE: usize = 100;
/// Part of the prompt for a welcome message.
const WELCOME_PROMPT: &str = "short and friendly welcome";
/// Maximum number of concurrent replies of one client, of four in total.
const MAX_PER_CLIENT: usize = 3;

/// Starts a daemon whose local model answers questions about the sky immediately and holds welcome messages back.
/// Also returns the file of the model.
async fn with_held_welcomes() -> (TestApp, PathBuf) {
    let held = format!("{HELD_PREFIX}Welcome!");
    with_scripted_model(TEMPLATE_WITHOUT_TOOLS, &[("sky", "Light scatters."), (WELCOME_PROMPT, &held)]).await
}

async fn create_key(app: &TestApp, name: &str) -> String {
    let made = app.post("/api/auth/keys").json(&json!({"name": name})).send().await.expect_status(200).json();
    made["key"].as_str().expect("a key").to_owned()
}

/// Requests a welcome message, which the model holds back; aborting the task closes the connection.
fn request_welcome(app: &TestApp, key: &str) -> JoinHandle<()> {
    let request = app.post("/api/chat/welcome").json(&json!({})).bearer(key);
    tokio::spawn(async move {
        request.send().await;
    })
}

async fn wait_until_active(app: &TestApp, wanted: usize) {
    let mut eventually = Eventually::new();
    loop {
        let list = app.get("/api/providers").send().await.expect_status(200).json();
        let providers = list["providers"].as_array().expect("a list");
        let local = providers.iter().find(|provider| provider["id"] == "local").expect("the local model");
        let active = &local["local"]["active_requests"];
        if *active == json!(wanted) {
            return;
        }
        eventually.retry_with(active).await;
    }
}

/// Returns the number of welcome messages that the model has begun.
fn begun_welcomes(file: &Path) -> usize {
    let is_welcome = |line: &&Value| line["prompt"].as_str().is_some_and(|prompt| prompt.contains(WELCOME_PROMPT));
    recorded_prompts(file).map_or(0, |lines| lines.iter().filter(is_welcome).count())
}

#[tokio::test]
async fn crowd_of_clients_does_not_block_other_clients_of_the_local_model() {
    let (app, file) = with_held_welcomes().await;
    let (crowd, stays) = (create_key(&app, "crowd").await, create_key(&app, "stays").await);
    for wave in 1..=3 {
        let asking: Vec<_> = (0..CROWD_SIZE).map(|_| request_welcome(&app, &crowd)).collect();
        wait_until_active(&app, CROWD_SIZE).await;
        // The crowd's replies do not end, but the other client is answered.
        let message = json!({"content": "Why is the sky blue?"});
        let events = app.post("/api/chat/messages/stream").json(&message).bearer(&stays).stream().await.collect().await;
        assert_eq!(token_text(&events), "Light scatters.", "{events:?}");
        assert_eq!(begun_welcomes(&file), wave * MAX_PER_CLIENT, "the crowd is limited");
        asking.iter().for_each(JoinHandle::abort);
        wait_until_active(&app, 0).await;
    }
}

#[tokio::test]
async fn waiting_clients_of_the_local_model_are_served_in_turn() {
    let (app, file) = with_held_welcomes().await;
    let (first, second) = (create_key(&app, "first").await, create_key(&app, "second").await);
    // Two crowds occupy all four permits, three and one, and more requests of both wait.
    let mut asking: Vec<_> = (0..10).map(|_| request_welcome(&app, &first)).collect();
    wait_until_active(&app, 10).await;
    asking.extend((0..10).map(|_| request_welcome(&app, &second)));
    wait_until_active(&app, 20).await;
    let message = json!({"content": "Why is the sky blue?"});
    let stays = app.post("/api/chat/messages/stream").json(&message);
    let stays = tokio::spawn(async move { stays.stream().await.collect().await });
    wait_until_active(&app, 21).await;
    assert_eq!(begun_welcomes(&file), 4);
    // After the release, at most one waiting request of each crowd precedes the third client.
    release(&file).expect("a file");
    assert_eq!(token_text(&stays.await.expect("an answer")), "Light scatters.");
    let lines = recorded_prompts(&file).expect("recorded prompts");
    let before = lines.iter().take_while(|line| !line["prompt"].to_string().contains("sky")).count();
    assert!((4..=6).contains(&before), "{before} replies began before the third client's");
    for task in asking {
        task.await.expect("an answer");
    }
}
