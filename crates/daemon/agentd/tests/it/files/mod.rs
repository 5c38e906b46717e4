//! `/api/agents/{name}/files`: access to the files of a workspace.

mod bounds;
mod paths;

use std::path::PathBuf;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::skills::{app, call};
use crate::support::eventually::Eventually;
use crate::support::{TestApp, TestRequest};

const FILES: &str = "/api/agents/scout/files";
const BYTES: &str = "application/octet-stream";

fn workspace(app: &TestApp) -> PathBuf {
    app.data_dir().join("agents/scout")
}

fn encoded(path: &str) -> String {
    percent_encoding::utf8_percent_encode(path, percent_encoding::NON_ALPHANUMERIC).to_string()
}

fn file_url(part: &str, path: &str) -> String {
    format!("{FILES}{part}?path={}", encoded(path))
}

fn read(app: &TestApp, path: &str) -> TestRequest {
    app.get(&file_url("/content", path))
}

fn write(app: &TestApp, path: &str, content: impl Into<reqwest::Body>) -> TestRequest {
    app.put(&file_url("/content", path)).body(BYTES, content)
}

async fn list(app: &TestApp, path: &str) -> Value {
    app.get(&file_url("", path)).send().await.expect_status(200).json()
}

fn names(list: &Value) -> Vec<&str> {
    list["files"].as_array().expect("files").iter().map(|file| file["name"].as_str().expect("a name")).collect()
}

#[tokio::test]
async fn file_is_written_read_moved_and_removed() {
    let app = app().await;
    let empty = app.get(FILES).send().await.expect_status(200).json();
    assert_eq!((&empty["path"], &empty["files"], &empty["total"]), (&json!(""), &json!([]), &json!(0)));
    assert_eq!(empty["usage"], json!({"files": 0, "bytes": 0, "max_files": 100_000, "max_bytes": 4_096u64 << 20}));

    let made = write(&app, "reports/2026/june.md", "# June").send().await.expect_status(200).json();
    assert_eq!((&made["name"], &made["path"]), (&json!("june.md"), &json!("reports/2026/june.md")));
    assert_eq!((&made["kind"], &made["size_bytes"]), (&json!("file"), &json!(6)));
    let found = app.get(&file_url("/entry", "reports/2026/june.md")).send().await.expect_status(200).json();
    assert_eq!(found, made);
    let answer = read(&app, "reports/2026/june.md").send().await.expect_status(200);
    assert_eq!((answer.text().as_str(), answer.header("etag")), ("# June", made["etag"].as_str()));
    assert_eq!(answer.header("content-length"), Some("6"));
    // The agent reads files written over HTTP, and vice versa.
    let seen = call(&app, "read_file", json!({"path": "reports/2026/june.md"})).await.unwrap();
    assert!(seen.to_string().contains("# June"), "{seen}");
    call(&app, "write_file", json!({"path": "a.txt", "content": "by the agent"})).await.unwrap();
    assert_eq!(read(&app, "a.txt").send().await.expect_status(200).text(), "by the agent");

    app.put(&file_url("/directory", "b/c")).send().await.expect_status(200);
    let again = app.put(&file_url("/directory", "b/c")).send().await.expect_status(200).json();
    assert_eq!(
        (&again["kind"], &again["size_bytes"], &again["etag"]),
        (&json!("directory"), &json!(null), &json!(null))
    );
    let top = list(&app, "").await;
    assert_eq!(names(&top), ["b", "reports", "a.txt"], "directories first");
    assert!(top["usage"]["bytes"].as_u64().unwrap() > 0 && top["usage"]["files"] == 6, "{top}");

    let to = |path: &str| json!({"path": path});
    let moved = app.patch(&file_url("", "a.txt")).json(&to("b/z.txt")).send().await.expect_status(200).json();
    assert_eq!((&moved["path"], &moved["size_bytes"]), (&json!("b/z.txt"), &json!(12)));
    let moved = app.patch(&file_url("", "b")).json(&to("reports/b")).send().await.expect_status(200).json();
    assert_eq!((&moved["path"], &moved["kind"]), (&json!("reports/b"), &json!("directory")));
    assert_eq!(read(&app, "reports/b/z.txt").send().await.expect_status(200).text(), "by the agent");
    // A move does not overwrite an existing file.
    let refused = app.patch(&file_url("", "reports/b/z.txt")).json(&to("reports/2026/june.md")).send().await;
    refused.expect_error(409, "file_exists");
    app.patch(&file_url("", "reports")).json(&to("./reports/")).send().await.expect_error(409, "file_exists");
    let refused = app.patch(&file_url("", "reports")).json(&to("reports/b/inside")).send().await;
    assert_eq!(refused.expect_error(400, "invalid_request").bad_fields(), ["path"]);
    app.patch(&file_url("", "reports/b")).json(&to("nowhere/b")).send().await.expect_error(404, "file_not_found");
    app.patch(&file_url("", "none")).json(&to("some")).send().await.expect_error(404, "file_not_found");

    app.delete(&file_url("", "reports/b")).send().await.expect_error(409, "directory_not_empty");
    app.delete(&file_url("", "reports/b/z.txt")).send().await.expect_status(200);
    app.delete(&file_url("", "reports/b/c")).send().await.expect_status(200);
    app.delete(&(file_url("", "reports") + "&recursive=true")).send().await.expect_status(200);
    app.delete(&file_url("", "reports")).send().await.expect_error(404, "file_not_found");
    assert_eq!(list(&app, "").await["usage"]["files"], 0);
    app.get("/api/agents/nobody/files").send().await.expect_error(404, "agent_not_found");
}

#[tokio::test]
async fn missing_workspace_is_listed_as_empty() {
    let app = app().await;
    std::fs::remove_dir(workspace(&app)).unwrap();
    assert_eq!(app.get(FILES).send().await.expect_status(200).json()["files"], json!([]));
}

#[tokio::test]
async fn large_directory_is_listed_in_pages() {
    let app = app().await;
    for number in 0..25 {
        std::fs::write(workspace(&app).join(format!("f{number:02}")), "x").unwrap();
    }
    std::fs::create_dir(workspace(&app).join("z")).unwrap();
    std::fs::write(workspace(&app).join("with\u{1b}[31m"), "x").unwrap();
    let part = app.get(&format!("{FILES}?limit=3&offset=1")).send().await.expect_status(200).json();
    assert_eq!((names(&part), &part["total"], &part["left_out"]), (vec!["f00", "f01", "f02"], &json!(26), &json!(1)));
    let end = app.get(&format!("{FILES}?limit=3&offset=25")).send().await.expect_status(200).json();
    assert_eq!(names(&end), ["f24"]);
    for bad in ["limit=0", "limit=1001", "offset=-1"] {
        app.get(&format!("{FILES}?{bad}")).send().await.expect_error(400, "invalid_request");
    }
}

#[tokio::test]
async fn conditional_write_does_not_overwrite_unseen_changes() {
    let app = app().await;
    let first = write(&app, "plan", "one").header("if-none-match", "*").send().await.expect_status(200).json();
    let refused = write(&app, "plan", "other").header("if-none-match", "*").send().await;
    refused.expect_error(412, "file_exists");
    let etag = first["etag"].as_str().unwrap();
    let second = write(&app, "plan", "two").header("if-match", etag).send().await.expect_status(200).json();
    // The agent edits the file in between.
    call(&app, "edit_file", json!({"path": "plan", "old_text": "two", "new_text": "2"})).await.unwrap();
    for known in [etag, second["etag"].as_str().unwrap(), "\"none\"", ""] {
        let refused = write(&app, "plan", "three").header("if-match", known).send().await;
        let refused = refused.expect_error(412, "file_changed").json();
        assert!(refused["error"].as_str().unwrap().contains("read it again"), "{refused}");
    }
    assert_eq!(read(&app, "plan").send().await.text(), "2");
    let read_now = read(&app, "plan").send().await;
    let either = format!("\"none\", {}", read_now.header("etag").unwrap());
    write(&app, "plan", "three").header("if-match", &either).send().await.expect_status(200);
    write(&app, "plan", "four").header("if-match", "*").send().await.expect_status(200);
    app.delete(&file_url("", "plan")).send().await.expect_status(200);
    for known in ["*", &either] {
        write(&app, "plan", "five").header("if-match", known).send().await.expect_error(412, "file_changed");
    }
    app.get(&file_url("/entry", "plan")).send().await.expect_error(404, "file_not_found");
}

#[tokio::test]
async fn executable_mode_is_retained_when_overwriting() {
    use std::os::unix::fs::PermissionsExt;
    let app = app().await;
    write(&app, "run.sh", "#!/bin/sh").send().await.expect_status(200);
    let path = workspace(&app).join("run.sh");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    write(&app, "run.sh", "#!/bin/sh\nls").send().await.expect_status(200);
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o755);
}

#[tokio::test]
async fn ranges_of_a_file_can_be_read() {
    let app = app().await;
    let etag = write(&app, "digits", "0123456789").send().await.expect_status(200).json()["etag"].clone();
    let etag = etag.as_str().unwrap();
    let part = read(&app, "digits").header("range", "bytes=3-5").send().await.expect_status(206);
    assert_eq!((part.text().as_str(), part.header("content-range")), ("345", Some("bytes 3-5/10")));
    assert_eq!((part.header("content-length"), part.header("accept-ranges")), (Some("3"), Some("bytes")));
    assert_eq!(read(&app, "digits").header("range", "bytes=-2").send().await.expect_status(206).text(), "89");
    let refused = read(&app, "digits").header("range", "bytes=10-").send().await;
    refused.expect_error(416, "range_not_satisfiable");
    assert_eq!(read(&app, "digits").header("range", "bytes=0-1,4-5").send().await.expect_status(200).text().len(), 10);
    let with = |known: &str| read(&app, "digits").header("range", "bytes=0-0").header("if-range", known);
    assert_eq!(with(etag).send().await.expect_status(206).text(), "0");
    assert_eq!(with("\"other\"").send().await.expect_status(200).text().len(), 10);
    let same = read(&app, "digits").header("if-none-match", etag).send().await.expect_status(304);
    assert_eq!((same.text().as_str(), same.header("etag")), ("", Some(etag)));
    read(&app, "digits").header("if-none-match", "\"other\"").send().await.expect_status(200);
}

/// Files of an agent must not run scripts in the daemon's origin when opened in a browser.
#[tokio::test]
async fn files_are_not_rendered_in_the_origin_of_the_daemon() {
    let app = app().await;
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR<script>alert(1)</script>".to_vec();
    for (name, content, media_type) in [
        ("page.html", b"<script>alert(1)</script>".to_vec(), BYTES),
        ("image.svg", b"<svg xmlns='http://www.w3.org/2000/svg'><script/></svg>".to_vec(), BYTES),
        ("script.js", b"alert(1)".to_vec(), BYTES),
        ("page.png", b"<script>alert(1)</script>".to_vec(), BYTES),
        ("page2.html", png, "image/png"),
        ("photo.jpg", b"\xff\xd8\xff\xe0".to_vec(), "image/jpeg"),
        ("moving.gif", b"GIF89a".to_vec(), "image/gif"),
        ("empty", Vec::new(), BYTES),
    ] {
        write(&app, name, content.clone()).send().await.expect_status(200);
        let answer = read(&app, name).send().await.expect_status(200);
        assert_eq!((answer.header("content-type"), &answer.body), (Some(media_type), &content), "{name}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("content-security-policy"), Some("default-src 'none'; sandbox"));
        let disposition = answer.header("content-disposition").unwrap();
        assert!(disposition.starts_with("attachment; filename=\""), "{disposition}");
    }
    let odd = "\" ; filename=evil.html <b>\u{202e}gpj.exe";
    write(&app, odd, "x").send().await.expect_status(200);
    let disposition = read(&app, odd).send().await.header("content-disposition").unwrap().to_owned();
    assert_eq!(disposition.matches('"').count(), 2, "{disposition}");
    assert!(disposition.ends_with("%3Cb%3E%E2%80%AEgpj.exe"), "{disposition}");
    assert!(names(&list(&app, "").await).contains(&odd));
}

#[tokio::test]
async fn read_key_can_read_but_not_change_files() {
    let app = app().await;
    write(&app, "a", "x").send().await.expect_status(200);
    let key = app.post("/api/auth/keys").json(&json!({"name": "reader", "scope": "read"})).send().await;
    let key = key.expect_status(200).json()["key"].as_str().unwrap().to_owned();
    app.get(FILES).bearer(&key).send().await.expect_status(200);
    read(&app, "a").bearer(&key).send().await.expect_status(200);
    for request in [
        write(&app, "a", "y"),
        app.delete(&file_url("", "a")),
        app.put(&file_url("/directory", "b")),
        app.patch(&file_url("", "a")).json(&json!({"path": "b"})),
    ] {
        request.bearer(&key).send().await.expect_status(403);
    }
    assert_eq!(read(&app, "a").send().await.text(), "x");
}

/// Sends a raw request, as a misbehaving client would.
async fn send_raw(app: &TestApp, head: &str, body: &[u8]) -> tokio::net::TcpStream {
    let mut stream = tokio::net::TcpStream::connect(app.address).await.unwrap();
    let key = app.key.as_deref().unwrap();
    let head = format!(
        "PUT {} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {key}\r\n{head}\r\n\r\n",
        file_url("/content", "big"),
        app.address
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body).await.unwrap();
    stream
}

/// Waits until the workspace has this many entries.
async fn wait_for_entry_count(app: &TestApp, count: usize) {
    let mut eventually = Eventually::new();
    while std::fs::read_dir(workspace(app)).unwrap().count() != count {
        eventually.retry().await;
    }
}

#[tokio::test]
async fn interrupted_upload_leaves_no_file() {
    let mut app = app().await;
    write(&app, "big", "as it was").send().await.expect_status(200);
    let stream = send_raw(&app, "content-length: 2000000", &vec![b'x'; 600_000]).await;
    wait_for_entry_count(&app, 2).await;
    drop(stream);
    wait_for_entry_count(&app, 1).await;
    assert_eq!(read(&app, "big").send().await.text(), "as it was");
    // Partial files of a killed daemon are removed at the next start, and by the next upload of the same file.
    std::fs::create_dir(workspace(&app).join("d")).unwrap();
    std::fs::write(workspace(&app).join("d/.agentd-1.tmp"), "half").unwrap();
    app.restart().await;
    app.run_workers().await;
    assert_eq!(std::fs::read_dir(workspace(&app).join("d")).unwrap().count(), 0);
    std::fs::remove_dir(workspace(&app).join("d")).unwrap();
    let left = format!(".agentd-{}.tmp", hex::encode(&agentd_base::sha256(b"big")[..12]));
    std::fs::write(workspace(&app).join(&left), "half").unwrap();
    assert_eq!(names(&list(&app, "").await), [left.as_str(), "big"], "the partial file is listed");
    write(&app, "big", "new").send().await.expect_status(200);
    assert_eq!(names(&list(&app, "").await), ["big"]);
}

#[tokio::test]
async fn oversized_file_is_rejected_before_it_is_sent() {
    let app = app().await;
    let mut stream = send_raw(&app, "content-length: 1073741825\r\nexpect: 100-continue", b"").await;
    let mut answer = vec![0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&answer), "HTTP/1.1 413");
    assert_eq!(std::fs::read_dir(workspace(&app)).unwrap().count(), 0);
}
