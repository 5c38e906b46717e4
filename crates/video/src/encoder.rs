//! Pictures to H.264.

use image::RgbImage;
use openh264::OpenH264API;
use openh264::encoder::TransferCharacteristics::Srgb;
use openh264::encoder::{
    ColorPrimaries, Encoder as OpenH264, EncoderConfig, FrameRate, FrameType, IntraFramePeriod, RateControlMode,
    UsageType, VuiConfig,
};
use openh264::formats::{RgbSliceU8, YUVBuffer};

use crate::VideoError;

/// A player can go to a place once in so long.
const SECONDS_BETWEEN_KEY_FRAMES: u32 = 10;

/// One encoded picture, as units that begin with a start code each.
#[derive(Debug)]
pub(crate) struct Encoded {
    pub(crate) annex_b: Vec<u8>,
    pub(crate) is_key: bool,
}

pub(crate) struct Encoder {
    inner: OpenH264,
    /// The picture that is shown.
    shown: Option<YUVBuffer>,
}

impl Encoder {
    pub(crate) fn new(frames_per_second: u8) -> Result<Self, VideoError> {
        let config = EncoderConfig::new()
            .usage_type(UsageType::ScreenContentRealTime)
            // Of the same quality throughout: control of the rate leaves pictures out, and one of them may be the last.
            .rate_control_mode(RateControlMode::Off)
            .skip_frames(false)
            // Not known for screens; asking for them is answered with warnings on the standard error.
            .adaptive_quantization(false)
            .background_detection(false)
            .max_frame_rate(FrameRate::from_hz(frames_per_second.into()))
            .intra_frame_period(IntraFramePeriod::from_num_frames(
                u32::from(frames_per_second) * SECONDS_BETWEEN_KEY_FRAMES,
            ))
            .num_threads(1)
            // Colours of a screen, in the form that they are converted to below.
            .vui(VuiConfig::bt601().color_primaries(ColorPrimaries::Bt709).transfer_characteristics(Srgb));
        let inner = OpenH264::with_api_config(OpenH264API::from_source(), config).map_err(failed)?;
        Ok(Self { inner, shown: None })
    }

    /// Every picture of a video has the same size, which is even.
    pub(crate) fn encode(&mut self, picture: &RgbImage) -> Result<Encoded, VideoError> {
        let size = (picture.width() as usize, picture.height() as usize);
        let source = RgbSliceU8::new(picture.as_raw(), size);
        match &mut self.shown {
            Some(shown) => shown.read_rgb8(source),
            None => self.shown = Some(YUVBuffer::from_rgb8_source(source)),
        }
        self.again()
    }

    /// The picture that is shown, once more.
    pub(crate) fn again(&mut self) -> Result<Encoded, VideoError> {
        let shown = self.shown.as_ref().ok_or(VideoError::Empty)?;
        let stream = self.inner.encode(shown).map_err(failed)?;
        let is_key = matches!(stream.frame_type(), FrameType::IDR);
        Ok(Encoded { annex_b: stream.to_vec(), is_key })
    }
}

fn failed(error: openh264::Error) -> VideoError {
    VideoError::Encoder(error.to_string())
}
