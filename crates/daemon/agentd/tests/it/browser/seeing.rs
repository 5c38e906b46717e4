//! Live view and videos of the browser.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::{SinkExt, StreamExt};
use image::RgbImage;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use super::{click, configure, get, has_chromium, open, start};
use crate::support::{Eventually, TestApp, TestResponse, record};

/// Maximum time to wait for a message.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(60);

const RED: [u8; 3] = [255, 0, 0];
const GREEN: [u8; 3] = [0, 128, 0];
const BLUE: [u8; 3] = [0, 0, 255];

async fn ticket(app: &TestApp) -> String {
    let ticket = app.post("/api/auth/ticket").send().await.expect_status(200).json();
    ticket["ticket"].as_str().expect("a ticket").to_owned()
}

/// A client of the live view.
struct Watcher(WebSocketStream<TcpStream>);

impl Watcher {
    async fn try_open(app: &TestApp, query: &str, key: Option<&str>) -> Result<Self, Error> {
        let stream = TcpStream::connect(app.address).await.expect("the daemon listens");
        let mut request = format!("ws://{}/api/browser/stream{query}", app.address).into_client_request()?;
        if let Some(key) = key {
            request.headers_mut().insert("x-api-key", key.parse().expect("a key"));
        }
        let (socket, answer) = client_async(request, stream).await?;
        record::note("watch_browser", answer.status().as_u16());
        Ok(Self(socket))
    }

    async fn open(app: &TestApp) -> Self {
        Self::try_open(app, &format!("?ticket={}", ticket(app).await), None).await.expect("the client is accepted")
    }

    async fn message(&mut self) -> Message {
        let message = tokio::time::timeout(MESSAGE_TIMEOUT, self.0.next()).await.expect("the daemon sends a message");
        message.expect("the socket is open").expect("a message")
    }

    async fn jpeg(&mut self) -> Vec<u8> {
        loop {
            match self.message().await {
                Message::Binary(jpeg) => return jpeg.to_vec(),
                Message::Ping(_) => {}
                other => panic!("{other:?} instead of a frame"),
            }
        }
    }

    /// Counts the frames up to the first one with this colour in the middle.
    async fn frames_until(&mut self, colour: [u8; 3]) -> usize {
        let mut count = 1;
        while !shows(&picture(&self.jpeg().await), colour) {
            count += 1;
        }
        count
    }

    async fn close_frame(&mut self) -> CloseFrame {
        loop {
            if let Message::Close(frame) = self.message().await {
                return frame.expect("a reason");
            }
        }
    }
}

fn picture(jpeg: &[u8]) -> RgbImage {
    image::load_from_memory_with_format(jpeg, image::ImageFormat::Jpeg).expect("a JPEG").into_rgb8()
}

fn shows(picture: &RgbImage, colour: [u8; 3]) -> bool {
    let middle = picture.get_pixel(picture.width() / 2, picture.height() / 2);
    middle.0.iter().zip(colour).all(|(is, wanted)| is.abs_diff(wanted) < 30)
}

fn status(refused: Result<Watcher, Error>) -> u16 {
    match refused {
        Err(Error::Http(answer)) => answer.status().as_u16(),
        other => panic!("{:?} instead of a refusal", other.map(|_| "a stream")),
    }
}

#[tokio::test]
async fn stream_clients_see_the_active_tab() {
    if !has_chromium() {
        return;
    }
    let (mut app, pages) = start().await;
    assert_eq!(status(Watcher::try_open(&app, "", None).await), 401);
    let used = ticket(&app).await;
    app.get("/api/browser/stream").send().await.expect_error(400, "not_a_websocket");
    let mut first = Watcher::try_open(&app, &format!("?ticket={used}"), None).await.expect("the client is accepted");
    assert_eq!(status(Watcher::try_open(&app, &format!("?ticket={used}"), None).await), 401);

    // The browser is not running yet; a waiting client sees its first page.
    let next = pages.page("<body style='background:green'>");
    let noise = "<canvas width=600 height=300></canvas><script>const c = document.querySelector('canvas').getContext('2d'); \
        for (let i = 0; i < 20000; i++) { c.fillStyle = `hsl(${i * 7919 % 360} 90% 50%)`; \
        c.fillRect(i * 37 % 600, i * 91 % 300, 3, 3); }</script>";
    let paint =
        "document.body.style.background = 'white'; setTimeout(() => document.body.style.background = 'blue', 60)";
    let page = format!(
        "<body style='background:red'>{noise}<a href='{next}'>next</a><button onclick=\"{paint}\">Paint</button>"
    );
    open(&app, &pages.page(&page)).await;
    first.frames_until(RED).await;
    // The page does not change, but a new client receives a frame immediately.
    let mut slow = Watcher::open(&app).await;
    let fine = slow.jpeg().await;
    assert!(shows(&picture(&fine), RED));
    configure(&app, json!({"stream_fps": 2, "stream_quality": 3})).await.expect_status(200);
    let coarse = first.jpeg().await;
    assert!(coarse.len() * 2 < fine.len(), "{} bytes became {}", fine.len(), coarse.len());

    click(&app, "text=Paint").await;
    first.frames_until(BLUE).await;
    click(&app, "text=next").await;
    first.frames_until(GREEN).await;
    // A slow client misses most frames: it receives those in transit, then the newest.
    let count = slow.frames_until(GREEN).await;
    assert!(count <= 3, "{count} frames, including outdated ones");
    // Messages of clients are ignored.
    slow.0.send(Message::text("hello")).await.expect("the message is sent");

    app.post("/api/browser/close").send().await.expect_status(200);
    assert_eq!(first.close_frame().await.code, CloseCode::Normal);
    assert_eq!(slow.close_frame().await.code, CloseCode::Normal);

    let key = app.post("/api/auth/keys").json(&json!({"name": "viewer", "scope": "read"})).send().await;
    let key = key.expect_status(200).json();
    let mut third = Watcher::try_open(&app, "", key["key"].as_str()).await.expect("a key that may read may watch");
    app.delete(&format!("/api/auth/keys/{}", key["id"].as_str().expect("an id"))).send().await;
    assert_eq!(third.close_frame().await.code, CloseCode::Policy);
    let mut fourth = Watcher::open(&app).await;
    let (closed, ()) = tokio::join!(fourth.close_frame(), app.stop());
    assert_eq!(closed.code, CloseCode::Away);
}

#[tokio::test]
async fn read_keys_leave_viewer_permits_for_full_credentials() {
    let app = TestApp::with_owner().await;
    let key = app.post("/api/auth/keys").json(&json!({"name": "viewer", "scope": "read"})).send().await;
    let key = key.expect_status(200).json()["key"].as_str().expect("a key").to_owned();
    let mut readers = Vec::new();
    let refused = loop {
        match Watcher::try_open(&app, "", Some(&key)).await {
            Ok(reader) => readers.push(reader),
            refused => break status(refused),
        }
        assert!(readers.len() <= 64, "the readers are bounded");
    };
    assert_eq!((readers.len(), refused), (16, 503));
    let mut owners = Vec::new();
    for _ in 0..48 {
        owners.push(Watcher::open(&app).await);
    }
    let query = format!("?ticket={}", ticket(&app).await);
    assert_eq!(status(Watcher::try_open(&app, &query, None).await), 503, "64 clients are connected");
    // A permit is released when its client disconnects.
    drop(readers.pop());
    let mut eventually = Eventually::new();
    while Watcher::try_open(&app, "", Some(&key)).await.is_err() {
        eventually.retry_with(&"the permit").await;
    }
}

async fn record_screen(app: &TestApp, fields: Value) -> TestResponse {
    app.post("/api/browser/screen-recording").json(&fields).send().await
}

/// Plays a video in the browser; returns its size, its duration, and the colour in the middle at half time.
async fn play(app: &TestApp, page_of: impl Fn(&str) -> String, video: &[u8]) -> (Value, f64, Vec<u8>) {
    let script = "const v = document.querySelector('video'); \
        v.onloadedmetadata = () => { v.currentTime = v.duration / 2; }; \
        v.onerror = () => { document.title = JSON.stringify({error: v.error.message}); }; \
        v.onseeked = () => { const c = document.createElement('canvas'); c.width = v.videoWidth; c.height = v.videoHeight; \
        const d = c.getContext('2d'); d.drawImage(v, 0, 0); \
        const p = d.getImageData(c.width / 2, c.height / 2, 1, 1).data; document.title = JSON.stringify(\
        {size: [v.videoWidth, v.videoHeight], duration: v.duration, colour: [p[0], p[1], p[2]]}); };";
    let html = format!(
        "<video muted></video><script>{script} v.src = 'data:video/mp4;base64,{}'</script>",
        STANDARD.encode(video)
    );
    open(app, &page_of(&html)).await;
    let mut eventually = Eventually::new();
    loop {
        let tabs = get(app, "/api/browser/tabs").await;
        let titles = tabs["tabs"].as_array().into_iter().flatten().filter_map(|tab| tab["title"].as_str());
        let result = titles.filter_map(|title| serde_json::from_str::<Value>(title).ok()).next();
        if let Some(result) = result {
            let colour = result["colour"].as_array().unwrap_or_else(|| panic!("{result}")).iter();
            let colour = colour.map(|part| u8::try_from(part.as_u64().expect("a number")).expect("a byte")).collect();
            return (result["size"].clone(), result["duration"].as_f64().expect("a duration"), colour);
        }
        eventually.retry_with(&tabs).await;
    }
}

#[tokio::test]
async fn screen_recording_plays_in_the_browser() {
    if !has_chromium() {
        return;
    }
    let (app, pages) = start().await;
    for (wrong, field) in [
        (json!({}), "duration_seconds"),
        (json!({"duration_seconds": 0}), "duration_seconds"),
        (json!({"duration_seconds": 301}), "duration_seconds"),
        (json!({"duration_seconds": "5"}), "duration_seconds"),
        (json!({"duration_seconds": 1, "fps": 0}), "fps"),
        (json!({"duration_seconds": 1, "fps": 11}), "fps"),
    ] {
        assert_eq!(record_screen(&app, wrong).await.expect_error(400, "invalid_request").bad_fields(), [field]);
    }
    record_screen(&app, json!({"duration_seconds": 1})).await.expect_error(409, "browser_not_running");
    open(&app, &pages.page("<body style='background:red'>Red")).await;

    // One video is recorded at a time without blocking actions; it ends when its client disconnects.
    let long = async {
        let mut eventually = Eventually::new();
        loop {
            let answer = record_screen(&app, json!({"duration_seconds": 300, "fps": 10})).await;
            // The short recording may start first.
            if answer.status != 409 {
                break answer;
            }
            eventually.retry().await;
        }
    };
    tokio::select! {
        answer = long => panic!("{} before its time", answer.status),
        () = async {
            let mut eventually = Eventually::new();
            loop {
                let second = record_screen(&app, json!({"duration_seconds": 1})).await;
                if second.status == 409 {
                    second.expect_error(409, "video_in_progress");
                    break;
                }
                eventually.retry().await;
            }
            click(&app, "body").await;
        } => {}
    }
    let mut eventually = Eventually::new();
    let video = loop {
        let answer = record_screen(&app, json!({"duration_seconds": 2, "fps": 10})).await;
        if answer.status == 200 {
            break answer;
        }
        answer.expect_error(409, "video_in_progress");
        eventually.retry().await;
    };
    assert_eq!(video.header("content-type"), Some("video/mp4"));
    assert_eq!(video.header("content-length"), Some(&*video.body.len().to_string()));
    let (size, duration, colour) = play(&app, |html| pages.page(html), &video.body).await;
    // The page did not change during the recording.
    assert_eq!((size, (duration * 1_000.0).round() as u64), (json!([1280, 800]), 2_000));
    assert!(colour.iter().zip(RED).all(|(is, wanted)| is.abs_diff(wanted) < 30), "{colour:?}");

    // A video of a recording shows its steps with captions.
    let path = |id: &str| format!("/api/browser/screen-recording/from-recording/{id}");
    let create_video = async |id: &str| app.post(&path(id)).send().await;
    create_video("rec_none").await.expect_error(404, "recording_not_found");
    let start = async |name: &str| {
        let started = app.post("/api/browser/recording/start").json(&json!({"name": name})).send().await;
        started.expect_status(200).json()["recording_id"].as_str().expect("an id").to_owned()
    };
    let empty = start("empty").await;
    app.post("/api/browser/recording/stop").send().await.expect_status(200);
    create_video(&empty).await.expect_error(409, "recording_empty");
    let steps = start("two steps").await;
    open(&app, &pages.page("<body style='background:blue'>Blue")).await;
    click(&app, "body").await;
    app.post("/api/browser/recording/stop").send().await.expect_status(200);
    let video = create_video(&steps).await.expect_status(200);
    let (size, duration, colour) = play(&app, |html| pages.page(html), &video.body).await;
    assert_eq!(size, json!([640, 432]));
    assert!((3.9..=6.1).contains(&duration), "{duration} seconds");
    assert!(colour.iter().zip(BLUE).all(|(is, wanted)| is.abs_diff(wanted) < 30), "{colour:?}");
}

#[tokio::test]
async fn screen_recording_ends_with_the_browser() {
    if !has_chromium() {
        return;
    }
    let (app, pages) = start().await;
    // Closing the browser before its first frame leaves nothing to show, so each attempt waits longer.
    let mut wait_rounds = 256;
    let video = loop {
        open(&app, &pages.page("<body style='background:red'>Red")).await;
        let close = async {
            let mut eventually = Eventually::new();
            for _ in 0..wait_rounds {
                eventually.retry().await;
            }
            app.post("/api/browser/close").send().await.expect_status(200);
        };
        let (answer, ()) = tokio::join!(record_screen(&app, json!({"duration_seconds": 300})), close);
        if answer.status == 200 {
            break answer;
        }
        answer.expect_error(409, "timeout");
        wait_rounds *= 2;
    };
    let (size, duration, color) = play(&app, |html| pages.page(html), &video.body).await;
    assert_eq!(size, json!([1280, 800]));
    assert!(duration > 0.0 && duration < 300.0, "{duration} seconds");
    assert!(color.iter().zip(RED).all(|(is, wanted)| is.abs_diff(wanted) < 30), "{color:?}");
}
