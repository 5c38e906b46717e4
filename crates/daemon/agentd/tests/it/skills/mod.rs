//! `/api/settings/skills`, `/api/sandbox/config`, and tools as an agent receives them.

mod bounds;
mod builtin;
mod custom;
mod http;
mod sandbox;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use agentd_base::Timestamp;
use agentd_engine::agents::{Agent, AgentId, AgentProfile, EvolutionChoice};
use agentd_engine::tools::{Offer, ToolCallContext, ToolError};
use agentd_engine::workspaces::UntrustedSource;
use axum::body::Bytes;
use axum::http::{HeaderMap, Method, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::TestApp;

const BUILTIN: &str = "/api/settings/skills/builtin";
const CUSTOM: &str = "/api/settings/skills/custom";
const SANDBOX: &str = "/api/sandbox/config";

/// Starts a daemon with the agent `scout`.
pub async fn app() -> TestApp {
    let app = TestApp::with_owner().await;
    let agent = json!({"svc_name": "scout", "user_name": "Ada", "archetype": "assistant"});
    app.post("/api/agents").json(&agent).send().await.expect_status(201);
    app
}

/// Starts a daemon that runs code without a sandbox, for tests that do not concern the sandbox.
pub async fn app_without_sandbox() -> TestApp {
    let app = app().await;
    app.put(SANDBOX).json(&json!({"backend": "none"})).send().await.expect_status(200);
    app
}

fn agent(profile: AgentProfile) -> Agent {
    let now = Timestamp::parse(crate::support::START).unwrap();
    Agent {
        id: AgentId::from("agent_01arz3ndektsv4rrffq69g5fav"),
        svc_name: "scout".to_owned(),
        user_name: "Ada".to_owned(),
        archetypes: vec!["assistant".to_owned()],
        custom_archetype: None,
        evolution_choice: EvolutionChoice::Off,
        profile,
        answers: Vec::new(),
        created_at: now,
        updated_at: now,
    }
}

fn workspace(app: &TestApp) -> PathBuf {
    app.data_dir().join("agents/scout")
}

pub async fn offer(app: &TestApp) -> Offer {
    app.running().daemon.tools().offer(&agent(AgentProfile::default())).await
}

pub async fn offered(app: &TestApp) -> Vec<String> {
    offer(app).await.iter().map(|tool| tool.description().name.clone()).collect()
}

/// Calls a tool like the engine.
pub async fn call(app: &TestApp, name: &str, input: Value) -> Result<Value, ToolError> {
    let offer = offer(app).await;
    let tool = offer.find(name).unwrap_or_else(|| panic!("{name} is not offered"));
    let input = tool.description().input_schema.validate(&input).await.map_err(ToolError::Invalid)?;
    let context = ToolCallContext {
        agent: Arc::new(agent(AgentProfile::default())),
        workspace: workspace(app),
        session_id: "sess_1".to_owned(),
        conversation_id: None,
        call_id: "call_1".to_owned(),
        cancelled: CancellationToken::new(),
        untrusted: UntrustedSource::default(),
        approved: None,
        has_untrusted_text: false,
    };
    tool.call(input, context).await.map(|output| Value::Object(output.value))
}

/// A request that a server received.
#[derive(Debug, Clone)]
pub struct RecordedRequest {
    pub method: Method,
    pub uri: Uri,
    pub headers: BTreeMap<String, String>,
    pub body: String,
}

/// A local web server that records its requests.
pub struct Server {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<RecordedRequest>>>,
}

impl Server {
    pub async fn start(answer: impl Fn(&RecordedRequest) -> Response + Clone + Send + Sync + 'static) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&requests);
        let handler = move |method: Method, uri: Uri, headers: HeaderMap, body: Bytes| {
            let headers =
                headers.iter().map(|(n, v)| (n.to_string(), String::from_utf8_lossy(v.as_bytes()).into_owned()));
            let one = RecordedRequest {
                method,
                uri,
                headers: headers.collect(),
                body: String::from_utf8_lossy(&body).into_owned(),
            };
            let response = answer(&one);
            log.lock().unwrap().push(one);
            async move { response }
        };
        tokio::spawn(async move { axum::serve(listener, axum::Router::new().fallback(handler)).await });
        Self { address, requests }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.requests.lock().unwrap().clone()
    }
}

fn page(html: &'static str) -> Response {
    ([("content-type", "text/html; charset=utf-8")], html).into_response()
}
