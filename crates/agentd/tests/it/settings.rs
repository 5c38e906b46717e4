//! `/api/settings`: live sections, partial changes, reset, export and import, the avatar, and the
//! key file behind stored secrets.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use agentd_store::{StoreError, Tx, args};
use serde_json::{Value, json};

use crate::support::{TestApp, TestResponse};

const CATEGORIES: [&str; 7] = ["profile", "interface", "security", "agent", "strategy", "proactive", "email"];

/// The smallest GIF there is.
const GIF: &[u8] = b"GIF89a\x01\0\x01\0\0\xff\0,\0\0\0\0\x01\0\x01\0\0\x02\0;";

fn path(category: &str) -> String {
    format!("/api/settings/{category}")
}

async fn put(app: &TestApp, category: &str, change: Value) -> TestResponse {
    app.put(&path(category)).json(&change).send().await
}

async fn get(app: &TestApp, category: &str) -> Value {
    app.get(&path(category)).send().await.expect_status(200).json()
}

fn multipart(field: &str, bytes: &[u8]) -> Vec<u8> {
    let mut body = format!(
        "--bound\r\nContent-Disposition: form-data; name=\"note\"\r\n\r\nhello\r\n--bound\r\n\
         Content-Disposition: form-data; name=\"{field}\"; filename=\"x.exe\"\r\nContent-Type: text/html\r\n\r\n"
    )
    .into_bytes();
    body.extend_from_slice(bytes);
    body.extend_from_slice(b"\r\n--bound--\r\n");
    body
}

async fn upload(app: &TestApp, field: &str, bytes: &[u8]) -> TestResponse {
    let request = app.post("/api/settings/avatar");
    request.body("multipart/form-data; boundary=bound", multipart(field, bytes)).send().await
}

#[tokio::test]
async fn every_category_has_its_defaults_and_stands_in_the_whole() {
    let app = TestApp::with_owner().await;
    let all = app.get("/api/settings").send().await.expect_status(200).json();
    for category in CATEGORIES {
        assert_eq!(all[category], get(&app, category).await, "{category}");
    }
    let security = &all["security"];
    assert_eq!(security["session_ttl_seconds"], 86_400);
    assert_eq!(security["private_hook_targets"], true);
    assert_eq!(all["agent"]["daily_token_limit"], Value::Null);
    assert_eq!(all["profile"]["timezone"], "UTC");
    for path in ["/api/settings/strategy", "/api/settings/proactive", "/api/settings/email"] {
        app.get(path).send().await.expect_status(200);
    }
    let strategy =
        json!({"planning": "auto", "reflection": false, "max_parallel_tools": 8, "compaction_threshold": 0.8});
    assert_eq!(all["strategy"], strategy);
    let proactive = json!({
        "enabled": false, "quiet_hours": {"start": "22:00", "end": "08:00", "timezone": null},
        "max_per_day": 3, "delivery": null,
    });
    assert_eq!(all["proactive"], proactive);
    let email = json!({
        "enabled": false, "smtp_host": null, "smtp_port": 587, "tls": "starttls", "username": null,
        "password": null, "from_address": null,
    });
    assert_eq!(all["email"], email);
}

#[tokio::test]
async fn an_object_inside_a_category_is_changed_field_by_field() {
    let app = TestApp::with_owner().await;
    let change = json!({"quiet_hours": {"start": "21:30", "timezone": "europe/berlin"}, "delivery": "slack:#general"});
    let changed = put(&app, "proactive", change).await.expect_status(200).json();
    assert_eq!(changed["quiet_hours"], json!({"start": "21:30", "end": "08:00", "timezone": "Europe/Berlin"}));
    let changed = put(&app, "proactive", json!({"quiet_hours": {"timezone": null}})).await.expect_status(200).json();
    assert_eq!(changed["quiet_hours"], json!({"start": "21:30", "end": "08:00", "timezone": null}));
    let refused = put(&app, "proactive", json!({"quiet_hours": {"start": "9:00", "begin": "x", "end": "25:00"}})).await;
    let mut fields = refused.expect_error(400, "invalid_request").bad_fields();
    fields.sort();
    assert_eq!(fields, ["quiet_hours.begin", "quiet_hours.end", "quiet_hours.start"]);
}

#[tokio::test]
async fn the_password_of_the_mail_server_is_write_only() {
    let mut app = TestApp::with_owner().await;
    let email = json!({
        "enabled": true, "smtp_host": "Mail.Example.ORG", "from_address": "a@example.org", "username": "a",
        "password": "mail-password-1",
    });
    let set = put(&app, "email", email).await.expect_status(200);
    assert!(!set.text().contains("mail-password-1"), "{}", set.text());
    assert_eq!(
        (&set.json()["password"], &set.json()["smtp_host"]),
        (&json!({"set": true}), &json!("mail.example.org"))
    );
    let kept = put(&app, "email", json!({"password": {"set": true}, "smtp_port": 465})).await.expect_status(200).json();
    assert_eq!((&kept["password"], &kept["smtp_port"]), (&json!({"set": true}), &json!(465)));
    app.post("/api/settings/reset").send().await.expect_status(200);
    app.restart().await;
    assert_eq!(get(&app, "email").await, kept, "the general reset leaves email");
    let export = app.get("/api/settings/export").send().await.expect_status(200);
    assert!(!export.text().contains("password"), "{}", export.text());
    let other = TestApp::with_owner().await;
    let imported = other.post("/api/settings/import").json(&export.json()).send().await.expect_status(200).json();
    assert_eq!((&imported["email"]["username"], &imported["email"]["password"]), (&json!("a"), &Value::Null));
    let cleared = put(&app, "email", json!({"password": null})).await.expect_status(200).json();
    assert_eq!(cleared["password"], Value::Null);
    // Enabling needs to know where to and from whom.
    put(&app, "email", json!({"enabled": false, "smtp_host": null})).await.expect_status(200);
    let refused = put(&app, "email", json!({"enabled": true, "from_address": null})).await;
    let mut fields = refused.expect_error(400, "invalid_request").bad_fields();
    fields.sort();
    assert_eq!(fields, ["from_address", "smtp_host"]);
}

#[tokio::test]
async fn a_change_answers_the_whole_category_and_survives_a_restart() {
    let mut app = TestApp::with_owner().await;
    let changed = put(&app, "profile", json!({"display_name": "Ada", "timezone": "europe/berlin"})).await;
    let expected = json!({
        "display_name": "Ada", "email": "", "avatar_url": null, "timezone": "Europe/Berlin", "theme": "system",
    });
    assert_eq!(changed.expect_status(200).json(), expected);
    put(&app, "profile", json!({})).await.expect_status(200);
    app.restart().await;
    assert_eq!(get(&app, "profile").await, expected);
}

#[tokio::test]
async fn null_clears_what_may_be_empty_and_nothing_else() {
    let app = TestApp::with_owner().await;
    let limits = json!({"daily_token_limit": 10, "total_token_limit": 20, "default_model": "m", "temperature": 0.5});
    put(&app, "agent", limits).await.expect_status(200);
    let cleared = put(&app, "agent", json!({"daily_token_limit": null, "default_model": null})).await.json();
    assert_eq!((&cleared["daily_token_limit"], &cleared["default_model"]), (&Value::Null, &Value::Null));
    assert_eq!((&cleared["total_token_limit"], &cleared["temperature"]), (&json!(20), &json!(0.5)));
    put(&app, "agent", json!({"max_tool_rounds": null})).await.expect_error(400, "invalid_request");
}

#[tokio::test]
async fn nonsense_is_refused_by_name_and_changes_nothing() {
    let app = TestApp::with_owner().await;
    let long = "x".repeat(25_000);
    let table = [
        (
            "profile",
            "display_name",
            vec![json!(1), json!(null), json!("x".repeat(101)), json!("a\nb"), json!("a\u{0}b")],
        ),
        ("profile", "email", vec![json!("nobody"), json!("a@b"), json!("a@b.c\r\nBcc: x@y.z"), json!(true)]),
        ("profile", "timezone", vec![json!(""), json!("Mars/Base"), json!("../../etc/passwd"), json!(null), json!(2)]),
        ("profile", "theme", vec![json!("blue"), json!(null), json!(["dark"])]),
        ("profile", "avatar_url", vec![json!("javascript:alert(1)"), json!("/etc/passwd"), json!(""), json!(7)]),
        ("interface", "language", vec![json!("klingon"), json!("xx"), json!("de_DE"), json!(null)]),
        ("interface", "date_format", vec![json!("YYYY"), json!(null)]),
        ("interface", "show_token_usage", vec![json!("yes"), json!(1), json!(null)]),
        ("interface", "default_agent", vec![json!("../x"), json!("Has Space"), json!("ÄGENT"), json!("")]),
        ("security", "session_ttl_seconds", vec![json!(0), json!(-1), json!(1.5), json!("60"), json!(u64::MAX)]),
        ("security", "login_max_failures", vec![json!(0), json!(100_000)]),
        ("security", "login_window_seconds", vec![json!(1), json!(null)]),
        ("security", "approval_tools", vec![json!("shell"), json!(["a b"]), json!([""]), json!(["*x"])]),
        ("security", "allowed_hosts", vec![json!(["http://x"]), json!(["a b"]), json!(["10.0.0.0/99"]), json!({})]),
        ("security", "blocked_hosts", vec![json!(["*"]), json!([null])]),
        ("security", "private_hook_targets", vec![json!(null), json!("true")]),
        ("security", "approval_ttl_seconds", vec![json!(0), json!(1e12)]),
        ("agent", "default_provider", vec![json!("skynet"), json!(""), json!(1)]),
        ("agent", "default_model", vec![json!(""), json!("has space"), json!("x".repeat(201))]),
        ("agent", "temperature", vec![json!(-0.1), json!(2.1), json!("hot")]),
        ("agent", "max_output_tokens", vec![json!(0), json!(-1), json!(1.5)]),
        ("agent", "max_tool_rounds", vec![json!(0), json!(9999)]),
        ("agent", "request_timeout_seconds", vec![json!(0), json!(100_000)]),
        ("agent", "instructions", vec![json!(null), json!(long)]),
        ("agent", "daily_token_limit", vec![json!(-1), json!(1.5), json!("10")]),
        ("agent", "total_token_limit", vec![json!(-1), json!(u64::MAX)]),
        ("strategy", "planning", vec![json!("sometimes"), json!(null), json!(1)]),
        ("strategy", "reflection", vec![json!("yes"), json!(null)]),
        ("strategy", "max_parallel_tools", vec![json!(0), json!(33), json!(1.5), json!(null)]),
        ("strategy", "compaction_threshold", vec![json!(0.2), json!(0.96), json!("half"), json!(null)]),
        ("proactive", "enabled", vec![json!(null), json!(1)]),
        ("proactive", "quiet_hours", vec![json!(null), json!("22:00-08:00"), json!([])]),
        ("proactive", "max_per_day", vec![json!(-1), json!(101), json!(null)]),
        ("proactive", "delivery", vec![json!("slack"), json!("slak:#x"), json!("email:nobody"), json!("slack: x")]),
        ("email", "enabled", vec![json!("on"), json!(null)]),
        (
            "email",
            "smtp_host",
            vec![json!(""), json!("a b"), json!("mail.example.org:25"), json!("smtp://x"), json!(1)],
        ),
        ("email", "smtp_port", vec![json!(0), json!(65536), json!("25"), json!(null)]),
        ("email", "tls", vec![json!("ssl"), json!(null), json!(true)]),
        ("email", "username", vec![json!(""), json!("a\nb"), json!(7)]),
        ("email", "password", vec![json!(""), json!(7), json!({"set": "yes"}), json!("x".repeat(9000))]),
        ("email", "from_address", vec![json!("nobody"), json!("a@b.c\r\nBcc: x@y.z"), json!("")]),
        (
            "agent",
            "local_model",
            vec![json!("../x.gguf"), json!("/etc/x.gguf"), json!("x.bin"), json!(".gguf"), json!("")],
        ),
    ];
    let before = app.get("/api/settings").send().await.json();
    for (category, field, values) in table {
        for value in values {
            let shown = value.to_string().chars().take(40).collect::<String>();
            let refused = put(&app, category, json!({field: value})).await.expect_error(400, "invalid_request");
            let named = refused
                .bad_fields()
                .iter()
                .any(|bad| bad == field || ["[", "."].iter().any(|next| bad.starts_with(&format!("{field}{next}"))));
            assert!(named, "{category}.{field} = {shown}: {}", refused.text());
        }
    }
    assert_eq!(app.get("/api/settings").send().await.json(), before);
}

#[tokio::test]
async fn every_bad_field_is_named_at_once_and_unknown_ones_name_the_known() {
    let app = TestApp::with_owner().await;
    let change = json!({"theme": "blue", "timezone": "Mars", "display_nmae": "x", "email": "a@b.co"});
    let refused = put(&app, "profile", change).await.expect_error(400, "invalid_request");
    let mut fields = refused.bad_fields();
    fields.sort();
    assert_eq!(fields, ["display_nmae", "theme", "timezone"]);
    assert!(refused.text().contains("display_name"), "{}", refused.text());
    assert_eq!(get(&app, "profile").await["email"], "");
    for body in ["[]", "null", "\"x\"", "1"] {
        app.put("/api/settings/agent").raw_json(body).send().await.expect_status(400);
    }
}

#[tokio::test]
async fn changes_of_different_fields_at_once_all_win() {
    let app = TestApp::with_owner().await;
    std::fs::create_dir_all(app.data_dir().join("models")).expect("a folder");
    std::fs::write(app.data_dir().join("models/m.gguf"), b"").expect("a file");
    let changes = [
        json!({"temperature": 1.0}),
        json!({"max_tool_rounds": 7}),
        json!({"instructions": "Be brief."}),
        json!({"daily_token_limit": 5}),
        json!({"request_timeout_seconds": 9}),
        json!({"default_model": "m"}),
        json!({"local_model": "m.gguf"}),
        json!({"max_output_tokens": 3}),
    ];
    let requests = changes.iter().map(|change| put(&app, "agent", change.clone()));
    for answer in futures_util::future::join_all(requests).await {
        answer.expect_status(200);
    }
    let agent = get(&app, "agent").await;
    for change in changes {
        for (field, value) in change.as_object().unwrap() {
            assert_eq!(&agent[field], value, "{field}");
        }
    }
}

#[tokio::test]
async fn resets_touch_their_own_group() {
    let app = TestApp::with_owner().await;
    let before = app.get("/api/settings").send().await.json();
    put(&app, "profile", json!({"display_name": "Ada"})).await.expect_status(200);
    put(&app, "interface", json!({"language": "de"})).await.expect_status(200);
    put(&app, "security", json!({"login_max_failures": 9})).await.expect_status(200);
    put(&app, "agent", json!({"instructions": "x"})).await.expect_status(200);
    put(&app, "strategy", json!({"planning": "always", "compaction_threshold": 0.5})).await.expect_status(200);
    put(&app, "proactive", json!({"enabled": true, "quiet_hours": {"end": "09:00"}})).await.expect_status(200);
    put(&app, "email", json!({"username": "kept"})).await.expect_status(200);

    let after = app.post("/api/settings/reset").send().await.expect_status(200).json();
    assert_eq!((&after["agent"], &after["interface"]), (&before["agent"], &before["interface"]));
    assert_eq!((&after["strategy"], &after["proactive"]), (&before["strategy"], &before["proactive"]));
    assert_eq!(after["email"]["username"], "kept");
    assert_eq!(
        (&after["profile"]["display_name"], &after["security"]["login_max_failures"]),
        (&json!("Ada"), &json!(9))
    );
    let security = app.post("/api/settings/security/reset").send().await.expect_status(200).json();
    assert_eq!(security, before["security"]);
    assert_eq!(get(&app, "profile").await["display_name"], "Ada");
}

#[tokio::test]
async fn an_export_can_be_imported_elsewhere() {
    let app = TestApp::with_owner().await;
    put(&app, "profile", json!({"display_name": "Ada", "timezone": "Asia/Tokyo"})).await.expect_status(200);
    put(&app, "security", json!({"blocked_hosts": ["EVIL.example."]})).await.expect_status(200);
    put(&app, "agent", json!({"temperature": 1.5, "default_provider": "xai"})).await.expect_status(200);
    put(&app, "strategy", json!({"reflection": true, "max_parallel_tools": 2})).await.expect_status(200);
    let proactive = json!({"delivery": "email:ada@example.org", "quiet_hours": {"timezone": "Asia/Tokyo"}});
    put(&app, "proactive", proactive).await.expect_status(200);
    upload(&app, "file", GIF).await.expect_status(200);
    let export = app.get("/api/settings/export").send().await.expect_status(200);
    assert_eq!(export.header("content-disposition"), Some("attachment; filename=\"agentd-settings.json\""));
    let file = export.json();
    assert!(file["settings"]["profile"].get("avatar_url").is_none(), "a picture is no setting");

    let other = TestApp::with_owner().await;
    let imported = other.post("/api/settings/import").json(&file).send().await.expect_status(200).json();
    for category in ["agent", "strategy", "proactive", "email"] {
        assert_eq!(imported[category], get(&app, category).await, "{category}");
    }
    assert_eq!(imported["security"]["blocked_hosts"], json!(["evil.example"]));
    assert_eq!(imported["profile"]["timezone"], "Asia/Tokyo");
    // Here the picture stays what it is.
    let avatar = get(&app, "profile").await["avatar_url"].clone();
    app.post("/api/settings/import").json(&file).send().await.expect_status(200);
    assert_eq!(get(&app, "profile").await["avatar_url"], avatar);
}

#[tokio::test]
async fn an_import_is_all_or_nothing() {
    let app = TestApp::with_owner().await;
    let before = app.get("/api/settings").send().await.json();
    let import =
        async |settings: Value| app.post("/api/settings/import").json(&json!({"settings": settings})).send().await;
    let refused = import(json!({"profile": {"display_name": "Ada"}, "agent": {"temperature": 9, "nope": 1}})).await;
    let mut fields = refused.expect_error(400, "invalid_request").bad_fields();
    fields.sort();
    assert_eq!(fields, ["settings.agent.nope", "settings.agent.temperature"]);
    let refused = import(json!({"profile": {"theme": "x"}, "weather": {}, "agent": 1})).await;
    let mut fields = refused.expect_error(400, "invalid_request").bad_fields();
    fields.sort();
    assert_eq!(fields, ["settings.agent", "settings.profile.theme", "settings.weather"]);
    app.post("/api/settings/import").json(&json!({"profile": {}})).send().await.expect_status(400);
    app.post("/api/settings/import").json(&json!({"settings": {}, "format": 2})).send().await.expect_status(400);
    app.post("/api/settings/import").json(&json!({})).send().await.expect_status(400);
    assert_eq!(app.get("/api/settings").send().await.json(), before);

    // Larger than other bodies may be, and refused only for what is in it.
    let large = json!({"settings": {"agent": {"instructions": "x".repeat(3 * 1024 * 1024)}}});
    let refused = app.post("/api/settings/import").json(&large).send().await.expect_status(400);
    assert_eq!(refused.bad_fields(), ["settings.agent.instructions"]);
}

#[tokio::test]
async fn an_avatar_is_shown_to_whoever_knows_its_name() {
    let app = TestApp::with_owner().await;
    let url = upload(&app, "file", GIF).await.expect_status(200).json()["avatar_url"].as_str().unwrap().to_owned();
    assert_eq!(get(&app, "profile").await["avatar_url"], url);
    assert!(url.starts_with("/api/settings/avatar/") && url.ends_with(".gif"), "{url}");
    let shown = app.get(&url).anonymous().send().await.expect_status(200);
    assert_eq!(shown.body, GIF);
    assert_eq!(shown.header("content-type"), Some("image/gif"));
    assert!(shown.header("cache-control").unwrap().contains("immutable"));

    let second = upload(&app, "file", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01").await.expect_status(200).json();
    let second = second["avatar_url"].as_str().unwrap().to_owned();
    app.get(&url).anonymous().send().await.expect_error(404, "not_found");
    app.get(&second).anonymous().send().await.expect_status(200);
    put(&app, "profile", json!({"avatar_url": url})).await.expect_error(400, "invalid_request");
    put(&app, "profile", json!({"avatar_url": second})).await.expect_status(200);
    put(&app, "profile", json!({"avatar_url": null})).await.expect_status(200);
    app.get(&second).anonymous().send().await.expect_status(404);
    assert_eq!(std::fs::read_dir(app.data_dir().join("avatars")).unwrap().count(), 0);
    put(&app, "profile", json!({"avatar_url": "https://pictures.example/a.png"})).await.expect_status(200);
}

#[tokio::test]
async fn what_is_no_picture_is_refused_and_not_kept() {
    let app = TestApp::with_owner().await;
    let svg = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>";
    let hollow = [&b"\xff\xd8\xff\xe0"[..], &[0; 200]].concat();
    for bytes in [b"".as_slice(), b"GIF", svg, b"<html></html>", &hollow] {
        assert_eq!(upload(&app, "file", bytes).await.expect_error(400, "invalid_request").bad_fields(), ["file"]);
    }
    assert_eq!(upload(&app, "picture", GIF).await.expect_status(400).bad_fields(), ["file"]);
    app.post("/api/settings/avatar").json(&json!({})).send().await.expect_error(415, "unsupported_media_type");
    let two = [multipart("file", GIF), multipart("file", GIF)].concat();
    let two = String::from_utf8_lossy(&two).replace("--bound--\r\n--bound", "--bound");
    let twice = app.post("/api/settings/avatar").body("multipart/form-data; boundary=bound", two).send().await;
    assert!(twice.expect_error(400, "invalid_request").text().contains("must be given once"));
    let broken = app.post("/api/settings/avatar").body("multipart/form-data; boundary=bound", "--bound\r\nContent-");
    broken.send().await.expect_error(400, "malformed_multipart");
    let mut large = GIF.to_vec();
    large.resize(10 * 1024 * 1024 + 1, 0);
    upload(&app, "file", &large).await.expect_error(413, "body_too_large");
    large.truncate(10 * 1024 * 1024);
    upload(&app, "file", &large).await.expect_status(200);
    assert_eq!(std::fs::read_dir(app.data_dir().join("avatars")).unwrap().count(), 1);
    for name in ["x.gif", "..%2f..%2fsecret.key", "%00.gif", &format!("{}.gif", "0".repeat(64)), "secret.key"] {
        let answer = app.get(&format!("/api/settings/avatar/{name}")).anonymous().send().await;
        assert!(matches!(answer.status.as_u16(), 400 | 404), "{name}: {}", answer.status);
    }
}

#[tokio::test]
async fn an_upload_sent_twice_is_done_once() {
    let app = TestApp::with_owner().await;
    let send = async || {
        let request = app.post("/api/settings/avatar").header("idempotency-key", "one");
        request.body("multipart/form-data; boundary=bound", multipart("file", GIF)).send().await.expect_status(200)
    };
    let first = send().await;
    let second = send().await;
    assert_eq!(first.json(), second.json());
    assert_eq!(second.header("idempotency-replayed"), Some("true"));
}

#[tokio::test]
async fn the_key_file_is_private_and_another_one_is_refused() {
    let mut app = TestApp::with_owner().await;
    let file = app.data_dir().join("secret.key");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let key = json!({"api_key": "sk-kept-under-the-key-file"});
    app.put("/api/providers/openai/key").json(&key).send().await.expect_status(200);
    let right = std::fs::read_to_string(&file).unwrap();
    app.stop().await;

    std::fs::write(&file, "ab".repeat(32)).unwrap();
    let refused = app.try_start().await.unwrap_err();
    assert!(refused.contains("is not the one") && refused.contains("SVC_SECRET_KEY_FILE"), "{refused}");
    std::fs::remove_file(&file).unwrap();
    let refused = app.try_start().await.unwrap_err();
    assert!(refused.contains("is missing"), "{refused}");
    assert!(!file.exists(), "no new key takes the place of the old one");
    std::fs::write(&file, &right).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let refused = app.try_start().await.unwrap_err();
    assert!(refused.contains("chmod 600") && !refused.contains(right.trim()), "{refused}");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    app.try_start().await.unwrap();
    let providers = app.get("/api/providers").send().await.expect_status(200);
    assert!(providers.text().contains(r#"{"set":true}"#), "{}", providers.text());
}

/// Changes a row behind the daemon's back, as a disk or another program would.
async fn store_raw(app: &TestApp, category: &'static str, value: &'static str) {
    let db = &app.running().ground().db;
    let work = async move |tx: &mut Tx| {
        tx.execute("DELETE FROM settings WHERE section = $1", args![category]).await?;
        let sql = "INSERT INTO settings (section, value, updated_at) VALUES ($1, $2, 0)";
        tx.execute(sql, args![category, value]).await
    };
    let written: Result<u64, StoreError> = db.write(work).await;
    written.expect("written");
}

fn avatar_files(app: &TestApp) -> usize {
    std::fs::read_dir(app.data_dir().join("avatars")).map_or(0, Iterator::count)
}

/// A change that is committed is answered as done, and what belongs to it is done too, although the
/// settings as a whole cannot be read just then; they come into force when they can.
#[tokio::test]
async fn what_is_committed_is_done_whether_or_not_it_can_be_read() {
    let app = TestApp::with_owner().await;
    let first = upload(&app, "file", GIF).await.expect_status(200).json()["avatar_url"].clone();
    store_raw(&app, "interface", r#"{"language": 7}"#).await;
    let second = upload(&app, "file", GIF).await.expect_status(200).json()["avatar_url"].clone();
    app.get(second.as_str().expect("an address")).send().await.expect_status(200);
    app.get(first.as_str().expect("an address")).send().await.expect_status(404);
    assert_eq!(avatar_files(&app), 1);
    let changed = put(&app, "profile", json!({"display_name": "Ada"})).await.expect_status(200).json();
    assert_eq!((&changed["display_name"], &changed["avatar_url"]), (&json!("Ada"), &second));
    let changed = put(&app, "security", json!({"session_ttl_seconds": 120})).await.expect_status(200).json();
    assert_eq!(changed["session_ttl_seconds"], 120);
    // These answer every category, so that one which cannot be read refuses them whole.
    let import = json!({"settings": {"profile": {"display_name": "Eve"}}});
    app.post("/api/settings/import").json(&import).send().await.expect_status(500);

    store_raw(&app, "interface", "{}").await;
    // Asks for no settings anew, so that it shows what is in force by itself.
    let account = json!({"username": "owner", "password": "correct horse"});
    let in_force = async {
        loop {
            let session = app.post("/api/auth/login").json(&account).send().await.expect_status(200).json();
            if session["expires_in"] == 120 {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), in_force).await.expect("the change comes into force");
    assert_eq!(get(&app, "profile").await["display_name"], "Ada");
}

#[tokio::test]
async fn a_picture_that_is_refused_leaves_no_file() {
    let app = TestApp::with_owner().await;
    store_raw(&app, "profile", r#"{"theme": 7}"#).await;
    upload(&app, "file", GIF).await.expect_status(500);
    assert_eq!(avatar_files(&app), 0);
}

/// A backup without its secrets says nothing of them, so neither may the daemon that it was restored to.
#[tokio::test]
async fn a_secret_that_is_gone_is_not_shown_as_set() {
    let mut app = TestApp::with_owner().await;
    put(&app, "email", json!({"password": "hidden-one", "username": "a"})).await.expect_status(200);
    let headers = json!({"name": "docs", "transport": "http", "url": "https://mcp.example/", "enabled": false,
        "headers": {"authorization": "Bearer hidden-two"}});
    let servers = "/api/settings/skills/mcp";
    let made = app.post(servers).json(&headers).send().await.expect_status(201).json();
    assert_eq!(made["headers"], json!({"authorization": {"set": true}}));
    let hook = json!({"name": "h", "event_type": "memory.stored", "hook_type": "http",
        "config": {"url": "http://127.0.0.1:9/", "secret": "0123456789abcdef0123456789abcdef"}});
    let hook = app.post("/api/hooks").json(&hook).send().await.expect_status(201).json();
    assert_eq!(hook["config"]["secret"], json!({"set": true}));
    let forget = async |tx: &mut Tx| tx.execute("DELETE FROM secrets", args![]).await;
    let forgotten: Result<u64, StoreError> = app.running().ground().db.write(forget).await;
    assert_eq!(forgotten.expect("written"), 3);
    app.restart().await;

    assert_eq!(get(&app, "email").await["password"], Value::Null);
    assert_eq!(app.get("/api/settings").send().await.json()["email"]["password"], Value::Null);
    let changed = put(&app, "email", json!({"username": "b"})).await.expect_status(200).json();
    assert_eq!(changed["password"], Value::Null);
    let server = format!("{servers}/{}", made["id"].as_str().expect("an id"));
    assert_eq!(app.get(&server).send().await.json()["headers"], json!({"authorization": {"set": false}}));
    let hook = format!("/api/hooks/{}", hook["id"].as_str().expect("an id"));
    assert_eq!(app.get(&hook).send().await.json()["config"]["secret"], json!({"set": false}));
    let refused = put(&app, "email", json!({"password": {"set": false}})).await;
    assert_eq!(refused.expect_error(400, "invalid_request").bad_fields(), ["password"]);
}

#[tokio::test]
async fn skills_travel_with_the_settings() {
    let app = TestApp::with_owner().await;
    app.post("/api/settings/skills/builtin/http_fetch/toggle").send().await.expect_status(200);
    let tool = json!({"name": "weather", "description": "Tells the weather.", "kind": "http",
        "request": {"method": "GET", "url": "https://weather.example/", "secret_headers": {"x-key": "hidden-one"}}});
    app.post("/api/settings/skills/custom").json(&tool).send().await.expect_status(201);
    let server = json!({"name": "docs", "transport": "http", "url": "https://mcp.example/", "enabled": false,
        "headers": {"authorization": "Bearer hidden-two"}});
    app.post("/api/settings/skills/mcp").json(&server).send().await.expect_status(201);
    let export = app.get("/api/settings/export").send().await.expect_status(200);
    assert!(!export.text().contains("hidden"), "{}", export.text());
    let skills = export.json()["settings"]["skills"].clone();
    assert_eq!(skills["builtin_off"], json!(["http_fetch"]));
    assert_eq!(app.get("/api/settings").send().await.json()["skills"], skills);

    let other = TestApp::with_owner().await;
    for _ in 0..2 {
        let imported = other.post("/api/settings/import").json(&export.json()).send().await.expect_status(200).json();
        assert_eq!(imported["skills"], skills);
    }
    let tools = other.get("/api/settings/skills/custom").send().await.json();
    assert_eq!(
        (&tools["total"], &tools["tools"][0]["request"]["secret_headers"]),
        (&json!(1), &json!({"x-key": {"set": false}}))
    );
    let servers = other.get("/api/settings/skills/mcp").send().await.json();
    assert_eq!(
        (&servers["total"], &servers["servers"][0]["headers"]["authorization"]),
        (&json!(1), &json!({"set": false}))
    );
    // Here the values are there, and stay.
    app.post("/api/settings/import").json(&export.json()).send().await.expect_status(200);
    let servers = app.get("/api/settings/skills/mcp").send().await.json();
    assert_eq!(servers["servers"][0]["headers"]["authorization"], json!({"set": true}));
    let tools = app.get("/api/settings/skills/custom").send().await.json();
    assert_eq!(tools["tools"][0]["request"]["secret_headers"], json!({"x-key": {"set": true}}));

    let bad = json!({"settings": {"skills": {"mcp": [{"name": "x"}], "nope": 1}, "agent": {"temperature": 9}}});
    let refused = app.post("/api/settings/import").json(&bad).send().await.expect_error(400, "invalid_request");
    let fields = refused.bad_fields();
    for field in ["settings.agent.temperature", "settings.skills.nope", "settings.skills.mcp[0].transport"] {
        assert!(fields.contains(&field.to_owned()), "{field} in {fields:?}");
    }
}

#[tokio::test]
async fn what_a_setting_names_must_be_there() {
    let app = TestApp::with_owner().await;
    let refused = put(&app, "agent", json!({"local_model": "missing.gguf"})).await;
    assert_eq!(refused.expect_error(400, "invalid_request").bad_fields(), ["local_model"]);
    let refused = put(&app, "interface", json!({"default_agent": "nosuchagent"})).await;
    assert_eq!(refused.expect_error(400, "invalid_request").bad_fields(), ["default_agent"]);
    for path in ["/", "/proc", "/sys/kernel"] {
        let refused = app.put("/api/sandbox/config").json(&json!({"writable_paths": [path]})).send().await;
        assert_eq!(refused.expect_error(400, "invalid_request").bad_fields(), ["writable_paths[0]"], "{path}");
    }
}
