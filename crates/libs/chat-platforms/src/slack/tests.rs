use agentd_net::Trust;
use agentd_testing_chat_platforms::slack::{BOT_USER, Behaviour, FakeSlack};
use http::HeaderValue;
use proptest::prelude::*;
use serde_json::json;
use url::Url;

use super::*;
use crate::api::ApiAnswer;
use crate::test_support::{NOW, any_json, client, secret as as_secret};

const TOKEN: &str = "xoxb-17653672481-19874698323-pdFZKVeTuE8sk7oOcBrzbqgy";
const APP_TOKEN: &str = "xapp-1-A1-1-f00";
const SECRET: &str = "8f742231b10e8888abcd99yyyzzz85a5";

fn app(base: Option<Url>, token: Option<&str>, secret: Option<&str>) -> Slack {
    let config = SlackConfig {
        api_base_url: base,
        bot_token: token.map(as_secret),
        signing_secret: secret.map(as_secret),
        app_token: None,
    };
    Slack::new(config, client(Trust::Owner))
}

fn request(content_type: &'static str, body: &str, time: &str, signature: &str) -> WebhookRequest {
    let mut headers = http::HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static(content_type));
    headers.insert("x-slack-request-timestamp", time.parse().unwrap());
    headers.insert("x-slack-signature", signature.parse().unwrap());
    WebhookRequest { method: http::Method::POST, query: String::new(), headers, body: body.to_owned().into() }
}

#[test]
fn errors_show_only_codes_and_scopes() {
    let error = |body: Value| {
        let answer = ApiAnswer { status: http::StatusCode::OK, headers: http::HeaderMap::new(), body };
        api::refusal(&answer).to_string()
    };
    assert_eq!(error(json!({"ok": false, "error": "invalid_arguments"})), "Slack returned invalid_arguments");
    for other in [json!(format!("no {TOKEN}")), json!(TOKEN), json!("a\nb"), json!(""), json!(7)] {
        assert_eq!(error(json!({"ok": false, "error": other})), "Slack returned an unknown error", "{other}");
    }
    assert!(
        error(json!({"error": "missing_scope", "needed": "chat:write"})).contains("the scope chat:write to the app")
    );
}

#[tokio::test]
async fn account_and_socket_are_requested() {
    let fake = FakeSlack::start(TOKEN, APP_TOKEN, SECRET).await.unwrap();
    let app = app(Some(fake.base_url()), Some(TOKEN), Some(SECRET));
    let account = app.check().await.unwrap();
    assert_eq!((account.id.as_str(), account.name.as_str()), (BOT_USER, "fakebot"));
    assert_eq!(app.open_socket(&as_secret(APP_TOKEN)).await.unwrap().scheme(), "ws");
    assert!(matches!(app.open_socket(&as_secret(TOKEN)).await, Err(SendError::Credentials(_))));
    fake.misbehave(Behaviour::ServerError);
    assert!(matches!(app.open_socket(&as_secret(APP_TOKEN)).await, Err(SendError::Later(_))));
}

#[test]
fn markdown_is_rendered_as_mrkdwn() {
    let render = |text: &str| write::render(text).join("\n---\n");
    assert_eq!(render("# A **b**\n\n*c* ~~d~~ `e<f` ``g`h``"), "*A b*\n\n_c_ ~d~ `e&lt;f` g`h");
    assert_eq!(render("> a\n> b"), "> a\n> b");
    assert_eq!(render("````\na ``` b <!channel>\n````"), "```\na `\u{200b}`` b &lt;!channel&gt;\n```");
    assert_eq!(render("[![alt](https://i.j)](https://l.m) [x](javascript:y)"), "<https://l.m/|alt> x (javascript:y)");
}

proptest! {
    #[test]
    fn reading_never_panics(payload in any_json(&[
        "type", "event", "authorizations", "user_id", "is_bot", "user", "channel", "channel_type", "ts", "thread_ts",
        "text", "files", "name", "size", "subtype", "bot_id", "actions", "value", "action_ts", "container", "message",
        "message_ts", "channel_id", "id", "challenge", "parent_user_id",
        "event_callback", "app_mention", "block_actions", "button", "im", "<@U1|x>", "1.5", "<!",
    ])) {
        let app = app(None, None, None);
        let _ = app.read(&payload);
        let _ = app.read(&json!({"type": "event_callback", "event": payload, "authorizations": [{"user_id": "U1"}]}));
        let _ = app.read(&json!({"type": "block_actions", "actions": [payload], "channel": {"id": "C1"},
            "user": {"id": "U1"}, "message": {"ts": "1.2"}}));
    }

    #[test]
    fn any_text_is_read(text in "[<>@#!|&;a-z \\PC]{0,60}") {
        let (plain, _) = text::to_plain_text(&text, &["U1"]);
        prop_assert!(plain.len() <= text.len() * 2 + 8);
    }

    #[test]
    fn unsigned_requests_are_rejected(signature in "(v0=)?[0-9a-f]{0,70}", body in "\\PC{0,40}") {
        let secret = as_secret(SECRET);
        let request = request("application/json", &body, "1795600000", &signature);
        prop_assert!(verify::verify(Some(&secret), &request, NOW).is_err());
    }
}
