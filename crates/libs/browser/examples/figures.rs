//! How long a launch, a page, a click, a snapshot and a picture take: medians of a number of rounds.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a program that measures")]

use std::time::{Duration, Instant};

use agentd_browser::{Action, Area, Browser, BrowserOptions, ImageFormat};
use agentd_process::Spawner;

const ROUNDS: usize = 30;

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

async fn measure(what: &str, rounds: usize, mut work: impl AsyncFnMut()) {
    let mut times = Vec::new();
    for _ in 0..rounds {
        let started = Instant::now();
        work().await;
        times.push(started.elapsed());
    }
    println!("{what:<46} {:>8.1} ms", median(times).as_secs_f64() * 1e3);
}

fn page(html: &str) -> Action {
    let encoded: String = url::form_urlencoded::byte_serialize(html.as_bytes()).collect();
    let url = format!("data:text/html,{}", encoded.replace('+', "%20"));
    Action::Goto { url, wait_until: None }
}

#[tokio::main]
async fn main() {
    let spawner = Spawner::start().unwrap();
    measure("launch to the first page", 5, async || {
        let browser = Browser::new(BrowserOptions::default(), spawner.clone());
        let tab = browser.context().await.unwrap().open_tab().await;
        drop(tab);
    })
    .await;
    let browser = Browser::new(BrowserOptions::default(), spawner.clone());
    let context = browser.context().await.unwrap();
    let tab = context.open_tab().await.unwrap();
    measure("goto", ROUNDS, async || {
        tab.act(page("<title>x</title><button>Press</button>")).await.unwrap();
    })
    .await;
    measure("click, by CSS", ROUNDS, async || {
        tab.act(Action::Click { selector: "button".to_owned() }).await.unwrap();
    })
    .await;
    measure("click, by role", ROUNDS, async || {
        tab.act(Action::Click { selector: "role=button[name=\"Press\"]".to_owned() }).await.unwrap();
    })
    .await;
    tab.snapshot(false).await.unwrap();
    measure("click, by number", ROUNDS, async || {
        tab.act(Action::Click { selector: "@1".to_owned() }).await.unwrap();
    })
    .await;
    for (what, format) in [("picture, PNG", ImageFormat::Png), ("picture, JPEG", ImageFormat::Jpeg(80))] {
        measure(what, ROUNDS, async || {
            tab.screenshot(format, &Area::Viewport).await.unwrap();
        })
        .await;
    }
    for count in [10, 500, 2_000] {
        // Made by the page: the address would be too long.
        let script = format!(
            "<script>document.body.innerHTML = Array.from({{length: {count}}}, (_, i) => \
             `<div><button>Button ${{i}}</button><p>text ${{i}}</p></div>`).join('')</script>"
        );
        tab.act(page(&format!("<body>{script}"))).await.unwrap();
        measure(&format!("snapshot of {count} elements"), 10, async || {
            tab.snapshot(false).await.unwrap();
        })
        .await;
    }
}
