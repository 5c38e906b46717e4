//! Compares `GET /api/agents` (10 agents, API key) with a bare axum handler that returns the same bytes: requests per
//! second of each, alternately, and their ratio.

#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::process::{Command, Stdio};
use std::time::Duration;

use agentd_bench::Outcome;
use agentd_bench::daemon::{DaemonUnderTest, free_port};
use agentd_bench::figures::Sample;
use agentd_bench::load::{request, requests_per_second};
use serde_json::json;

const ROUNDS: usize = 5;
const CONNECTIONS: usize = 32;
const ROUND: Duration = Duration::from_secs(3);

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    if arguments.next().as_deref() == Some("bare") {
        let port: u16 = arguments.next().ok_or("a port")?.parse()?;
        let body = arguments.next().ok_or("a body")?;
        return runtime.block_on(serve_bare(port, body));
    }
    runtime.block_on(measure())
}

async fn serve_bare(port: u16, body: String) -> Outcome<()> {
    let body = axum::body::Bytes::from(body);
    let handler = move || {
        let body = body.clone();
        async move { ([("content-type", "application/json")], body) }
    };
    let router = axum::Router::new().route("/api/agents", axum::routing::get(handler));
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    axum::serve(listener, router).await?;
    Ok(())
}

#[allow(clippy::disallowed_methods, reason = "a benchmark is no daemon")]
async fn measure() -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let daemon = DaemonUnderTest::start_with_owner(&folder.path().join("data"))?;
    for number in 0..10 {
        let agent = json!({"svc_name": format!("agent-{number}"), "user_name": "Owner", "archetype": ["assistant", "researcher"]});
        daemon.call("POST", "/api/agents", &agent)?;
    }
    let (_, body) = request(&daemon.address, "GET", "/api/agents", &daemon.key, None)?;
    let port = free_port()?;
    let mut bare =
        Command::new(std::env::current_exe()?).args(["bare", &port.to_string(), &body]).stdin(Stdio::null()).spawn()?;
    let bare_address = format!("127.0.0.1:{port}");
    while request(&bare_address, "GET", "/api/agents", "", None).is_err() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let reference = requests_per_second(&bare_address, "/api/agents", "", CONNECTIONS, ROUND).await?;
        let figure = requests_per_second(&daemon.address, "/api/agents", &daemon.key, CONNECTIONS, ROUND).await?;
        // The first round warms up both.
        if round > 0 {
            println!(
                "round {round}: agentd {figure:.0}/s, bare axum {reference:.0}/s, ratio {:.2}",
                figure / reference
            );
            ours.push(figure);
            theirs.push(reference);
            ratios.push(figure / reference);
        }
    }
    bare.kill()?;
    println!("body of {} bytes, {CONNECTIONS} connections", body.len());
    println!("agentd requests/s:    {}", Sample::new(ours));
    println!("bare axum requests/s: {}", Sample::new(theirs));
    println!("ratio:                {}", Sample::new(ratios));
    Ok(())
}
