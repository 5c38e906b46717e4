//! Extension of the daemon by a domain that is registered only in the list of domains.

use std::sync::Arc;
use std::time::Duration;

use agentd_core::parts::{Detached, Domain, DomainParts};
use agentd_core::runtime::{AppContext, Binding, Family, MetricList, Sample, Worker, WorkerError, WorkerReport};
use agentd_web::{Json, Routes, routes};
use axum::extract::State;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use crate::support::TestApp;

#[derive(Clone)]
struct Greetings(AppContext);

impl Greetings {
    fn new(context: &AppContext) -> Detached<Self> {
        Detached::new(Self(context.clone()))
    }
}

impl Domain for Greetings {
    fn parts(&self) -> DomainParts {
        let mut metrics = MetricList::default();
        let family = Family::gauge("svc_greetings", "Greetings that are known.");
        metrics.read(family, self, async |_| Ok(Sample::one(1_u64)));
        DomainParts {
            routes: Routes::new().protected(routes!(show_greeting)).with_state(self.clone()),
            workers: vec![Box::new(PurgeGreetings)],
            metrics,
            bindings: Vec::new(),
            shutdown: Vec::new(),
        }
    }
}

/// Show a greeting
#[utoipa::path(get, path = "/api/greeting", operation_id = "get_greeting", tag = "greetings",
    responses((status = 200, description = "The greeting", body = Value)))]
async fn show_greeting(State(Greetings(context)): State<Greetings>) -> Json<Value> {
    Json(json!({"at": context.clock.now(), "text": "hello"}))
}

struct PurgeGreetings;

impl Worker for PurgeGreetings {
    fn name(&self) -> &'static str {
        "greetings.purge"
    }

    fn description(&self) -> &'static str {
        "Deletes old greetings."
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(60)
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        async { Ok(WorkerReport::done(3_u64)) }.boxed()
    }
}

#[tokio::test]
async fn added_domain_has_its_route_worker_and_metric() {
    let mut app = TestApp::with_owner().await;
    app.domains.push(Arc::new(|context, domains| {
        domains.add(Greetings::new(context));
    }));
    app.restart().await;
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let request = || client.get(app.url("/api/greeting"));
    let refused = request().send().await.expect("an answer");
    assert_eq!(refused.status(), 401, "the group of the route decides who may call it");
    let answer = request().bearer_auth(app.key.as_deref().expect("a key")).send().await.expect("an answer");
    assert_eq!(answer.json::<Value>().await.expect("JSON")["text"], "hello");

    app.run_workers().await;
    let list = app.get("/api/monitoring/workers").send().await.expect_status(200).json();
    let workers = list["workers"].as_array().expect("workers");
    let worker = workers.iter().find(|worker| worker["name"] == "greetings.purge").expect("the worker is listed");
    assert_eq!(worker["description"], "Deletes old greetings.");
    assert!(worker["items"].as_u64() >= Some(3) && worker["last_success_at"].is_string(), "{worker}");

    let metrics = app.get("/api/metrics/prometheus").send().await.expect_status(200).text();
    assert!(metrics.contains("\nsvc_greetings 1\n"), "{metrics}");

    let document = app.get("/api/openapi.json").send().await.expect_status(200).json();
    assert_eq!(document["paths"]["/api/greeting"]["get"]["operationId"], "get_greeting");
}

trait HasNoSlot: Send + Sync {}
impl HasNoSlot for Greetings {}

#[tokio::test]
async fn added_domain_with_a_binding_that_no_slot_accepts_prevents_startup() {
    let mut app = TestApp::start().await;
    app.stop().await;
    app.domains.push(Arc::new(|context, domains| {
        let greetings = domains.add(Greetings::new(context));
        domains.bind(Binding::new::<dyn HasNoSlot>(Arc::new(greetings)));
    }));
    let refused = app.try_start().await.expect_err("no slot accepts the binding");
    assert!(refused.contains("no slot accepts dyn ") && refused.contains("HasNoSlot"), "{refused}");
}
