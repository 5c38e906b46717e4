//! What is kept of alerts, and for how long.

use std::time::Duration;

use serde_json::json;

use super::{NEVER, change, create, evaluate, firing, firings, pass, told, with};
use crate::hooks::receiver::Receiver;
use crate::support::TestApp;

/// As many notices of a firing are kept.
const KEPT: usize = 100;

#[tokio::test]
async fn of_a_long_firing_the_newest_notices_stay_until_it_is_long_over() {
    let (app, receiver) = (TestApp::with_owner().await, Receiver::start().await);
    let id = create(&app, &with(firing(&receiver), &json!({"notify_every_minutes": 1}))).await;
    pass(&app, KEPT as u64 + 4).await;
    assert!(told(&receiver).len() > KEPT);
    let fired = firings(&app, &id).await;
    assert_eq!(fired.len(), 1);
    let notices = fired[0]["notices"].as_array().unwrap();
    assert_eq!((notices.len(), notices[KEPT - 1]["status"].as_str()), (KEPT, Some("sent")));
    assert!(notices[0]["at"].as_str() > fired[0]["started_at"].as_str());
    change(&app, &id, json!({"threshold": NEVER})).await;
    evaluate(&app).await;
    app.clock.advance(Duration::from_secs(89 * 24 * 3600));
    evaluate(&app).await;
    assert_eq!(firings(&app, &id).await.len(), 1);
    app.clock.advance(Duration::from_secs(2 * 24 * 3600));
    evaluate(&app).await;
    assert_eq!(firings(&app, &id).await.len(), 0);
}
