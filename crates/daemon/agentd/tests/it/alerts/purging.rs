//! Retention of firings and their notices.

use std::time::Duration;

use serde_json::json;

use super::{NEVER, advance_minutes, change, create, evaluate, firing, firings, received_notices, with};
use crate::hooks::receiver::Receiver;
use crate::support::TestApp;

/// Number of notices retained per firing.
const MAX_NOTICES: usize = 100;

#[tokio::test]
async fn long_firing_retains_its_newest_notices_for_90_days() {
    let (app, receiver) = (TestApp::with_owner().await, Receiver::start().await);
    let id = create(&app, &with(firing(&receiver), &json!({"notify_every_minutes": 1}))).await;
    advance_minutes(&app, MAX_NOTICES as u64 + 4).await;
    assert!(received_notices(&receiver).len() > MAX_NOTICES);
    let fired = firings(&app, &id).await;
    assert_eq!(fired.len(), 1);
    let notices = fired[0]["notices"].as_array().unwrap();
    assert_eq!((notices.len(), notices[MAX_NOTICES - 1]["status"].as_str()), (MAX_NOTICES, Some("sent")));
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
