//! Text input, keys, select options, checkboxes and files.

use std::time::Duration;

use agentd_browser::DownloadState;
use serde_json::json;

use crate::support::{SOON, act, address, click, context, expect_title, open, run, title, try_act};

const LOG: &str = "<script>const say = (e) => document.title = e.value ?? e.textContent</script>";

#[test]
fn text_is_typed_with_keys() {
    run(async {
        let context = context().await;
        let tab = open(&context, r#"<input id=i value="old " oninput="document.title = i.value"><script>
            i.onkeydown = (e) => (self.keys = (self.keys || 0) + 1)</script><button onclick="document.title = keys">Count</button>"#).await;
        act(&tab, json!({"action": "type_text", "selector": "#i", "text": "Grüße, 1+1=2!"})).await;
        assert_eq!(title(&tab).await, "old Grüße, 1+1=2!");
        click(&tab, "text=Count").await;
        assert_eq!(title(&tab).await, "11", "keys for all characters but those that no key writes");
        act(&tab, json!({"action": "type_text", "selector": "#i", "text": "new", "clear": true})).await;
        assert_eq!(title(&tab).await, "new");
        act(&tab, json!({"action": "press_key", "selector": "#i", "key": "Control+a"})).await;
        act(&tab, json!({"action": "press_key", "key": "Backspace"})).await;
        act(&tab, json!({"action": "press_key", "key": "Shift+x"})).await;
        assert_eq!(title(&tab).await, "X");
        act(&tab, json!({"action": "type_text", "selector": "#i", "text": "", "clear": true})).await;
        assert_eq!(title(&tab).await, "");
        let long = "word ".repeat(2_000);
        act(&tab, json!({"action": "type_text", "selector": "#i", "text": long})).await;
        assert!(title(&tab).await.starts_with("word word"));
    });
}

#[test]
fn typing_works_in_all_kinds_of_fields() {
    run(async {
        let context = context().await;
        let tab = open(&context, &format!(r#"{LOG}<div contenteditable oninput="say(this)">abc</div>
            <textarea oninput="say(this)"></textarea><input type=date oninput="say(this)"><input type=number oninput="say(this)">
            <input id=ro readonly><form onsubmit="document.title = 'sent'; return false"><input id=f></form>"#)).await;
        for (selector, text, expected) in [
            ("div", " def", "abc def"),
            ("textarea", "two\nlines", "two lines"),
            ("[type=date]", "2030-12-31", "2030-12-31"),
            ("[type=number]", "42", "42"),
        ] {
            act(&tab, json!({"action": "type_text", "selector": selector, "text": text})).await;
            assert_eq!(title(&tab).await, expected, "{selector}");
        }
        act(&tab, json!({"action": "type_text", "selector": "#f", "text": "x\n"})).await;
        assert_eq!(title(&tab).await, "sent");
        let error =
            try_act(&tab, json!({"action": "type_text", "selector": "[type=date]", "text": "soon"})).await.unwrap_err();
        assert_eq!(error.code(), "invalid_action", "{error}");
        let error = try_act(&tab, json!({"action": "type_text", "selector": "#ro", "text": "x", "timeout_ms": 2000}))
            .await
            .unwrap_err();
        assert!(error.to_string().contains("the element is not editable"), "{error}");
    });
}

#[test]
fn options_and_checkboxes_are_set() {
    run(async {
        let context = context().await;
        let tab = open(&context, r#"<select id=s onchange="document.title = s.value"><option value=a>Apple<option value=b>Pear</select>
            <label><input type=checkbox id=c onchange="document.title = c.checked"> Agree</label>
            <span role=switch aria-checked=false id=w onclick="this.setAttribute('aria-checked', true); document.title = 'on'">Wifi</span>
            <input type=checkbox id=stuck onclick="return false"><script>setTimeout(() => s.add(new Option('Plum', 'p')), 300)</script>"#).await;
        for (by, wanted, expected) in [
            ("value", json!("b"), "b"),
            ("label", json!("Apple"), "a"),
            ("index", json!(1), "b"),
            ("label", json!("Plum"), "p"),
        ] {
            act(&tab, json!({"action": "select_option", "selector": "#s", by: wanted})).await;
            assert_eq!(title(&tab).await, expected);
        }
        act(&tab, json!({"action": "check", "selector": "text=Agree"})).await;
        assert_eq!(title(&tab).await, "true");
        act(&tab, json!({"action": "check", "selector": "#c"})).await;
        assert_eq!(title(&tab).await, "true", "what is checked stays so");
        act(&tab, json!({"action": "uncheck", "selector": "#c"})).await;
        assert_eq!(title(&tab).await, "false");
        act(&tab, json!({"action": "check", "selector": "#w"})).await;
        assert_eq!(title(&tab).await, "on");
        let error = try_act(&tab, json!({"action": "check", "selector": "#stuck"})).await.unwrap_err();
        assert!(error.to_string().contains("did not change"), "{error}");
        let error =
            try_act(&tab, json!({"action": "select_option", "selector": "#s", "value": "zz", "timeout_ms": 2000}))
                .await
                .unwrap_err();
        assert!(error.to_string().contains("no option has this value"), "{error}");
        let error = try_act(&tab, json!({"action": "select_option", "selector": "#s"})).await.unwrap_err();
        assert_eq!(error.code(), "invalid_action");
    });
}

#[test]
fn files_are_uploaded_and_downloaded() {
    run(async {
        let context = context().await;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("photo.txt");
        std::fs::write(&file, "twelve bytes").unwrap();
        let tab = open(&context, r#"<input type=file onchange="this.files[0].text().then((t) => document.title = this.files[0].name + ': ' + t)"><b>x</b>"#).await;
        act(&tab, json!({"action": "upload_file", "selector": "input", "path": file})).await;
        expect_title(&tab, "photo.txt: twelve bytes").await;
        let missing = folder.path().join("missing");
        let error =
            try_act(&tab, json!({"action": "upload_file", "selector": "input", "path": missing})).await.unwrap_err();
        assert_eq!(error.code(), "file_refused");
        let error = try_act(&tab, json!({"action": "upload_file", "selector": "b", "path": file})).await.unwrap_err();
        assert_eq!(error.code(), "invalid_action", "{error}");

        let url = address("/file").await;
        act(&tab, json!({"action": "goto", "url": url})).await;
        let done = context
            .wait_for_download(SOON, |download| download.state != DownloadState::Running && download.url == url)
            .await
            .unwrap();
        assert_eq!(done.state, DownloadState::Done, "{done:?}");
        assert_eq!(done.name, "_.._report 1.txt", "as Chromium makes a name of it");
        let path = done.path.unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "the report");
        std::fs::remove_file(path).unwrap();

        let url = address("/endless-file").await;
        act(&tab, json!({"action": "goto", "url": url})).await;
        let failed = context
            .wait_for_download(SOON * 2, |download| download.state == DownloadState::Failed && download.url == url)
            .await
            .unwrap();
        assert!(failed.error.unwrap().contains("exceeds"));
    });
}

#[test]
fn key_delay_is_respected() {
    run(async {
        let context = context().await;
        let tab = open(&context, "<input oninput='document.title = this.value'>").await;
        let outcome =
            act(&tab, json!({"action": "type_text", "selector": "input", "text": "abc", "delay_ms": 40})).await;
        assert!(Duration::from_millis(outcome.duration_ms) >= Duration::from_millis(120));
        assert_eq!(outcome.title, "abc");
    });
}
