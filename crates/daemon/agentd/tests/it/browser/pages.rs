//! A web server for what a test shows to the browser.

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
    asked: Arc<Mutex<Vec<String>>>,
    /// Of the last request to each path.
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

    /// Puts a page on the server and answers its address.
    pub fn page(&self, html: &str) -> String {
        let url = self.url(&format!("/{}", self.pages.lock().len()));
        self.change(&url, html);
        url
    }

    /// Puts another page in the place of one.
    pub fn change(&self, url: &str, html: &str) {
        let path = url.strip_prefix(&self.url("")).expect("an address of this server");
        self.pages.lock().insert(path.to_owned(), format!("<!doctype html><meta charset=utf-8>{html}"));
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// The address that redirects to `target`.
    pub fn redirect(&self, target: &str) -> String {
        self.url(&format!("/redirect?{target}"))
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// What the last request to this page came with.
    pub fn headers(&self, url: &str) -> HashMap<String, String> {
        let path = url.strip_prefix(&self.url("")).expect("a page of this server");
        self.headers.lock().get(path).cloned().expect("a request")
    }

    /// The paths that were asked for.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().clone()
    }
}

async fn answer(State(pages): State<Pages>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    pages.asked.lock().push(path.clone());
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

/// A WebSocket that says everything again.
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
