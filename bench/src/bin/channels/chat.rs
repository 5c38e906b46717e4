//! What a flood of bad signatures does to chat.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use agentd_bench::Outcome;
use agentd_bench::figures::Sample;
use agentd_bench::load::{render, streamed_on};
use agentd_testing_chat_platforms::FakePlatform;
use tokio::task::JoinSet;

use crate::Daemon;
use crate::children::Child;
use crate::flood::{Flood, write_requests};

const ROUNDS: usize = 5;
const LASTS: Duration = Duration::from_secs(4);
const A_SECOND: u64 = 10_000;
/// Until the flood is under way.
const BEGINS_AFTER: Duration = Duration::from_millis(300);
/// People who wait a moment between their turns.
const PACED: (usize, Duration) = (8, Duration::from_millis(100));
/// As many turns as can be had.
const BUSY: (usize, Duration) = (32, Duration::ZERO);

/// What chat was in one round.
struct Round {
    first_tokens_ms: Vec<f64>,
    turns_per_second: f64,
}

/// One way to measure it, over all rounds.
#[derive(Default)]
struct Rounds {
    first_tokens_ms: Vec<f64>,
    turns_per_second: Vec<f64>,
    refused_per_second: Vec<f64>,
}

pub(crate) async fn beside_a_flood(daemon: &Daemon, platforms: &[FakePlatform]) -> Outcome<()> {
    let bare = Child::start(&["bare"], 1)?;
    let bare_address = bare.lines.first().ok_or("no address")?.clone();
    let folder = tempfile::tempdir()?;
    write_requests(folder.path(), platforms)?;
    let names = ["alone", "a flood at a bare server", "a flood at the daemon"];
    for (how, load) in [("8 people who wait 0.1 s between turns", PACED), ("32 at once", BUSY)] {
        let mut rounds: [Rounds; 3] = Default::default();
        for _ in 0..ROUNDS {
            let targets = [None, Some(bare_address.as_str()), Some(daemon.daemon.address.as_str())];
            for (target, rounds) in targets.into_iter().zip(&mut rounds) {
                let round = chat_beside(daemon, load, target, folder.path(), rounds).await?;
                rounds.first_tokens_ms.extend(round.first_tokens_ms);
                rounds.turns_per_second.push(round.turns_per_second);
            }
        }
        println!("chat, {how}, beside bad signatures of all platforms, {A_SECOND} a second wanted:");
        for (name, rounds) in names.iter().zip(rounds) {
            let first = Sample::new(rounds.first_tokens_ms);
            let (p50, p99) = (first.median(), first.percentile(0.99));
            let turns = Sample::new(rounds.turns_per_second).median();
            let refused = Sample::new(rounds.refused_per_second).median();
            println!(
                "  {name:<26} first token p50 {p50:>6.2}  p99 {p99:>6.2} ms, {turns:>6.0} turns/s, {refused:>6.0} refused/s"
            );
        }
    }
    Ok(())
}

async fn chat_beside(
    daemon: &Daemon,
    load: (usize, Duration),
    target: Option<&str>,
    requests: &Path,
    rounds: &mut Rounds,
) -> Outcome<Round> {
    let Some(address) = target else { return chat(daemon, load).await };
    let count = A_SECOND * (LASTS + BEGINS_AFTER).as_secs();
    let mut child = Flood::begin(address, requests, A_SECOND, count)?;
    tokio::time::sleep(BEGINS_AFTER).await;
    let round = chat(daemon, load).await?;
    let flood = tokio::task::spawn_blocking(move || Flood::end(&mut child)).await??;
    #[allow(clippy::cast_precision_loss, reason = "a count of requests")]
    rounds.refused_per_second.push(flood.refused as f64 / flood.seconds);
    Ok(round)
}

async fn chat(daemon: &Daemon, (at_once, pause): (usize, Duration)) -> Outcome<Round> {
    let body = serde_json::json!({"agent_id": "bench", "content": "hello"}).to_string();
    let request = render("POST", "/api/chat/messages/stream", &daemon.daemon.key, Some(&body), true);
    let request = Arc::new(request.into_bytes());
    let turns = Arc::new(AtomicUsize::new(0));
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..at_once {
        let (request, turns) = (Arc::clone(&request), Arc::clone(&turns));
        let mut stream = tokio::net::TcpStream::connect(&daemon.daemon.address).await?;
        stream.set_nodelay(true)?;
        tasks.spawn(async move {
            let mut first_tokens = Vec::new();
            while began.elapsed() < LASTS {
                let reply = streamed_on(&mut stream, &request, "event: token", "event: done").await?;
                first_tokens.push(reply.first_token.as_secs_f64() * 1e3);
                turns.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(pause).await;
            }
            Outcome::Ok(first_tokens)
        });
    }
    let first_tokens = tasks.join_all().await.into_iter().collect::<Outcome<Vec<_>>>()?;
    #[allow(clippy::cast_precision_loss, reason = "a count of turns")]
    let turns_per_second = turns.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64();
    Ok(Round { first_tokens_ms: first_tokens.concat(), turns_per_second })
}
