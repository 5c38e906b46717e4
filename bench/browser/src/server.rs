//! Server for the suite's pages and their requests: slow, broken and endless responses, forms, files.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{any, get, post};
use futures_util::stream;
use tokio::net::TcpListener;

use super::suite::{Surrounding, Task};
use crate::Outcome;

const HARNESS: &str = include_str!("../harness.js");
/// Content of a page that is a navigation target.
const TARGET_PAGE: &str = "<button onclick=\"report('arrived')\">Here</button>";
const LATE_MS: u32 = 300;
const COVERED_MS: u32 = 400;

type Tasks = Arc<Vec<Task>>;
type Parameters = Query<HashMap<String, String>>;

/// Address of the pages: this machine under two names, which are two sites.
#[derive(Debug, Clone)]
pub struct Site {
    port: u16,
}

impl Site {
    /// Serves until the runtime ends.
    ///
    /// # Errors
    /// No port is available.
    pub async fn start(tasks: Vec<Task>) -> Outcome<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let tasks = Arc::new(tasks);
        let app =
            Router::new()
                .route("/task/{index}", get(move |path, tasks| around(path, tasks, port)))
                .route("/page/{index}", get(page))
                .route(
                    "/page-in-frame/{index}",
                    get(move |Path(index): Path<usize>| async move { foreign(index, port) }),
                )
                .route("/harness.js", get(|| async { ([(header::CONTENT_TYPE, "text/javascript")], HARNESS) }))
                .route("/items", get(items))
                .route("/echo", get(|RawQuery(query)| async move { echo("get", &query.unwrap_or_default()) }))
                .route("/echo", post(|body: String| async move { echo("post", &body) }))
                .route("/size", post(|body: Bytes| async move { body.len().to_string() }))
                .route("/file", any(file))
                .route("/remember", get(remember))
                .route("/here", get(|| async { document(TARGET_PAGE) }))
                .route("/buttons", get(|query: Parameters| async move { buttons(number(&query, "count")) }))
                .route("/slow", get(slow))
                .route("/hanging", get(|| async { document(&format!("<img src=/hang>{TARGET_PAGE}")) }))
                .route("/hang", get(std::future::pending::<Html<String>>))
                .route("/status", get(status))
                .route("/cut", get(cut))
                .route("/endless", get(endless))
                .route("/again", get(|| async { (StatusCode::FOUND, [(header::LOCATION, "/again")]) }))
                .route(
                    "/redirect",
                    get(|query: Parameters| async move { (StatusCode::FOUND, [(header::LOCATION, to(&query))]) }),
                )
                .route(
                    "/refresh",
                    get(|query: Parameters| async move {
                        document(&format!("<meta http-equiv=refresh content='0;url={}'>", to(&query)))
                    }),
                )
                .route(
                    "/script",
                    get(|query: Parameters| async move {
                        document(&format!("<script>location = '{}'</script>", to(&query)))
                    }),
                )
                .with_state(tasks);
        tokio::spawn(async move { axum::serve(listener, app).await });
        Ok(Self { port })
    }

    #[must_use]
    pub fn base(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

const DATABASE: &str = "<script>(async () => {
    const asked = (request) => new Promise((done) => request.onsuccess = () => done(request.result));
    const opening = indexedDB.open('notes', 3);
    opening.onupgradeneeded = () => opening.result.createObjectStore('words').createIndex('by', 'by');
    const store = (await asked(opening)).transaction('words', 'readwrite').objectStore('words');
    const found = await asked(store.index('by').get('me'));
    document.title += found ? ` ${found.map.get('k')[2]} ${found.big} ${found.when.getTime()}` : ' nothing';
    const map = new Map([['k', new Uint8Array([1, 2, 250])]]);
    await asked(store.put({ by: 'me', map, big: 12n, when: new Date(7) }, new Date(9)));
    document.documentElement.id = 'done';
})()</script>";

/// Sets an HttpOnly cookie, a storage item, and a database record; the title shows which of them existed.
async fn remember(headers: HeaderMap) -> Response {
    let sent = headers.get(header::COOKIE).and_then(|cookie| cookie.to_str().ok()).unwrap_or("no cookie");
    let page = format!(
        "<!doctype html><title>{sent}</title><script>document.title += ' ' + localStorage.item; localStorage.item = 'ä \\u2603'</script>{DATABASE}"
    );
    ([(header::SET_COOKIE, "kept=yes; HttpOnly; Max-Age=3600; SameSite=Lax")], Html(page)).into_response()
}

fn to(query: &Parameters) -> String {
    query.get("to").cloned().unwrap_or_default()
}

fn document(body: &str) -> Html<String> {
    Html(format!(
        "<!doctype html><meta charset=utf-8><link rel=icon href=data:,><title></title><script src=/harness.js></script><body>{body}"
    ))
}

fn foreign(index: usize, port: u16) -> Html<String> {
    document(&frame(&format!("http://localhost:{port}/page/{index}")))
}

fn frame(url: &str) -> String {
    format!("<h1>Around</h1><iframe src=\"{url}\" width=1000 height=600></iframe>")
}

async fn page(Path(index): Path<usize>, State(tasks): State<Tasks>) -> Response {
    match tasks.get(index) {
        Some(task) => document(&task.page).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn around(Path(index): Path<usize>, State(tasks): State<Tasks>, port: u16) -> Response {
    let Some(task) = tasks.get(index) else { return StatusCode::NOT_FOUND.into_response() };
    let page = &task.page;
    let from_template = |script: &str| {
        format!("<template>{page}</template><script>const part = document.querySelector('template');{script}</script>")
    };
    let put = "document.body.append(part.content.cloneNode(true))";
    let body = match task.surrounding {
        Surrounding::Plain => page.clone(),
        Surrounding::Frame => frame(&format!("/page/{index}")),
        Surrounding::Foreign => frame(&format!("http://localhost:{port}/page/{index}")),
        Surrounding::Nested => frame(&format!("/page-in-frame/{index}")),
        Surrounding::Shadow => from_template(
            "const host = document.createElement('div'); document.body.append(host); root = host.attachShadow({mode: 'open'}); root.append(part.content.cloneNode(true))",
        ),
        Surrounding::Late => from_template(&format!("setTimeout(() => {put}, {LATE_MS})")),
        Surrounding::Moving => format!(
            "<style>@keyframes in{{from{{transform:translate(300px,200px)}}}}</style><div style='animation:in .4s ease-out'>{page}</div>"
        ),
        Surrounding::Covered => format!(
            "{page}<div id=cover style='position:fixed;inset:0;background:#fffa'></div><script>setTimeout(() => document.querySelector('#cover').remove(), {COVERED_MS})</script>"
        ),
    };
    document(&body).into_response()
}

fn number(query: &Parameters, name: &str) -> u64 {
    query.get(name).and_then(|value| value.parse().ok()).unwrap_or_default()
}

async fn wait(query: &Parameters) {
    tokio::time::sleep(Duration::from_millis(number(query, "delay").min(5_000))).await;
}

async fn items(query: Parameters) -> axum::Json<Vec<String>> {
    wait(&query).await;
    let from = number(&query, "from");
    axum::Json((from..from + number(&query, "count").min(1_000)).map(|at| format!("item {at}")).collect())
}

/// Shows the submitted data.
fn echo(method: &str, sent: &str) -> Html<String> {
    let report = serde_json::Value::from(format!("{method} {sent}")).to_string().replace('<', "\\u003c");
    document(&format!("<p>Received</p><script>report({report})</script>"))
}

async fn file(query: Parameters) -> Response {
    let name = query.get("name").map_or("file", String::as_str);
    let size = usize::try_from(number(&query, "size")).unwrap_or_default().min(10 << 20);
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\"")),
    ];
    (headers, vec![b'x'; size]).into_response()
}

fn buttons(count: u64) -> Html<String> {
    let all: String =
        (0..count.min(10_000)).map(|at| format!("<div><button>Button {at}</button><p>text {at}</p></div>")).collect();
    document(&all)
}

async fn slow(query: Parameters) -> Html<String> {
    wait(&query).await;
    document(TARGET_PAGE)
}

async fn status(query: Parameters) -> Response {
    let code = u16::try_from(number(&query, "code")).ok().and_then(|code| StatusCode::from_u16(code).ok());
    let code = code.unwrap_or(StatusCode::BAD_REQUEST);
    let button = format!("<button onclick=\"report('status {}')\">Try again</button>", code.as_u16());
    (code, document(&button)).into_response()
}

/// Returns a truncated response.
async fn cut() -> Response {
    let pieces = [Ok(Bytes::from_static(b"var half = ")), Err(io::Error::other("cut off"))];
    let headers = [(header::CONTENT_TYPE, "text/javascript"), (header::CONTENT_LENGTH, "1000")];
    (headers, Body::from_stream(stream::iter(pieces))).into_response()
}

/// Returns a file without end.
async fn endless() -> Response {
    let piece = Bytes::from(vec![b'x'; 64 << 10]);
    let headers = [(header::CONTENT_DISPOSITION, "attachment; filename=endless.bin")];
    (headers, Body::from_stream(stream::repeat_with(move || Ok::<_, io::Error>(piece.clone())))).into_response()
}
