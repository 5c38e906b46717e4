//! Pages of the public machines.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::{Response, StatusCode, header};
use axum::response::{Html, IntoResponse};
use axum::routing::get;
use tokio::net::TcpListener;
use url::form_urlencoded;

use crate::Outcome;

#[derive(Clone, Default)]
struct Documents(Arc<Mutex<Vec<String>>>);

pub(super) struct Pages {
    address: SocketAddr,
    documents: Documents,
}

impl Pages {
    pub(super) async fn start() -> Outcome<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let documents = Documents::default();
        let app = Router::new()
            .route("/page/{index}", get(page))
            .route("/file", get(file))
            .fallback(|| async { Html("<title>elsewhere</title>") })
            .with_state(documents.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        Ok(Self { address, documents })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Adds a page and returns its address.
    pub(super) fn add(&self, html: &str, at: &str) -> String {
        let html = html.replace("{file}", "http://site.example/file?").replace("{at}", at);
        let mut documents = self.documents.0.lock().unwrap_or_else(PoisonError::into_inner);
        documents.push(html);
        format!("/page/{}", documents.len() - 1)
    }
}

async fn page(Path(index): Path<usize>, State(documents): State<Documents>) -> Response<Body> {
    let html = documents.0.lock().unwrap_or_else(PoisonError::into_inner).get(index).cloned();
    let head = "<!doctype html><meta charset=utf-8><link rel=icon href=data:,><body>";
    html.map_or_else(
        || StatusCode::NOT_FOUND.into_response(),
        |html| {
            // An icon declared by the page takes precedence.
            let head = if html.contains("rel=icon") {
                head.replace("<link rel=icon href=data:,>", "")
            } else {
                head.to_owned()
            };
            Html(format!("{head}{html}")).into_response()
        },
    )
}

/// Serves `type|body|header|value`; a numeric body is a status.
async fn file(RawQuery(query): RawQuery) -> Response<Body> {
    let query = query.unwrap_or_default();
    let decoded = form_urlencoded::parse(query.as_bytes())
        .map(|(name, value)| if value.is_empty() { name.into_owned() } else { format!("{name}={value}") });
    let decoded = decoded.collect::<Vec<_>>().join("&");
    let mut parts = decoded.splitn(4, '|');
    let (kind, body) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let status = body.parse().unwrap_or(StatusCode::OK);
    let answer = Response::builder().status(status).header(header::CONTENT_TYPE, kind);
    let answer = match (parts.next(), parts.next()) {
        (Some(name), Some(value)) => answer.header(name, value),
        _ => answer,
    };
    answer.body(Body::from(body.to_owned())).unwrap_or_else(|_| StatusCode::BAD_REQUEST.into_response())
}
