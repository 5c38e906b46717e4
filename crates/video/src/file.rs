//! H.264 into an MP4 file.

use std::io::{Seek, SeekFrom, Write};
use std::num::NonZeroU32;

use shiguredo_mp4::TrackKind;
use shiguredo_mp4::bitstream::h264::{
    H264NalUnitType, H264SampleEntryConfig, LengthSize, build_avc1_box_from_annexb, parse_annexb_nal_units,
};
use shiguredo_mp4::boxes::SampleEntry;
use shiguredo_mp4::mux::{Mp4FileMuxer, Mp4FileMuxerOptions, MuxError, Sample, estimate_maximum_moov_box_size};

use crate::VideoError;
use crate::encoder::Encoded;

/// Times in the file are milliseconds.
const TIMESCALE: NonZeroU32 = NonZeroU32::new(1_000).unwrap();

pub(crate) struct Mp4File<W> {
    output: W,
    muxer: Mp4FileMuxer,
    /// Of what was written.
    length: u64,
    limit: u64,
}

impl<W: Write + Seek> Mp4File<W> {
    /// Where there are at most `samples`, what a player needs first stands first.
    pub(crate) fn begin(mut output: W, samples: usize, limit: u64) -> Result<Self, VideoError> {
        let reserved_moov_box_size = estimate_maximum_moov_box_size(&[samples]);
        let options = Mp4FileMuxerOptions { reserved_moov_box_size, ..Mp4FileMuxerOptions::default() };
        let muxer = Mp4FileMuxer::with_options(options).map_err(|error| refused(&error))?;
        let beginning = muxer.initial_boxes_bytes();
        output.write_all(beginning)?;
        let length = beginning.len() as u64;
        Ok(Self { output, muxer, length, limit })
    }

    pub(crate) fn append(&mut self, encoded: &Encoded, duration_ms: u32) -> Result<(), VideoError> {
        let sample = sample_of(&encoded.annex_b)?;
        if self.length + sample.len() as u64 > self.limit {
            return Err(VideoError::TooLarge { limit: self.limit });
        }
        let is_first = self.muxer_is_empty();
        let sample_entry = if is_first { Some(entry_of(&encoded.annex_b)?) } else { None };
        self.output.write_all(&sample)?;
        let entry = Sample {
            track_kind: TrackKind::Video,
            sample_entry,
            keyframe: encoded.is_key,
            timescale: TIMESCALE,
            duration: duration_ms,
            composition_time_offset: None,
            data_offset: self.length,
            data_size: sample.len(),
        };
        self.muxer.append_sample(&entry).map_err(|error| refused(&error))?;
        self.length += sample.len() as u64;
        Ok(())
    }

    pub(crate) fn finish(mut self) -> Result<W, VideoError> {
        let ends = self.muxer.finalize().map_err(|error| refused(&error))?;
        for (offset, bytes) in ends.offset_and_bytes_pairs() {
            self.output.seek(SeekFrom::Start(offset))?;
            self.output.write_all(bytes)?;
        }
        self.output.flush()?;
        Ok(self.output)
    }

    fn muxer_is_empty(&self) -> bool {
        self.length == self.muxer.initial_boxes_bytes().len() as u64
    }
}

/// What the decoder is set up with.
fn entry_of(annex_b: &[u8]) -> Result<SampleEntry, VideoError> {
    let entry = build_avc1_box_from_annexb(annex_b, &H264SampleEntryConfig { length_size: LengthSize::FourBytes });
    entry.map(SampleEntry::Avc1).map_err(|error| VideoError::Encoder(error.to_string()))
}

/// The units with their lengths in front. What sets the decoder up is said once, in the entry.
fn sample_of(annex_b: &[u8]) -> Result<Vec<u8>, VideoError> {
    let units = parse_annexb_nal_units(annex_b).map_err(|error| VideoError::Encoder(error.to_string()))?;
    let mut sample = Vec::with_capacity(annex_b.len());
    for unit in units {
        if matches!(unit.nal_unit_type, H264NalUnitType::Sps | H264NalUnitType::Pps) {
            continue;
        }
        let length =
            u32::try_from(unit.data.len()).map_err(|_| VideoError::Encoder("a unit is too long".to_owned()))?;
        sample.extend_from_slice(&length.to_be_bytes());
        sample.extend_from_slice(unit.data);
    }
    Ok(sample)
}

fn refused(error: &MuxError) -> VideoError {
    VideoError::Encoder(error.to_string())
}
