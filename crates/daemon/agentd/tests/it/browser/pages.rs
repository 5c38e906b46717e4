//! Web server for the pages that a test opens in the browser.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use parking_lot::Mutex;

#[derive(Debug, Clone, Default)]
pub struct Pages {
    port: u16,
    pages: Arc<Mutex<HashMap<String, String>>>,
    requested: Arc<Mutex<Vec<String>>>,
    /// Headers of the last request to each path.
    headers: Arc<Mutex<HashMap<String, HashMap<String, String>>>>,
}

impl Pages {
    pub async fn serve() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let pages = Self { port: listener.local_addr().expect("an address").port(), ..Self::default() };
        let router = axum::Router::new().fallback(answer).with_state(pages.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        pages
    }

    /// Serves a page and returns its URL.
    pub fn page(&self, html: &str) -> String {
        let url = self.url(&format!("/{}", self.pages.lock().len()));
        self.change(&url, html);
        url
    }

    /// Replaces a page.
    pub fn change(&self, url: &str, html: &str) {
        let path = url.strip_prefix(&self.url("")).expect("an address of this server");
        self.pages.lock().insert(path.to_owned(), format!("<!doctype html><meta charset=utf-8>{html}"));
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Returns a URL that redirects to `target`.
    pub fn redirect(&self, target: &str) -> String {
        self.url(&format!("/redirect?{target}"))
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the headers of the last request to this page.
    pub fn headers(&self, url: &str) -> HashMap<String, String> {
        let path = url.strip_prefix(&self.url("")).expect("a page of this server");
        self.headers.lock().get(path).cloned().expect("a request")
    }

    /// Returns the requested paths.
    pub fn requested_paths(&self) -> Vec<String> {
        self.requested.lock().clone()
    }
}

async fn answer(State(pages): State<Pages>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    pages.requested.lock().push(path.clone());
    let headers = request.headers().iter();
    let headers = headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap_or_default().to_owned()));
    pages.headers.lock().insert(path.clone(), headers.collect());
    match &*path {
        "/never" => std::future::pending().await,
        "/echo" => echo(request).await,
        "/redirect" => Redirect::to(request.uri().query().unwrap_or_default()).into_response(),
        "/file" => {
            let disposition = "attachment; filename=\"report 1.txt\"";
            ([(header::CONTENT_DISPOSITION, disposition)], "the report").into_response()
        }
        path => match pages.pages.lock().get(path) {
            Some(html) => Html(html.clone()).into_response(),
            None => (StatusCode::NOT_FOUND, Html("<title>nothing here</title>")).into_response(),
        },
    }
}

/// A WebSocket that echoes every message.
async fn echo(request: Request) -> Response {
    let (mut parts, _) = request.into_parts();
    match WebSocketUpgrade::from_request_parts(&mut parts, &()).await {
        Ok(upgrade) => upgrade.on_upgrade(|mut socket| async move {
            while let Some(Ok(message)) = socket.recv().await {
                if socket.send(message).await.is_err() {
                    return;
                }
            }
        }),
        Err(refused) => refused.into_response(),
    }
}
