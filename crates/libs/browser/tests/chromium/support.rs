//! Test support: one browser and one server for all tests, and a context for each.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use agentd_browser::{Action, ActionOutcome, Browser, BrowserError, BrowserLimits, BrowserOptions, Context, Tab};
use agentd_process::Spawner;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::{OnceCell, Semaphore};

pub(crate) const SOON: Duration = Duration::from_secs(60);

/// Runtime that outlives every test, for the tasks of the browser.
static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap());
static BROWSER: OnceCell<Browser> = OnceCell::const_new();
static SERVER: OnceCell<Server> = OnceCell::const_new();
/// Limits concurrent tests, since each page keeps a processor busy.
static PERMITS: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(std::thread::available_parallelism().map_or(1, usize::from)));

#[derive(Debug, Clone, Default)]
struct Server {
    port: u16,
    pages: Arc<Mutex<HashMap<String, String>>>,
}

/// Runs a test, or skips it without Chromium, which `make test` installs.
pub(crate) fn run(test: impl Future<Output = ()>) {
    if !Path::new("/usr/bin/chromium").exists() {
        assert!(std::env::var_os("AGENTD_REQUIRE_CHROMIUM").is_none(), "there is no Chromium; run `make chromium`");
        eprintln!("SKIPPED: there is no Chromium; `make chromium` installs it");
        return;
    }
    RUNTIME.block_on(async {
        let _permit = PERMITS.acquire().await.unwrap();
        tokio::time::timeout(Duration::from_secs(120), test).await.expect("the test took too long")
    });
}

pub(crate) fn downloads() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("downloads")
}

pub(crate) fn options() -> BrowserOptions {
    // A finished test may still be closing its tabs.
    let limits = BrowserLimits { tabs: 100, download_bytes: 4 << 20, ..BrowserLimits::default() };
    BrowserOptions { download_directory: Some(downloads()), limits, ..BrowserOptions::default() }
}

pub(crate) fn new_browser(options: BrowserOptions) -> Browser {
    Browser::new(options, Spawner::start().unwrap())
}

pub(crate) async fn context() -> Context {
    let browser = BROWSER.get_or_init(async || new_browser(options())).await;
    browser.context().await.unwrap()
}

/// Publishes a page on the server. `OTHER` in it is replaced by the origin of another site, `SELF` by its own.
pub(crate) async fn page(html: &str) -> String {
    let server = SERVER.get_or_init(serve).await;
    let (own, other) = (format!("http://127.0.0.1:{}", server.port), format!("http://localhost:{}", server.port));
    let html = html.replace("OTHER", &other).replace("SELF", &own);
    let mut pages = server.pages.lock();
    let path = format!("/{}", pages.len());
    pages.insert(path.clone(), format!("<!doctype html><meta charset=utf-8>{html}"));
    format!("{own}{path}")
}

/// Publishes a page and returns its path, for links and frames.
pub(crate) async fn path(html: &str) -> String {
    let url = page(html).await;
    url.rsplit_once('/').map(|(_, path)| format!("/{path}")).unwrap()
}

/// Publishes a script and returns its path.
pub(crate) async fn script(source: &str) -> String {
    let server = SERVER.get_or_init(serve).await;
    let mut pages = server.pages.lock();
    let path = format!("/{}.js", pages.len());
    pages.insert(path.clone(), source.to_owned());
    path
}

/// Returns a URL of the server outside the published pages.
pub(crate) async fn address(path: &str) -> String {
    let server = SERVER.get_or_init(serve).await;
    format!("http://127.0.0.1:{}{path}", server.port)
}

async fn serve() -> Server {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = Server { port: listener.local_addr().unwrap().port(), ..Server::default() };
    let router = axum::Router::new().fallback(answer).with_state(server.clone());
    tokio::spawn(async move { axum::serve(listener, router).await });
    server
}

async fn answer(State(server): State<Server>, request: Request) -> Response {
    match request.uri().path() {
        "/never" => std::future::pending().await,
        "/slow.js" => {
            tokio::time::sleep(Duration::from_millis(300)).await;
            ([(header::CONTENT_TYPE, "text/javascript")], "window.late = true;").into_response()
        }
        "/redirect" => (StatusCode::FOUND, [(header::LOCATION, "/redirect")]).into_response(),
        "/cookie" => {
            ([(header::SET_COOKIE, "kept=yes; Path=/; HttpOnly")], Html("<title>cookie</title>")).into_response()
        }
        "/moved" => (StatusCode::FOUND, [(header::LOCATION, "/headers")]).into_response(),
        "/headers" => {
            let headers = request.headers().iter();
            let headers =
                headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap_or_default().to_owned()));
            axum::Json(headers.collect::<HashMap<_, _>>()).into_response()
        }
        "/large" => ([(header::CONTENT_TYPE, "text/plain")], "x".repeat((1 << 20) + 1)).into_response(),
        "/echo-cookie" => {
            let cookie = request.headers().get(header::COOKIE).and_then(|value| value.to_str().ok()).unwrap_or("none");
            Html(format!("<title>{cookie}</title>")).into_response()
        }
        "/file" => {
            let disposition = "attachment; filename=\"../../report 1.txt\"";
            ([(header::CONTENT_DISPOSITION, disposition)], "the report").into_response()
        }
        "/endless-file" => {
            let chunks = futures_util::stream::repeat_with(|| Ok::<_, std::io::Error>(vec![b'x'; 1 << 20]));
            let body = axum::body::Body::from_stream(chunks);
            ([(header::CONTENT_DISPOSITION, "attachment; filename=big.bin")], body).into_response()
        }
        path => match server.pages.lock().get(path) {
            Some(source) if path.ends_with(".js") => {
                ([(header::CONTENT_TYPE, "text/javascript")], source.clone()).into_response()
            }
            Some(html) => Html(html.clone()).into_response(),
            None => (StatusCode::NOT_FOUND, Html("<title>nothing here</title>")).into_response(),
        },
    }
}

pub(crate) async fn open(context: &Context, html: &str) -> Arc<Tab> {
    let tab = context.open_tab().await.unwrap();
    let url = page(html).await;
    act(&tab, json!({"action": "goto", "url": url})).await;
    tab
}

pub(crate) async fn try_act(tab: &Tab, action: Value) -> Result<ActionOutcome, BrowserError> {
    let request: agentd_browser::ActionRequest = serde_json::from_value(action).unwrap();
    tab.act(request).await
}

pub(crate) async fn act(tab: &Tab, action: Value) -> ActionOutcome {
    try_act(tab, action.clone()).await.unwrap_or_else(|error| panic!("{action}: {} {error}", error.code()))
}

pub(crate) async fn click(tab: &Tab, selector: &str) -> ActionOutcome {
    act(tab, json!({"action": "click", "selector": selector})).await
}

/// Returns the title of the page, into which tests write their results.
pub(crate) async fn title(tab: &Tab) -> String {
    let selector = "html".to_owned();
    tab.act(Action::WaitForSelector { selector, state: Some(agentd_browser::ElementState::Attached) })
        .await
        .unwrap()
        .title
}

/// Waits for a title that is set after the end of the action, for example by a message of a frame.
pub(crate) async fn expect_title(tab: &Tab, expected: &str) {
    let started = std::time::Instant::now();
    loop {
        let title = title(tab).await;
        if title == expected {
            return;
        }
        assert!(started.elapsed() < SOON, "the title is {title:?} and not {expected:?}");
    }
}

/// Returns the text that a page writes into its title after `= `.
pub(crate) async fn title_result(tab: &Tab) -> String {
    let started = std::time::Instant::now();
    loop {
        let title = title(tab).await;
        if let Some(result) = title.strip_prefix("= ") {
            return result.to_owned();
        }
        assert!(started.elapsed() < SOON, "the page says nothing: {title:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Script prefix for results that exceed the length of a title.
pub(crate) const RESULT_SCRIPT: &str =
    "const say = said => location.hash = '=' + btoa(unescape(encodeURIComponent(said)));";

/// Returns the result reported with that script.
pub(crate) async fn hash_result(tab: &Tab) -> String {
    let result =
        eventually("a result of the page", || tab.info().url.split_once("#=").map(|(_, result)| result.to_owned()));
    String::from_utf8(STANDARD.decode(result.await).unwrap()).unwrap()
}

/// Polls until the condition is true.
pub(crate) async fn eventually<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let started = std::time::Instant::now();
    loop {
        if let Some(found) = probe() {
            return found;
        }
        assert!(started.elapsed() < SOON, "{what} did not happen");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
