//! `POST /api/settings/email/test`: sends a mail with the current settings or returns the error.

use std::time::Duration;

use serde_json::{Value, json};

use super::use_server;
use crate::support::smtp::{Behaviour, PASSWORD, Protection, SmtpServer, USERNAME};
use crate::support::{MailLimits, TestApp, TestResponse};

async fn test(app: &TestApp) -> TestResponse {
    app.post("/api/settings/email/test").json(&json!({"to": "ada@example.net"})).send().await
}

/// Checks that the response contains no form of the password.
fn assert_password_hidden(answer: &TestResponse) {
    use base64::Engine as _;
    let coded = base64::engine::general_purpose::STANDARD.encode(PASSWORD);
    let text = answer.text();
    assert!(!text.contains(PASSWORD) && !text.contains(&coded), "{text}");
}

async fn app_trusting(server: &SmtpServer) -> TestApp {
    let mut app = TestApp::with_owner().await;
    app.restart_with_mail(MailLimits { roots: vec![server.certificate.clone()], time_limit: None }).await;
    app
}

#[tokio::test]
async fn mail_is_sent_with_every_encryption_and_mechanism() {
    let cases = [
        (Protection::None, "none", "PLAIN LOGIN"),
        (Protection::None, "none", "LOGIN"),
        (Protection::Starttls, "starttls", "PLAIN"),
        (Protection::Implicit, "implicit", "LOGIN XOAUTH2"),
    ];
    for (protection, tls, mechanisms) in cases {
        let server = SmtpServer::start(protection, mechanisms).await;
        let app = app_trusting(&server).await;
        use_server(&app, &server, json!({"smtp_host": "localhost", "tls": tls})).await;
        assert_eq!(test(&app).await.expect_status(200).json(), json!({"sent": true}), "{tls}");
        let received = server.received();
        assert_eq!(received.len(), 1);
        let mail = &received[0];
        assert_eq!(mail.is_protected, tls != "none");
        assert_eq!(mail.login, Some((USERNAME.to_owned(), PASSWORD.to_owned())), "{mechanisms}");
        assert_eq!((mail.from.as_str(), mail.to.as_str()), ("agentd@example.org", "ada@example.net"));
        assert_eq!(mail.header("To"), "ada@example.net");
        assert_eq!(mail.header("Date"), "Mon, 05 Jan 2026 09:00:00 +0000");
        assert!(
            mail.header("Message-ID").starts_with("<test_") && mail.header("Message-ID").ends_with("@example.org>")
        );
    }
}

#[tokio::test]
async fn mail_without_a_username_needs_no_login() {
    let server = SmtpServer::start(Protection::None, "").await;
    let app = TestApp::with_owner().await;
    use_server(&app, &server, json!({"username": null, "password": null})).await;
    test(&app).await.expect_status(200);
    assert_eq!(server.received()[0].login, None);
}

#[tokio::test]
async fn untrusted_server_certificate_is_rejected_before_login() {
    for (protection, tls) in [(Protection::Starttls, "starttls"), (Protection::Implicit, "implicit")] {
        let server = SmtpServer::start(protection, "PLAIN").await;
        let stranger = TestApp::with_owner().await;
        use_server(&stranger, &server, json!({"smtp_host": "localhost", "tls": tls})).await;
        let refused = test(&stranger).await.expect_error(502, "email_tls_failed");
        assert!(refused.text().contains("is not trusted by this machine"), "{}", refused.text());
        // Trusted certificate, but for another host name.
        let app = app_trusting(&server).await;
        use_server(&app, &server, json!({"tls": tls})).await;
        let refused = test(&app).await.expect_error(502, "email_tls_failed");
        assert!(refused.text().contains("another name"), "{}", refused.text());
        assert_eq!(server.received(), []);
    }
}

#[tokio::test]
async fn encryption_is_never_downgraded() {
    let plain = SmtpServer::plain().await;
    let app = TestApp::with_owner().await;
    use_server(&app, &plain, json!({"smtp_host": "localhost", "tls": "starttls"})).await;
    let refused = test(&app).await.expect_error(502, "email_tls_failed");
    assert!(refused.text().contains("offers no STARTTLS"), "{}", refused.text());
    use_server(&app, &plain, json!({"smtp_host": "localhost", "tls": "implicit"})).await;
    test(&app).await.expect_error(502, "email_tls_failed");
    assert_eq!(plain.received(), []);
    let injecting = SmtpServer::start(Protection::StarttlsInjecting, "PLAIN").await;
    let app = app_trusting(&injecting).await;
    use_server(&app, &injecting, json!({"smtp_host": "localhost", "tls": "starttls"})).await;
    test(&app).await.expect_error(502, "email_tls_failed");
    assert_eq!(injecting.received(), []);
}

#[tokio::test]
async fn missing_email_settings_are_reported() {
    let server = SmtpServer::plain().await;
    let app = TestApp::with_owner().await;
    test(&app).await.expect_error(503, "email_off");
    use_server(&app, &server, json!({"enabled": false})).await;
    let off = test(&app).await.expect_error(503, "email_off");
    assert!(off.text().contains("PUT /api/settings/email"), "{}", off.text());
    use_server(&app, &server, json!({"password": null})).await;
    test(&app).await.expect_error(503, "email_password_missing");
    for to in ["nobody", "a@", "a@b.co\r\nBcc: c@d.ef", "<a@b.co>"] {
        let refused = app.post("/api/settings/email/test").json(&json!({"to": to})).send().await;
        assert_eq!(refused.expect_error(400, "invalid_request").bad_fields(), ["to"]);
    }
    assert_eq!(server.sessions(), 0);
}

#[tokio::test]
async fn only_allowed_addresses_are_connected_to() {
    let server = SmtpServer::plain().await;
    let app = TestApp::with_owner().await;
    use_server(&app, &server, json!({"smtp_host": "169.254.169.254"})).await;
    let refused = test(&app).await.expect_error(503, "address_refused");
    assert!(refused.text().contains("metadata"), "{}", refused.text());
    use_server(&app, &server, json!({"smtp_host": "localhost"})).await;
    app.put("/api/settings/security").json(&json!({"blocked_hosts": ["127.0.0.0/8", "::1"]})).send().await;
    test(&app).await.expect_error(503, "host_blocked");
    app.put("/api/settings/security").json(&json!({"blocked_hosts": []})).send().await;
    test(&app).await.expect_status(200);
    assert_eq!(server.sessions(), 1);
    let port = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    use_server(&app, &server, json!({"smtp_port": port})).await;
    test(&app).await.expect_error(502, "connection_refused");
}

#[tokio::test]
async fn wrong_password_is_reported_without_the_password() {
    let server = SmtpServer::plain().await;
    let app = TestApp::with_owner().await;
    use_server(&app, &server, json!({"password": "another"})).await;
    let refused = test(&app).await.expect_error(502, "email_authentication_failed");
    assert!(refused.text().contains("rejected the user name or password (535)"), "{}", refused.text());
    use_server(&app, &server, json!({})).await;
    server.then([Behaviour::EchoLogin]);
    let echoed = test(&app).await.expect_error(502, "email_authentication_failed");
    assert_password_hidden(&echoed);
    let unable = SmtpServer::start(Protection::None, "CRAM-MD5").await;
    use_server(&app, &unable, json!({})).await;
    test(&app).await.expect_error(502, "email_authentication_failed");
    assert_eq!(server.received(), []);
}

#[tokio::test]
async fn rejection_includes_the_server_reply() {
    let server = SmtpServer::plain().await;
    let app = TestApp::with_owner().await;
    use_server(&app, &server, json!({})).await;
    server.then([Behaviour::Recipient("550 5.1.1 no such user here")]);
    let refused = test(&app).await.expect_error(502, "email_recipient_refused");
    assert!(refused.text().contains("ada@example.net: 550 5.1.1 no such user here"), "{}", refused.text());
    server.then([Behaviour::Data("552 5.3.4 too big\u{7}")]);
    let refused = test(&app).await.expect_error(502, "email_message_refused");
    assert!(refused.text().contains("552 5.3.4 too big"), "{}", refused.text());
    // A reply that repeats the login is not quoted.
    for reply in [
        "550 mail-password-4711 is a fine password",
        "550 mail%2Dpassword%2d4711",
        "550 =6Dail-pass=77ord-4711",
        "550-no mail-pass\r\n550 word-4711 here",
        "550 mail-\u{200b}password-4711",
    ] {
        server.then([Behaviour::Recipient(reply)]);
        let refused = test(&app).await.expect_error(502, "email_recipient_refused");
        assert_password_hidden(&refused);
        assert!(refused.text().contains("repeats the login") && !refused.text().contains("4711"), "{}", refused.text());
    }
    server.then([Behaviour::Recipient("550 5.1.1 no\u{202e}such user")]);
    let refused = test(&app).await.expect_error(502, "email_recipient_refused");
    assert!(refused.json().to_string().contains("202e"), "{}", refused.text());
    assert_eq!(server.received(), []);
}

#[tokio::test]
async fn misbehaving_server_is_abandoned() {
    let server = SmtpServer::plain().await;
    let mut app = TestApp::with_owner().await;
    use_server(&app, &server, json!({})).await;
    server.then([Behaviour::Flood, Behaviour::NoSmtp, Behaviour::DropInData(0), Behaviour::DropInData(200)]);
    for _ in 0..2 {
        test(&app).await.expect_error(502, "email_protocol");
    }
    for _ in 0..2 {
        let dropped = test(&app).await.expect_status(502);
        let code = dropped.json()["code"].clone();
        assert!(["email_connection_lost", "email_protocol"].map(Value::from).contains(&code), "{}", dropped.text());
    }
    app.restart_with_mail(MailLimits { roots: Vec::new(), time_limit: Some(Duration::from_secs(2)) }).await;
    server.then([Behaviour::Hang, Behaviour::Drip, Behaviour::HangAfterData]);
    let phases = ["during the greeting", "during the greeting", "while sending the message"];
    for phase in phases {
        let late = test(&app).await.expect_error(502, "email_timeout");
        // On a slow machine an earlier step may have used the time.
        assert!(late.text().contains(phase) || phase != phases[0], "{}", late.text());
    }
}

#[tokio::test]
async fn reply_of_36_000_lines_is_refused_with_a_readable_error() {
    let server = SmtpServer::plain().await;
    let app = TestApp::with_owner().await;
    use_server(&app, &server, json!({})).await;
    for command in ["EHLO", "AUTH", "MAIL", "RCPT", "DATA"] {
        server.then([Behaviour::LongReply(command)]);
        // A reply parsed to its end would cause success, another error code, or a timeout.
        let refused = test(&app).await.expect_error(502, "email_protocol");
        assert!(refused.text().contains("the reply is too long"), "{command}: {}", refused.text());
    }
    test(&app).await.expect_status(200);
    assert_eq!(server.received().len(), 1);
}

#[tokio::test]
async fn repeated_test_request_sends_one_mail() {
    let server = SmtpServer::plain().await;
    let app = TestApp::with_owner().await;
    use_server(&app, &server, json!({})).await;
    server.then([Behaviour::Recipient("451 4.7.1 later")]);
    let send = async || {
        let request = app.post("/api/settings/email/test").header("idempotency-key", "once");
        request.json(&json!({"to": "ada@example.net"})).send().await
    };
    // A failed request may be repeated.
    send().await.expect_status(502);
    send().await.expect_status(200);
    let repeated = send().await.expect_status(200);
    assert_eq!(repeated.header("idempotency-replayed"), Some("true"));
    assert_eq!(server.received().len(), 1);
}
