//! What is forgotten by itself.

use std::time::Duration;

use serde_json::json;

use super::{app, chat, remember, remembered, say, settings, stats};
use crate::support::talk::Talk;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

#[tokio::test]
async fn what_nobody_touched_for_long_is_forgotten() {
    let talk = Talk::saying(&["In Oslo."]).await;
    say(&talk.app, "My sister Anna lives in Oslo.").await;
    say(&talk.app, "The crawler is written in Rust.").await;
    talk.app.clock.advance(20 * DAY);
    chat(&talk, None, "Where does my sister live?").await;
    talk.app.run_workers().await;
    talk.app.clock.advance(11 * DAY);
    talk.app.run_workers().await;
    assert_eq!(remembered(&talk.app).await.len(), 2, "kept for ever by default");
    settings(&talk.app, json!({"retention_days": 30})).await;
    talk.app.run_workers().await;
    assert_eq!(remembered(&talk.app).await, ["My sister Anna lives in Oslo."], "what was recalled stays");
    assert_eq!(super::search(&talk.app, "crawler").await["total"], 0);
    talk.app.clock.advance(31 * DAY);
    settings(&talk.app, json!({"enabled": false})).await;
    talk.app.run_workers().await;
    assert_eq!(remembered(&talk.app).await.len(), 1, "nothing is forgotten while memory is off");
    settings(&talk.app, json!({"enabled": true})).await;
    talk.app.run_workers().await;
    let stats = stats(&talk.app).await;
    assert_eq!((&stats["total_episodes"], &stats["total_entities"]), (&json!(0), &json!(0)));
}

#[tokio::test]
async fn only_what_was_stored_by_itself_is_forgotten_for_being_unimportant() {
    let talk = Talk::saying(&["All right."]).await;
    remember(&talk.app, &json!({"content": "By hand.", "importance": 0.0, "source": "conversation"})).await;
    chat(&talk, None, "I prefer tea.").await;
    talk.app.run_workers().await;
    assert_eq!(remembered(&talk.app).await, ["By hand.", "I prefer tea."]);
    settings(&talk.app, json!({"min_importance": 1.0})).await;
    talk.app.run_workers().await;
    assert_eq!(remembered(&talk.app).await, ["By hand."]);
}

#[tokio::test]
async fn many_are_forgotten_in_batches() {
    let app = app().await;
    for number in 0..120 {
        say(&app, &format!("Note number {number}")).await;
    }
    app.clock.advance(2 * DAY);
    settings(&app, json!({"retention_days": 1})).await;
    app.run_workers().await;
    assert_eq!(stats(&app).await["total_episodes"], 0);
    assert_eq!(super::search(&app, "note").await["total"], 0);
}
