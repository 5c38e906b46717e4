//! The steps of docs/guides/channels.md for every platform, from the settings to the first answer.

use agentd_chat_platforms::Platform;
use agentd_testing_chat_platforms::{FakeMessage, FakePlatform};
use agentd_testing_llm::{Reply, Script};
use serde_json::{Value, json};

use super::{hook, settle};
use crate::support::TestApp;
use crate::support::chat_fixture::{ChatFixture, TEST_USAGE};

const PUBLIC_URL: &str = "https://agents.example";

/// Performs the requests that follow entering the webhook address on the platform.
async fn enter_address(app: &TestApp, fake: &FakePlatform, settings: &Value) {
    let now = app.clock.clock().now();
    match fake {
        FakePlatform::Discord(fake) => {
            let response = hook(app, "discord", &fake.interaction(&json!({"type": 1}), now)).send().await;
            assert_eq!(response.expect_status(200).json(), json!({"type": 1}));
            let made = app.post("/api/channels/discord/register").send().await.expect_status(200);
            assert!(made.text().contains("/ask"), "{}", made.text());
        }
        FakePlatform::Slack(fake) => {
            let challenge = json!({"type": "url_verification", "token": "deprecated", "challenge": "3eZbrw1aB"});
            let response = hook(app, "slack", &fake.request(&challenge, now)).send().await;
            assert_eq!(response.expect_status(200).text(), "3eZbrw1aB");
        }
        FakePlatform::Telegram(_) => {
            let registered = app.post("/api/channels/telegram/register").send().await.expect_status(200);
            assert!(registered.text().contains(PUBLIC_URL), "{}", registered.text());
        }
        FakePlatform::Whatsapp(_) => {
            let token = settings["verify_token"].as_str().expect("a token");
            let query = format!("hub.mode=subscribe&hub.verify_token={token}&hub.challenge=4711");
            let path = format!("/api/channels/whatsapp/webhook?{query}");
            assert_eq!(app.get(&path).anonymous().send().await.expect_status(200).text(), "4711");
        }
        // These platforms send no verification request.
        FakePlatform::GoogleChat(_) | FakePlatform::Teams(_) => {}
    }
}

async fn follow_guide(platform: &str) {
    let app = TestApp::start_with(|source| source.base_url = Some(PUBLIC_URL.to_owned())).await;
    let fixture = ChatFixture::on(app, Script::always(Reply::text(["All is well."], TEST_USAGE))).await;
    let app = &fixture.app;
    let fake = FakePlatform::start(Platform::from_id(platform).unwrap(), app.clock.clock()).await.unwrap();
    let mut settings = fake.settings();
    settings["enabled"] = json!(true);
    settings["agent_id"] = json!("scout");
    app.put("/api/channels/settings").json(&json!({ platform: settings })).send().await.expect_status(200);

    let list = app.get("/api/channels").send().await.expect_status(200).json();
    let channel_status = list["channels"]
        .as_array()
        .unwrap()
        .iter()
        .find(|channel_status| channel_status["platform"] == platform)
        .unwrap()
        .clone();
    assert_eq!(channel_status["webhook_url"], format!("{PUBLIC_URL}/api/channels/{platform}/webhook"));
    enter_address(app, &fake, &settings).await;
    let checked = app.post(&format!("/api/channels/{platform}/check")).send().await.expect_status(200).json();
    assert_eq!(checked["ok"], true, "{checked}");

    let now = app.clock.clock().now();
    let message = |number, text| fake.message(&FakeMessage { chat: 7, number, text }, now);
    hook(app, platform, &message(1, "Let me in.")).send().await.expect_status(200);
    settle(app).await;
    let open = app.get("/api/channels/pairings").send().await.expect_status(200).json();
    let code = open["pairings"][0]["code"].as_str().expect("a code").to_owned();
    let sent = fake.sent();
    assert!(sent.len() == 1 && sent[0].to_string().contains(&code), "{sent:?}");
    app.post(&format!("/api/channels/{platform}/pairings/{code}/approve")).send().await.expect_status(200);
    hook(app, platform, &message(2, "How are things?")).send().await.expect_status(200);
    settle(app).await;
    assert!(fake.sent().last().unwrap().to_string().contains("All is well."), "{:?}", fake.sent());
    assert_eq!(fixture.vendor.requests().len(), 1, "messages before the approval reach no model");
}

macro_rules! follows {
    ($($name:ident)*) => {
        $(
            #[tokio::test]
            async fn $name() {
                follow_guide(stringify!($name)).await;
            }
        )*
    };
}

follows!(discord google_chat slack teams telegram whatsapp);
