//! A browser page that is signed in with a page session.

use reqwest::Method;
use serde_json::{Value, json};

use super::{TestApp, TestRequest, TestResponse};

/// A browser page of the daemon, signed in with a page session.
#[derive(Debug, Clone)]
pub struct TestPage {
    /// `svc_session=…`, as in the header `Cookie`.
    pub cookie: String,
    pub secret: String,
}

impl TestPage {
    /// The body of a login or registration by the page.
    pub fn account() -> Value {
        json!({"username": "owner", "password": "correct horse", "cookie": true})
    }

    /// Signs in with the account of [`TestApp::create_owner`].
    pub async fn sign_in(app: &TestApp) -> Self {
        let request = app.post("/api/auth/login").anonymous().json(&Self::account());
        Self::of(&request.send().await.expect_status(200))
    }

    /// Reads the page session from a response.
    #[track_caller]
    pub fn of(response: &TestResponse) -> Self {
        let delivered = response.cookies().into_iter().rfind(|cookie| cookie.starts_with("svc_session=sess_"));
        let cookie = delivered.expect("a session cookie").split(';').next().expect("a pair").to_owned();
        let secret = response.json()["page_secret"].as_str().expect("a page secret").to_owned();
        Self { cookie, secret }
    }

    /// Returns the token in the cookie.
    pub fn token(&self) -> &str {
        self.cookie.strip_prefix("svc_session=").expect("a session cookie")
    }

    /// Creates a request with everything that the scripts of the page send.
    pub fn request(&self, app: &TestApp, method: Method, path: &str) -> TestRequest {
        self.cookie_request(app, method, path).header("x-svc-page", &self.secret).header("x-svc-csrf", "1")
    }

    /// Creates a request with only what the browser itself adds.
    pub fn cookie_request(&self, app: &TestApp, method: Method, path: &str) -> TestRequest {
        app.request(method, path).anonymous().header("cookie", &self.cookie)
    }

    pub fn get(&self, app: &TestApp, path: &str) -> TestRequest {
        self.request(app, Method::GET, path)
    }

    pub fn post(&self, app: &TestApp, path: &str) -> TestRequest {
        self.request(app, Method::POST, path)
    }

    pub fn put(&self, app: &TestApp, path: &str) -> TestRequest {
        self.request(app, Method::PUT, path)
    }

    /// Confirms the password again.
    pub async fn reauthenticate(&self, app: &TestApp, password: &str) -> TestResponse {
        self.post(app, "/api/auth/reauthenticate").json(&json!({"password": password})).send().await
    }
}
