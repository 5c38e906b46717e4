//! Videos played back by Chromium: timing, size, pixels and captions.

use std::fs::File;
use std::io::{Read, Seek};
use std::iter;
use std::process::Command;
use std::time::Duration;

use agentd_browser::{Context, VideoEncoder, VideoError, VideoOptions};
use agentd_process::Spawner;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use image::codecs::jpeg::JpegEncoder;
use image::{Rgb, RgbImage};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::{RESULT_SCRIPT, context, hash_result, open, run};

const OPTIONS: VideoOptions = VideoOptions {
    frames_per_second: 10,
    max_duration: Duration::from_secs(20),
    max_bytes: 8 << 20,
    has_captions: false,
};
const CAPTIONED: VideoOptions = VideoOptions { has_captions: true, ..OPTIONS };
const WHITE: [u8; 3] = [255, 255, 255];
const BLACK: [u8; 3] = [0, 0, 0];
const CAPTION_HEIGHT: usize = 32;

async fn start(options: VideoOptions) -> VideoEncoder {
    let file = tempfile::tempfile().unwrap();
    VideoEncoder::start(None, Spawner::start().unwrap(), file, options).await.expect("run `make ui` and build again")
}

fn encoded(picture: &RgbImage) -> Vec<u8> {
    let mut bytes = Vec::new();
    JpegEncoder::new_with_quality(&mut bytes, 90).encode_image(picture).unwrap();
    bytes
}

fn jpeg(width: u32, height: u32, color: [u8; 3]) -> Vec<u8> {
    encoded(&RgbImage::from_pixel(width, height, Rgb(color)))
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn read(mut file: File) -> Vec<u8> {
    let mut bytes = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();
    bytes
}

/// Video as played by Chromium.
#[derive(Debug, Deserialize)]
struct Played {
    size: (usize, usize),
    duration: f64,
    /// Frames at the requested times.
    pictures: Vec<Picture>,
}

#[derive(Debug, Deserialize)]
struct Picture {
    /// Colour at the centre of each quadrant.
    quarters: Vec<[u8; 3]>,
    /// Brightness of each pixel of the last rows, in base64.
    caption: String,
}

impl Picture {
    fn shows(&self, color: [u8; 3]) -> bool {
        self.quarters.iter().all(|quarter| quarter.iter().zip(color).all(|(is, wanted)| is.abs_diff(wanted) < 24))
    }

    /// Returns the rows of the caption as bright or dark pixels.
    fn caption(&self, width: usize) -> Vec<Vec<bool>> {
        let pixels = STANDARD.decode(&self.caption).unwrap();
        pixels.chunks(width).map(|row| row.iter().map(|pixel| *pixel > 128).collect()).collect()
    }
}

/// Returns the display time of each frame in milliseconds.
fn frame_times(file: &[u8]) -> impl Iterator<Item = u32> {
    let at = file.windows(4).position(|four| four == b"stts").unwrap();
    let number = move |offset: usize| u32::from_be_bytes(file[at + offset..at + offset + 4].try_into().unwrap());
    let entries = (0..number(8) as usize).map(move |entry| (number(12 + entry * 8), number(16 + entry * 8)));
    entries.flat_map(|(count, units)| iter::repeat_n(units * 10 / 576, count as usize))
}

/// Returns the start of the frame shown at `second`, in milliseconds.
fn start_of_frame(file: &[u8], second: f64) -> u32 {
    let mut start = 0;
    for time in frame_times(file) {
        if f64::from(start + time) > second * 1000.0 {
            break;
        }
        start += time;
    }
    start
}

async fn play(context: &Context, file: &[u8], seconds: &[f64]) -> Played {
    let seeks: Vec<_> = seconds.iter().map(|second| json!([second, start_of_frame(file, *second)])).collect();
    let seeks = Value::from(seeks).to_string();
    let script = format!(
        "{RESULT_SCRIPT} const video = document.querySelector('video');
        const event = (name) => new Promise((done, failed) => {{
          video.addEventListener(name, done, {{ once: true }});
          video.addEventListener('error', () => failed(video.error), {{ once: true }});
        }});
        (async () => {{
          const loaded = event('loadeddata');
          video.src = 'data:video/mp4;base64,{}';
          await loaded;
          const [width, height] = [video.videoWidth, video.videoHeight];
          const canvas = new OffscreenCanvas(width, height).getContext('2d', {{ willReadFrequently: true }});
          const pictures = [];
          for (const [second, start] of {seeks}) {{
            const seeked = event('seeked');
            video.currentTime = second;
            await seeked;
            // For a while after the event, the previous frame is drawn.
            for (let tries = 0, shown; !(Math.abs(shown - start) <= 2); tries += 1) {{
              if (tries > 250) throw new Error(`the frame of ${{start}} ms is not shown, but that of ${{shown}}`);
              await new Promise((done) => setTimeout(done, 20));
              try {{
                const frame = new VideoFrame(video);
                shown = Math.round(frame.timestamp / 1000);
                frame.close();
              }} catch {{}} // No frame yet.
            }}
            canvas.drawImage(video, 0, 0);
            const at = (x, y) => [...canvas.getImageData(width * x / 4, height * y / 4, 1, 1).data].slice(0, 3);
            const rows = canvas.getImageData(0, height - {CAPTION_HEIGHT}, width, {CAPTION_HEIGHT}).data;
            const bright = new Uint8Array(rows.length / 4).map((_, at) => rows[at * 4 + 1]);
            const quarters = [at(1, 1), at(3, 1), at(1, 3), at(3, 3)];
            pictures.push({{ quarters, caption: height > {CAPTION_HEIGHT} ? bright.toBase64() : '' }});
          }}
          say(JSON.stringify({{ size: [width, height], duration: video.duration, pictures }}));
        }})().catch((error) => say(`failed: ${{error.message}}`));",
        STANDARD.encode(file)
    );
    let tab = open(context, &format!("<video muted></video><script>{script}</script>")).await;
    let result = hash_result(&tab).await;
    let played = serde_json::from_str(&result).unwrap_or_else(|error| panic!("{error}: {result}"));
    context.close_tab(tab.id()).await.unwrap();
    played
}

#[test]
fn each_picture_is_shown_for_its_time() {
    run(async {
        let context = context().await;
        let mut encoder = start(OPTIONS).await;
        encoder.show(&jpeg(641, 401, WHITE), "", ms(140)).await.unwrap();
        encoder.show(&jpeg(641, 401, BLACK), "", ms(400)).await.unwrap();
        let file = read(encoder.finish(ms(3_501)).await.unwrap());
        let played = play(&context, &file, &[0.0, 0.2, 0.38, 0.42, 1.5, 3.0, 3.49]).await;
        assert_eq!(played.size, (640, 400));
        // The time scale of the file is not milliseconds.
        assert!((played.duration - 3.501).abs() < 0.001, "{}", played.duration);
        let (white, black) = played.pictures.split_at(3);
        assert!(white.iter().all(|picture| picture.shows(WHITE)), "{white:?}");
        assert!(black.iter().all(|picture| picture.shows(BLACK)), "{black:?}");
        // The metadata must come first in the file.
        let position = |name: &[u8]| file.windows(4).position(|four| four == name);
        assert!(position(b"moov").unwrap() < position(b"mdat").unwrap());
        assert!([b"avc1", b"vp09", b"av01"].iter().any(|codec| position(*codec).is_some()));
    });
}

#[test]
fn durations_of_samples_add_up_to_that_of_the_video() {
    run(async {
        let mut encoder = start(OPTIONS).await;
        encoder.show(&jpeg(64, 64, WHITE), "", ms(0)).await.unwrap();
        encoder.show(&jpeg(64, 64, BLACK), "", ms(400)).await.unwrap();
        let file = read(encoder.finish(ms(3_500)).await.unwrap());
        // An unchanged picture is encoded again each second; the last interval is halved.
        assert_eq!(frame_times(&file).collect::<Vec<_>>(), [400, 1_000, 1_000, 1_000, 50, 50]);
    });
}

#[test]
fn pictures_of_another_shape_are_fitted_in() {
    run(async {
        let context = context().await;
        let mut encoder = start(OPTIONS).await;
        encoder.show(&jpeg(200, 100, WHITE), "", ms(0)).await.unwrap();
        encoder.show(&jpeg(40, 80, WHITE), "", ms(100)).await.unwrap();
        let file = read(encoder.finish(ms(200)).await.unwrap());
        let played = play(&context, &file, &[0.05, 0.15]).await;
        assert_eq!(played.size, (200, 100));
        assert!(played.pictures[0].shows(WHITE), "{played:?}");
        // Half as wide as high and centred, so the quadrant centres lie outside.
        assert!(played.pictures[1].shows(BLACK), "{played:?}");
        for (size, expected) in [((3_000, 1_000), (1_920, 640)), ((1, 1), (16, 16)), ((5, 900), (16, 900))] {
            let mut encoder = start(OPTIONS).await;
            encoder.show(&jpeg(size.0, size.1, WHITE), "", ms(0)).await.unwrap();
            let file = read(encoder.finish(ms(10)).await.unwrap());
            let played = play(&context, &file, &[]).await;
            assert_eq!((played.size, played.duration), (expected, 0.01));
        }
    });
}

/// Whether an installed font supports a language.
#[allow(clippy::disallowed_methods, reason = "the program ends at once")]
fn has_font(language: &str) -> bool {
    let found = Command::new("fc-list").arg(format!(":lang={language}")).output();
    let has = found.is_ok_and(|found| !found.stdout.is_empty());
    if !has {
        eprintln!("SKIPPED: no font has the language `{language}`");
    }
    has
}

#[test]
fn captions_are_drawn_in_the_fonts_of_the_machine() {
    // Two words each: without a font, both would be rendered as the same boxes.
    let mut captions = vec!["", "1/2 goto", "2/2 goto", "Ωδή", "Αγώ", "Жук", "Дом", "Grüße", "Große"];
    captions.extend(["漢字", "語学"].iter().filter(|_| has_font("zh")));
    captions.extend(["😀", "🚀"].iter().filter(|_| has_font("und-zsye")));
    let long = "Ελληνικά Привет 1/2 ".repeat(90);
    captions.push(&long);
    run(async {
        let context = context().await;
        let mut encoder = start(CAPTIONED).await;
        for (index, caption) in captions.iter().enumerate() {
            encoder.show(&jpeg(320, 200, [200, 30, 30]), caption, ms(500 * index as u64)).await.unwrap();
        }
        let file = read(encoder.finish(ms(500 * captions.len() as u64)).await.unwrap());
        let middles: Vec<f64> = (0..captions.len()).map(|index| 0.5 * index as f64 + 0.25).collect();
        let played = play(&context, &file, &middles).await;
        assert_eq!(played.size, (320, 200 + CAPTION_HEIGHT));
        let drawn: Vec<_> = played.pictures.iter().map(|picture| picture.caption(320)).collect();
        let ink = |rows: &[Vec<bool>]| rows.iter().flatten().filter(|is_bright| **is_bright).count();
        assert_eq!(ink(&drawn[0]), 0, "nothing is written where there is no caption");
        for (index, rows) in drawn.iter().enumerate().skip(1) {
            assert!(ink(rows) > 10, "{:?} is not drawn", captions[index]);
            let same = drawn.iter().take(index).position(|other| other == rows);
            assert!(same.is_none(), "{:?} looks like {:?}", captions[index], same.map(|same| captions[same]));
            // The caption does not extend into the picture or the margins.
            assert!(rows.iter().all(|row| !row[..6].contains(&true) && !row[314..].contains(&true)), "{rows:?}");
        }
        let last = drawn.last().unwrap();
        assert!(last.iter().any(|row| row[280..].contains(&true)), "a long caption fills its line");
    });
}

#[test]
fn unreadable_pictures_are_refused_and_others_are_shown() {
    run(async {
        let context = context().await;
        let mut encoder = start(OPTIONS).await;
        let whole = jpeg(64, 64, WHITE);
        // A header that claims 65,535 pixels per side.
        let mut huge = whole.clone();
        let frame = huge.windows(2).position(|two| two == [0xff, 0xc0]).unwrap();
        huge[frame + 5..frame + 9].fill(0xff);
        for broken in [&b""[..], b"no picture", &whole[..100], &huge, &vec![0xff; 17 << 20]] {
            let error = encoder.show(broken, "", ms(0)).await.unwrap_err();
            assert!(matches!(error, VideoError::Picture(_)), "{error}");
        }
        encoder.show(&whole, "", ms(0)).await.unwrap();
        let error = encoder.show(b"no picture", "", ms(500)).await.unwrap_err();
        assert!(matches!(error, VideoError::Picture(_)), "{error}");
        let file = read(encoder.finish(ms(1_000)).await.unwrap());
        let played = play(&context, &file, &[0.75]).await;
        assert_eq!(played.duration, 1.0);
        assert!(played.pictures[0].shows(WHITE), "{played:?}");

        let empty = start(OPTIONS).await.finish(ms(1_000)).await.unwrap_err();
        assert!(matches!(empty, VideoError::Empty), "{empty}");
    });
}

#[test]
fn video_larger_than_its_limit_is_refused() {
    run(async {
        let mut encoder = start(VideoOptions { max_bytes: 20_000, ..OPTIONS }).await;
        let noise = |x: u32, y: u32| Rgb([(x * y * 7_919 % 251) as u8, (x ^ y) as u8, (x * 31) as u8]);
        encoder.show(&encoded(&RgbImage::from_fn(320, 320, noise)), "", ms(0)).await.unwrap();
        let error = encoder.finish(ms(1_000)).await.unwrap_err();
        assert!(matches!(error, VideoError::TooLarge { limit: 20_000 }), "{error}");
    });
}
