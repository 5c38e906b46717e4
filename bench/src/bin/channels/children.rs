//! Helper processes next to the daemon.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use agentd_bench::Outcome;
use agentd_bench::daemon::processor_time_of;
use agentd_llm::{Usage, UsageSource, Vendor};
use agentd_testing_llm::{FakeVendor, Reply, Script};
use axum::body::Bytes;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};

/// Response of the daemon to a request that fails verification.
const REFUSAL: &str = r#"{"error":"request verification failed: the signature is wrong","code":"bad_signature"}"#;

/// This program in another role; killed when dropped.
pub(crate) struct Child {
    process: std::process::Child,
    output: BufReader<std::process::ChildStdout>,
    /// First lines of its output.
    pub(crate) lines: Vec<String>,
}

impl Child {
    #[allow(clippy::disallowed_methods, reason = "a benchmark is no daemon")]
    pub(crate) fn start(arguments: &[&str], lines: usize) -> Outcome<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = BufReader::new(process.stdout.take().ok_or("no output")?);
        let mut child = Self { process, output, lines: Vec::new() };
        for _ in 0..lines {
            let line = child.read_line()?;
            child.lines.push(line);
        }
        Ok(child)
    }

    /// Waits for the next line of output.
    pub(crate) fn read_line(&mut self) -> Outcome<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line.trim().to_owned())
    }

    pub(crate) fn processor_time(&self) -> Duration {
        processor_time_of(self.process.id())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs the provider: twenty tokens immediately, or one per second.
pub(crate) async fn provide() -> Outcome<()> {
    let usage = Usage {
        input_tokens: 10,
        output_tokens: 20,
        cache_read_tokens: 0,
        cache_write_tokens: 0,
        reasoning_tokens: 0,
        source: UsageSource::Provider,
    };
    let tokens: Vec<String> = (0..20).map(|number| format!("t{number} ")).collect();
    let reply = Reply::text(tokens.iter().map(String::as_str), usage);
    let mut vendors = Vec::new();
    for reply in [reply.clone(), reply.delayed(Duration::from_secs(1))] {
        let vendor = FakeVendor::start_without_recording(Vendor::Openai, Script::always(reply)).await?;
        println!("{}", vendor.base_url());
        vendors.push(vendor);
    }
    std::future::pending().await
}

/// Runs the reference server: reads a request and rejects it.
pub(crate) async fn serve_bare() -> Outcome<()> {
    async fn answer(
        headers: HeaderMap,
        body: Bytes,
    ) -> (StatusCode, [(axum::http::HeaderName, &'static str); 1], &'static str) {
        let json = [(CONTENT_TYPE, "application/json")];
        if headers.contains_key("x-take") || body.is_empty() {
            (StatusCode::OK, json, "{}")
        } else {
            (StatusCode::UNAUTHORIZED, json, REFUSAL)
        }
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    axum::serve(listener, axum::Router::new().fallback(answer)).await?;
    Ok(())
}
