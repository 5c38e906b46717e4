use agentd_net::Trust;
use http::HeaderMap;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::test_support::{any_event, client, secret};

fn adapter(config: WhatsappConfig) -> Whatsapp {
    Whatsapp::new(config, client(Trust::Owner))
}

#[test]
fn error_codes_are_distinguished_for_any_status() {
    let token = secret("EAAB");
    let error = |code: i64| {
        let body = json!({"error": {"code": code, "message": "no EAAB"}});
        let answer = crate::api::ApiAnswer { status: http::StatusCode::BAD_REQUEST, headers: HeaderMap::new(), body };
        send::error_of(&answer, &token)
    };
    for code in [130_429, 131_056, 80_007] {
        assert!(matches!(error(code), SendError::RateLimited { wait: None, .. }), "{code}");
    }
    for code in [190, 10, 33] {
        assert!(matches!(error(code), SendError::Credentials(_)), "{code}");
    }
    for code in [131_000, 131_016] {
        assert!(matches!(error(code), SendError::Later(_)), "{code}");
    }
    for code in [100, 131_030, 131_009] {
        assert!(matches!(error(code), SendError::Refused(_)), "{code}");
    }
    assert_eq!(error(100).to_string(), "WhatsApp rejected the message with code 100");
}

fn events() -> Vec<Value> {
    let message_of = |kind: &str, content: Value| {
        json!({"object": "whatsapp_business_account", "entry": [{"changes": [{"field": "messages", "value": {
            "metadata": {"phone_number_id": "106540352242922"},
            "contacts": [{"wa_id": "4917", "profile": {"name": "A"}}],
            "messages": [{"from": "4917", "id": "1", "timestamp": "9", "type": kind, kind: content}],
        }}]}]})
    };
    vec![
        message_of("text", json!({"body": "hi"})),
        message_of("document", json!({"caption": "c", "filename": "f", "mime_type": "m"})),
        message_of("location", json!({"latitude": 1.0, "longitude": 2.0, "name": "n"})),
        message_of("contacts", json!([{"name": {"formatted_name": "Bo"}, "phones": [{"phone": "+49 1"}]}])),
        message_of("interactive", json!({"button_reply": {"id": "x", "title": "Yes"}})),
    ]
}

proptest! {
    #[test]
    fn read_never_panics(event in any_event(events(), &[
        "object", "whatsapp_business_account", "entry", "changes", "field", "messages", "value", "metadata",
        "phone_number_id", "106540352242922", "contacts", "wa_id", "profile", "name", "from", "4917", "id", "wamid.1",
        "timestamp", "type", "text", "body", "interactive", "button_reply", "button", "payload", "context",
        "document", "filename", "mime_type", "caption", "location", "latitude", "longitude", "group_id", "phones",
        "statuses",
    ])) {
        let number = Some("106540352242922".to_owned());
        let _ = adapter(WhatsappConfig { phone_number_id: number, ..WhatsappConfig::default() }).read(&event);
    }
}
