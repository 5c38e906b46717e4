//! Live view of tabs.

use std::time::{Duration, Instant};

use agentd_browser::{Pace, Viewer};
use image::RgbImage;
use serde_json::json;

use crate::support::{SOON, act, context, open, run};

const SLOW: Pace = Pace { frames_per_second: 2, quality: 60 };

async fn next(viewer: &mut Viewer) -> RgbImage {
    let jpeg = tokio::time::timeout(SOON, viewer.next()).await.expect("there is no picture").expect("it has ended");
    image::load_from_memory(&jpeg).unwrap().into_rgb8()
}

/// Whether the centre of the page has this colour, within JPEG tolerance.
fn shows(picture: &RgbImage, colour: [u8; 3]) -> bool {
    let middle = picture.get_pixel(picture.width() / 2, picture.height() / 2);
    middle.0.iter().zip(colour).all(|(is, wanted)| is.abs_diff(wanted) < 24)
}

async fn wait_until_shown(viewer: &mut Viewer, colour: [u8; 3]) {
    let started = Instant::now();
    while !shows(&next(viewer).await, colour) {
        assert!(started.elapsed() < SOON, "{colour:?} was not shown");
    }
}

const RED: [u8; 3] = [255, 0, 0];
const GREEN: [u8; 3] = [0, 128, 0];
const BLUE: [u8; 3] = [0, 0, 255];

#[test]
fn viewers_see_the_final_state_of_the_active_tab() {
    run(async {
        let context = context().await;
        let first = open(
            &context,
            "<body style='background:red'><button onclick=\"\
            document.body.style.background = 'white'; setTimeout(() => document.body.style.background = 'blue', 60)\
            \">Paint</button>",
        )
        .await;
        let mut viewer = context.watch(SLOW);
        wait_until_shown(&mut viewer, RED).await;
        // A new viewer of a static page receives a frame.
        let picture = next(&mut context.watch(SLOW)).await;
        assert!(shows(&picture, RED));
        assert_eq!((picture.width(), picture.height()), (1280, 800));
        // A change immediately after another is not lost.
        for _ in 0..3 {
            act(&first, json!({"action": "click", "selector": "button"})).await;
            wait_until_shown(&mut viewer, BLUE).await;
            act(&first, json!({"action": "reload"})).await;
            wait_until_shown(&mut viewer, RED).await;
        }
        // A new tab becomes active; the other one can be activated again.
        open(&context, "<body style='background:green'>").await;
        wait_until_shown(&mut viewer, GREEN).await;
        context.activate(first.id()).unwrap();
        wait_until_shown(&mut viewer, RED).await;
        context.close_tab(first.id()).await.unwrap();
        wait_until_shown(&mut viewer, GREEN).await;
    });
}

#[test]
fn each_viewer_receives_frames_at_its_own_pace() {
    run(async {
        let context = context().await;
        open(
            &context,
            "<style>@keyframes a { to { background: blue } } body { animation: a 1s infinite alternate }</style>",
        )
        .await;
        let mut slow = context.watch(SLOW);
        let mut fast = context.watch(Pace { frames_per_second: 10, quality: 60 });
        next(&mut slow).await;
        next(&mut fast).await;
        let (mut slow_count, mut fast_count) = (0, 0);
        let end = tokio::time::sleep(Duration::from_secs(4));
        tokio::pin!(end);
        loop {
            tokio::select! {
                () = &mut end => break,
                _ = slow.next() => slow_count += 1,
                _ = fast.next() => fast_count += 1,
            }
        }
        println!("{slow_count} {fast_count}");
        assert!(slow_count <= 8, "{slow_count} pictures in 4 seconds");
        // A busy machine draws fewer frames.
        assert!(fast_count <= 40 && fast_count > slow_count, "{fast_count} pictures in 4 seconds beside {slow_count}");
    });
}
