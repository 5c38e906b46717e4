//! Every platform from a signed message to its answer.

use agentd_chat_platforms::Platform;
use agentd_testing_chat_platforms::{FakeMessage, FakePlatform, forged};
use agentd_testing_llm::{Reply, Script};
use serde_json::json;

use super::{hook, settle};
use crate::support::chat_fixture::{ChatFixture, TEST_USAGE};

async fn round_trip(platform: &str) {
    let script = Script::always(Reply::text(["All is well."], TEST_USAGE));
    let fixture = ChatFixture::with(script).await;
    let app = &fixture.app;
    let fake = FakePlatform::start(Platform::from_id(platform).unwrap(), app.clock.clock()).await.unwrap();
    let mut settings = fake.settings();
    settings["enabled"] = json!(true);
    settings["agent_id"] = json!("scout");
    settings["sender_policy"] = json!("open");
    app.put("/api/channels/settings").json(&json!({ platform: settings })).send().await.expect_status(200);
    let now = app.clock.clock().now();
    let message = fake.message(&FakeMessage { chat: 7, number: 1, text: "How are things?" }, now);
    hook(app, platform, &forged(message.clone())).send().await.expect_error(401, "bad_signature");
    assert_eq!(fixture.vendor.requests().len(), 0, "{platform}");
    for _ in 0..3 {
        hook(app, platform, &message).send().await.expect_status(200);
        settle(app).await;
    }
    let answers = fake.sent().iter().filter(|sent| sent.to_string().contains("All is well.")).count();
    let prompts: Vec<String> = fixture.vendor.requests().iter().map(|request| request.body.to_string()).collect();
    assert_eq!((answers, prompts.len()), (1, 1), "{platform}: {:?} {prompts:#?}", fake.sent());
    let list = app.get("/api/channels").send().await.expect_status(200).json();
    let state = list["channels"]
        .as_array()
        .unwrap()
        .iter()
        .find(|channel_status| channel_status["platform"] == platform)
        .unwrap()
        .clone();
    assert_eq!((&state["status"], &state["last_error"]), (&json!("ready"), &json!(null)), "{platform}: {state}");
    let checked = app.post(&format!("/api/channels/{platform}/check")).send().await.expect_status(200).json();
    assert_eq!(checked["ok"], true, "{platform}");
    let registered = app.post(&format!("/api/channels/{platform}/register")).send().await;
    match platform {
        "discord" => drop(registered.expect_status(200)),
        // Telegram accepts only `https`; the other platforms are configured on their own pages.
        _ => drop(registered.expect_error(502, "platform_refused")),
    }
}

macro_rules! round_trips {
    ($($name:ident)*) => {
        $(
            #[tokio::test]
            async fn $name() {
                round_trip(stringify!($name)).await;
            }
        )*
    };
}

round_trips!(discord google_chat slack teams telegram whatsapp);

#[tokio::test]
async fn failed_whatsapp_delivery_becomes_a_dead_letter() {
    let fixture = ChatFixture::saying(&["Hello."]).await;
    let app = &fixture.app;
    let platform = FakePlatform::start(Platform::Whatsapp, app.clock.clock()).await.unwrap();
    let mut settings = platform.settings();
    let FakePlatform::Whatsapp(fake) = platform else { panic!("another platform") };
    settings["enabled"] = json!(true);
    app.put("/api/channels/settings").json(&json!({"whatsapp": settings})).send().await.expect_status(200);
    let job = json!({
        "name": "report", "goal": "Say how things are.", "agent_id": "scout",
        "schedule": {"type": "every", "interval": 600}, "delivery": {"channel": "whatsapp:491701234567"},
    });
    let job = app.post("/api/scheduler/jobs").json(&job).send().await.expect_status(201).json();
    let trigger = format!("/api/scheduler/jobs/{}/trigger", job["id"].as_str().unwrap());
    app.post(&trigger).send().await.expect_status(202);
    let mut eventually = crate::support::Eventually::new();
    let read = async |path: &str| app.get(path).send().await.expect_status(200).json();
    while read("/api/notifications?status=sent").await["total"] != 1 {
        app.run_workers().await;
        eventually.retry().await;
    }
    for _ in 0..2 {
        let status = fake.failed("wamid.sent1", 131_047, "Re-engagement message");
        hook(app, "whatsapp", &status).send().await.expect_status(200);
    }
    let dead = read("/api/notifications?status=dead_letter").await;
    let error = "the 24-hour messaging window of WhatsApp is closed";
    assert!(dead["notifications"][0]["error"].as_str().unwrap().contains(error), "{dead}");
    let list = read("/api/channels").await;
    let state = list["channels"]
        .as_array()
        .unwrap()
        .iter()
        .find(|channel_status| channel_status["platform"] == "whatsapp")
        .unwrap()
        .clone();
    assert!(state["status"] == "error" && state["last_error"].as_str().unwrap().contains(error), "{state}");
    let sql = "SELECT COUNT(*) AS n FROM outbox WHERE event_type = 'channel.message.failed'";
    let row = app.running().context().db.read().await.unwrap().fetch_one(sql, agentd_store::args![]).await.unwrap();
    assert_eq!(row.get::<u64>("n").unwrap(), 1, "published once");
    let id = dead["notifications"][0]["id"].as_str().unwrap().to_owned();
    app.post(&format!("/api/notifications/{id}/retry")).send().await.expect_status(200);
    let mut eventually = crate::support::Eventually::new();
    while fake.sent().len() < 2 {
        app.run_workers().await;
        eventually.retry().await;
    }
}

#[tokio::test]
async fn whatsapp_address_verification_is_answered() {
    let fixture = ChatFixture::saying(&["Hello."]).await;
    let app = &fixture.app;
    let fake = FakePlatform::start(Platform::Whatsapp, app.clock.clock()).await.unwrap();
    let mut settings = fake.settings();
    settings["enabled"] = json!(true);
    let token = settings["verify_token"].as_str().unwrap().to_owned();
    app.put("/api/channels/settings").json(&json!({"whatsapp": settings})).send().await.expect_status(200);
    let path = |token: &str| {
        format!("/api/channels/whatsapp/webhook?hub.mode=subscribe&hub.verify_token={token}&hub.challenge=4711")
    };
    let answer = app.get(&path(&token)).anonymous().send().await.expect_status(200);
    assert_eq!(answer.text(), "4711");
    app.get(&path("another")).anonymous().send().await.expect_error(401, "bad_signature");
}
