//! Clients that ask the model inside, all at once: they take turns, and who leaves costs the others nothing.

use std::path::{Path, PathBuf};

use agentd_testing_inference::scripted::{HELD, asked, release};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::local_model::{KNOWS_NONE, with_scripted_model};
use crate::support::TestApp;
use crate::support::eventually::Eventually;
use crate::support::request::token_text;

const CROWD: usize = 100;
/// Stands in what the model is asked for a welcome.
const WELCOME: &str = "short and friendly welcome";
/// Of the four replies that are written at once, what one client has at most.
const MOST_OF_ONE: usize = 3;

/// A daemon, and the file of its model, which answers questions about the sky at once.
async fn with_held_welcomes() -> (TestApp, PathBuf) {
    let held = format!("{HELD}Welcome!");
    with_scripted_model(KNOWS_NONE, &[("sky", "Light scatters."), (WELCOME, &held)]).await
}

async fn new_key(app: &TestApp, name: &str) -> String {
    let made = app.post("/api/auth/keys").json(&json!({"name": name})).send().await.expect_status(200).json();
    made["key"].as_str().expect("a key").to_owned()
}

/// Asks with this key for a welcome, which the model holds back; the connection ends with the task.
fn ask(app: &TestApp, key: &str) -> JoinHandle<()> {
    let request = app.post("/api/chat/welcome").json(&json!({})).bearer(key);
    tokio::spawn(async move {
        request.send().await;
    })
}

async fn until_active(app: &TestApp, wanted: usize) {
    let mut eventually = Eventually::new();
    loop {
        let list = app.get("/api/providers").send().await.expect_status(200).json();
        let providers = list["providers"].as_array().expect("a list");
        let local = providers.iter().find(|provider| provider["id"] == "local").expect("the model inside");
        let active = &local["local"]["active_requests"];
        if *active == json!(wanted) {
            return;
        }
        eventually.look_again_at(active).await;
    }
}

/// How many welcomes the model began to write.
fn begun(file: &Path) -> usize {
    let is_welcome = |line: &&Value| line["prompt"].as_str().is_some_and(|prompt| prompt.contains(WELCOME));
    asked(file).map_or(0, |lines| lines.iter().filter(is_welcome).count())
}

#[tokio::test]
async fn a_hundred_clients_that_come_and_go_keep_nobody_from_the_model_inside() {
    let (app, file) = with_held_welcomes().await;
    let (crowd, stays) = (new_key(&app, "crowd").await, new_key(&app, "stays").await);
    for wave in 1..=3 {
        let asking: Vec<_> = (0..CROWD).map(|_| ask(&app, &crowd)).collect();
        until_active(&app, CROWD).await;
        // The crowd's replies do not end, and the other client is answered all the same.
        let message = json!({"content": "Why is the sky blue?"});
        let events = app.post("/api/chat/messages/stream").json(&message).bearer(&stays).stream().await.collect().await;
        assert_eq!(token_text(&events), "Light scatters.", "{events:?}");
        assert_eq!(begun(&file), wave * MOST_OF_ONE, "nothing more was begun for the crowd");
        asking.iter().for_each(JoinHandle::abort);
        until_active(&app, 0).await;
    }
}

#[tokio::test]
async fn clients_that_wait_for_the_model_inside_are_served_in_turn() {
    let (app, file) = with_held_welcomes().await;
    let (first, second) = (new_key(&app, "first").await, new_key(&app, "second").await);
    // Two crowds have all four places, three and one, and more of both wait.
    let mut asking: Vec<_> = (0..10).map(|_| ask(&app, &first)).collect();
    until_active(&app, 10).await;
    asking.extend((0..10).map(|_| ask(&app, &second)));
    until_active(&app, 20).await;
    let message = json!({"content": "Why is the sky blue?"});
    let stays = app.post("/api/chat/messages/stream").json(&message);
    let stays = tokio::spawn(async move { stays.stream().await.collect().await });
    until_active(&app, 21).await;
    assert_eq!(begun(&file), 4);
    // Everything goes on: of all that waits, one of each crowd at most goes before the third client.
    release(&file).expect("a file");
    assert_eq!(token_text(&stays.await.expect("an answer")), "Light scatters.");
    let lines = asked(&file).expect("what the model was asked");
    let before = lines.iter().take_while(|line| !line["prompt"].to_string().contains("sky")).count();
    assert!((4..=6).contains(&before), "{before} replies were begun before the third client's");
    for task in asking {
        task.await.expect("an answer");
    }
}
