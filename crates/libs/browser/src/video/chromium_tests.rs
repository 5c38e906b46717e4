//! Encoder page in a real Chromium: its permissions, and the loss of its Chromium.

use std::path::Path;
use std::time::Duration;

use agentd_process::Spawner;
use image::codecs::jpeg::JpegEncoder;
use image::{Rgb, RgbImage};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::json;
use tokio::net::{TcpListener, UdpSocket};

use super::encoder_page::EncoderPage;
use super::*;
use crate::shared::COMMAND_TIMEOUT;

const OPTIONS: VideoOptions = VideoOptions {
    frames_per_second: 1,
    max_duration: Duration::from_secs(3_600),
    max_bytes: 8 << 20,
    has_captions: true,
};

fn run(test: impl Future<Output = ()>) {
    if !Path::new("/usr/bin/chromium").exists() {
        assert!(std::env::var_os("AGENTD_REQUIRE_CHROMIUM").is_none(), "there is no Chromium; run `make chromium`");
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(120), test).await.expect("it took too long") });
}

async fn start() -> VideoEncoder {
    let file = tempfile::tempfile().unwrap();
    VideoEncoder::start(None, Spawner::start().unwrap(), file, OPTIONS).await.expect("run `make ui` and build again")
}

fn jpeg() -> Vec<u8> {
    let mut bytes = Vec::new();
    let picture = RgbImage::from_pixel(64, 64, Rgb([200, 30, 30]));
    JpegEncoder::new_with_quality(&mut bytes, 90).encode_image(&picture).unwrap();
    bytes
}

/// Returns the result of a script in the page, as text.
async fn evaluated(page: &EncoderPage, script: &str) -> String {
    let expression = format!("(async () => {{ {script} }})().then(String, (error) => `refused: ${{error.name}}`)");
    let parameters = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
    let evaluated = page.page.run("Runtime.evaluate", parameters, COMMAND_TIMEOUT).await.unwrap();
    evaluated.result.value.as_str().unwrap().to_owned()
}

#[test]
fn encoder_page_reaches_nothing_and_stores_nothing() {
    run(async {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = server.local_addr().unwrap();
        let encoder = start().await;
        let page = &encoder.page;
        assert_eq!(evaluated(page, "return isSecureContext + ' ' + origin").await, "true null");
        let attempts = [
            format!("await fetch('http://{at}/')"),
            format!("await fetch('https://{at}/', {{mode: 'no-cors'}})"),
            format!(
                "await new Promise((done, failed) => {{ const socket = new WebSocket('ws://{at}/'); \
                 socket.onopen = done; socket.onerror = () => failed(new Error()); }})"
            ),
            format!(
                "await new Promise((done, failed) => {{ const image = new Image(); image.onload = done; \
                 image.onerror = () => failed(new Error()); image.src = 'http://{at}/'; }})"
            ),
            format!("if (!window.open('http://{at}/')) throw new Error()"),
            format!("await import('http://{at}/')"),
            format!("new Worker('http://{at}/')"),
            "localStorage.name = 1".to_owned(),
            "indexedDB.open('name')".to_owned(),
            "await caches.open('name')".to_owned(),
            "document.cookie = 'name=1'".to_owned(),
            "await navigator.serviceWorker.register('/')".to_owned(),
            "await navigator.storage.getDirectory()".to_owned(),
            "await navigator.clipboard.readText()".to_owned(),
            "await navigator.mediaDevices.getUserMedia({audio: true})".to_owned(),
            "await new Promise((done, failed) => navigator.geolocation.getCurrentPosition(done, () => failed(new Error())))"
                .to_owned(),
        ];
        for attempt in attempts {
            let outcome = evaluated(page, &attempt).await;
            assert!(outcome.starts_with("refused: "), "{attempt}: {outcome}");
        }
        // WebRTC asks a STUN server for its own address first.
        let stun = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let ask = format!(
            "const peer = new RTCPeerConnection({{iceServers: [{{urls: 'stun:{}'}}]}}); peer.createDataChannel('name'); \
             await peer.setLocalDescription()",
            stun.local_addr().unwrap()
        );
        evaluated(page, &ask).await;
        // A navigation is answered with an empty document under the same policy, not by the server.
        let leave = format!("location = 'http://{at}/'");
        evaluated(page, &leave).await;
        let mut datagram = [0; 64];
        let arrived = async {
            tokio::select! {
                connection = server.accept() => drop(connection.unwrap()),
                received = stun.recv(&mut datagram) => drop(received.unwrap()),
            }
        };
        assert!(tokio::time::timeout(Duration::from_secs(1), arrived).await.is_err(), "something arrived");
    });
}

#[test]
fn killed_chromium_is_an_error_that_names_it() {
    run(async {
        let mut encoder = start().await;
        encoder.show(&jpeg(), "before", Duration::ZERO).await.unwrap();
        let (_, process) = encoder.browser.process().await.expect("it runs");
        let group = Pid::from_raw(process.try_into().unwrap()).unwrap();
        assert_eq!(rustix::process::getpriority_process(Some(group)).unwrap(), 5, "it gives way to others");
        let last = async {
            for second in 1..3_600 {
                encoder.show(&jpeg(), "after", Duration::from_secs(second)).await?;
            }
            Ok(())
        };
        let kill = async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            kill_process_group(group, Signal::KILL).unwrap();
        };
        let (shown, ()) = tokio::join!(last, kill);
        let error: VideoError = shown.unwrap_err();
        assert!(matches!(error, VideoError::Ended(_)), "{error}");
        assert!(error.to_string().contains("retry"), "{error}");
    });
}

#[test]
fn dropped_encoder_ends_its_chromium() {
    run(async {
        let encoder = start().await;
        let (_, process) = encoder.browser.process().await.expect("it runs");
        drop(encoder);
        let started = std::time::Instant::now();
        while Path::new(&format!("/proc/{process}")).exists() {
            assert!(started.elapsed() < Duration::from_secs(20), "it runs on");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
}
