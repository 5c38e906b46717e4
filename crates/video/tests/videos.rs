//! Videos read back: their times, their sizes, their colours.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::Cursor;
use std::time::Duration;

use agentd_video::{CaptionedPicture, VideoError, VideoOptions, VideoWriter, video_of};
use image::codecs::jpeg::JpegEncoder;
use image::{Rgb, RgbImage};
use openh264::decoder::Decoder;
use openh264::formats::YUVSource;
use shiguredo_mp4::demux::{Input, Mp4FileDemuxer};

const OPTIONS: VideoOptions =
    VideoOptions { frames_per_second: 10, longest: Duration::from_secs(10), max_bytes: 8 << 20, has_captions: false };

fn jpeg(width: u32, height: u32, colour: [u8; 3]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let picture = RgbImage::from_pixel(width, height, Rgb(colour));
    JpegEncoder::new_with_quality(&mut bytes, 90).encode_image(&picture).unwrap();
    bytes
}

struct Sample {
    at_ms: u64,
    lasts_ms: u32,
    /// Of the pixel in the middle of each quarter: brightness and colours.
    luma: Vec<u8>,
}

struct Video {
    size: (u32, u32),
    samples: Vec<Sample>,
}

impl Video {
    fn lasts_ms(&self) -> u64 {
        self.samples.iter().map(|sample| u64::from(sample.lasts_ms)).sum()
    }

    /// As a player does it.
    fn read(file: &[u8]) -> Self {
        let mut demuxer = Mp4FileDemuxer::new();
        while let Some(wanted) = demuxer.required_input() {
            let position = usize::try_from(wanted.position).unwrap();
            let end = wanted.size.map_or(file.len(), |size| (position + size).min(file.len()));
            demuxer.handle_input(Input { position: wanted.position, data: &file[position..end] });
        }
        let mut decoder = Decoder::new().unwrap();
        let mut video = Self { size: (0, 0), samples: Vec::new() };
        while let Some(sample) = demuxer.next_sample().unwrap() {
            let start = usize::try_from(sample.data_offset).unwrap();
            let mut annex_b = Vec::new();
            if let Some(shiguredo_mp4::boxes::SampleEntry::Avc1(entry)) = sample.sample_entry {
                video.size = (entry.visual.width.into(), entry.visual.height.into());
                for set in entry.avcc_box.sps_list.iter().chain(&entry.avcc_box.pps_list) {
                    annex_b.extend_from_slice(&[0, 0, 0, 1]);
                    annex_b.extend_from_slice(set);
                }
            }
            let mut units = &file[start..start + sample.data_size];
            while let Some((length, rest)) = units.split_first_chunk::<4>() {
                let (unit, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
                annex_b.extend_from_slice(&[0, 0, 0, 1]);
                annex_b.extend_from_slice(unit);
                units = rest;
            }
            let picture = decoder.decode(&annex_b).unwrap().unwrap();
            let (width, height) = picture.dimensions();
            let stride = picture.strides().0;
            let luma = [1, 3].map(|y| [1, 3].map(|x| picture.y()[height * y / 4 * stride + width * x / 4])).concat();
            video.samples.push(Sample { at_ms: sample.timestamp, lasts_ms: sample.duration, luma });
        }
        video
    }
}

#[test]
fn each_picture_is_shown_for_its_time() {
    let mut writer = VideoWriter::new(Cursor::new(Vec::new()), OPTIONS).unwrap();
    writer.show(&jpeg(641, 401, [255, 255, 255]), "", Duration::from_millis(140)).unwrap();
    writer.show(&jpeg(641, 401, [0, 0, 0]), "", Duration::from_millis(400)).unwrap();
    let file = writer.finish(Duration::from_millis(3_500)).unwrap().into_inner();
    let video = Video::read(&file);
    assert_eq!(video.size, (640, 400));
    assert_eq!(video.lasts_ms(), 3_500);
    // What stands still is said again each second.
    let times: Vec<u64> = video.samples.iter().map(|sample| sample.at_ms).collect();
    assert_eq!(times, [0, 400, 1_400, 2_400, 3_400]);
    assert!(video.samples[0].luma.iter().all(|luma| *luma > 225), "{:?}", video.samples[0].luma);
    assert!(video.samples[1..].iter().all(|sample| sample.luma.iter().all(|luma| *luma < 30)));
    // A player reads the beginning of the file first.
    let place = |name: &[u8]| file.windows(4).position(|four| four == name).unwrap();
    assert!(place(b"moov") < place(b"mdat"));
}

#[test]
fn pictures_of_another_form_are_fitted_in() {
    let mut writer = VideoWriter::new(Cursor::new(Vec::new()), OPTIONS).unwrap();
    writer.show(&jpeg(200, 100, [255, 255, 255]), "", Duration::ZERO).unwrap();
    writer.show(&jpeg(40, 80, [255, 255, 255]), "", Duration::from_millis(100)).unwrap();
    let video = Video::read(&writer.finish(Duration::from_millis(200)).unwrap().into_inner());
    assert_eq!(video.size, (200, 100));
    // Half as wide as high, in the middle: the quarters are beside it.
    assert!(video.samples[1].luma.iter().all(|luma| *luma < 30), "{:?}", video.samples[1].luma);
    for (size, expected) in [((3_000, 1_000), (1_920, 640)), ((1, 1), (16, 16)), ((5, 900), (16, 900))] {
        let mut writer = VideoWriter::new(Cursor::new(Vec::new()), OPTIONS).unwrap();
        writer.show(&jpeg(size.0, size.1, [9, 9, 9]), "", Duration::ZERO).unwrap();
        let video = Video::read(&writer.finish(Duration::from_millis(10)).unwrap().into_inner());
        assert_eq!((video.size, video.lasts_ms()), (expected, 10));
    }
}

#[test]
fn captions_stand_below_their_pictures() {
    let step = |caption: &str, seconds| CaptionedPicture {
        jpeg: jpeg(320, 200, [200, 30, 30]),
        caption: caption.to_owned(),
        shown_for: Duration::from_secs(seconds),
    };
    let steps = [step("1/2 goto", 2), step(&"Grüße 漢 ".repeat(90), 1)];
    let longest = Duration::from_secs(3);
    let file = video_of(Cursor::new(Vec::new()), 1 << 20, steps, longest).unwrap().into_inner();
    let video = Video::read(&file);
    assert_eq!((video.size, video.lasts_ms()), ((320, 232), 3_000));
    let none = video_of(Cursor::new(Vec::new()), 1 << 20, [], longest).unwrap_err();
    assert!(matches!(none, VideoError::Empty));
}

#[test]
fn what_is_no_picture_or_too_much_is_refused() {
    let mut writer = VideoWriter::new(Cursor::new(Vec::new()), OPTIONS).unwrap();
    let whole = jpeg(64, 64, [1, 2, 3]);
    for broken in [&b""[..], b"no picture", &whole[..100]] {
        let error = writer.show(broken, "", Duration::ZERO).unwrap_err();
        assert!(matches!(error, VideoError::Picture(_)), "{error}");
    }
    // The others are taken all the same.
    writer.show(&whole, "", Duration::ZERO).unwrap();
    writer.finish(Duration::from_secs(1)).unwrap();
    let options = VideoOptions { max_bytes: 5_000, ..OPTIONS };
    let mut writer = VideoWriter::new(Cursor::new(Vec::new()), options).unwrap();
    let noise = RgbImage::from_fn(320, 320, |x, y| Rgb([(x * y * 7_919 % 251) as u8, (x ^ y) as u8, (x * 31) as u8]));
    let mut bytes = Vec::new();
    JpegEncoder::new_with_quality(&mut bytes, 90).encode_image(&noise).unwrap();
    writer.show(&bytes, "", Duration::ZERO).unwrap();
    let error = writer.finish(Duration::from_secs(1)).unwrap_err();
    assert!(matches!(error, VideoError::TooLarge { limit: 5_000 }), "{error}");
}
