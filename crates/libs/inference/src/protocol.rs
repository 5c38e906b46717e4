//! Protocol between the daemon and its inference process: length-prefixed JSON frames.
//!
//! A frame is four bytes of length (big endian), followed by that many bytes of JSON. Both directions have the same
//! size limit. A longer frame is rejected before it is read, so that neither side can make the other allocate unbounded
//! memory.
//!
//! Out of scope: versions and negotiation. Both ends are the same binary.

use std::io::{self, Read, Write};
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::embedder::{EmbeddedText, EmbedderLimits};
use crate::{FinishReason, FunctionCall, GenerateRequest, LocalErrorCode};

/// Maximum size of a frame: far more text than any context window, and small enough to buffer.
pub const MAX_FRAME_BYTES: usize = 8 * 1024 * 1024;

/// Frame from the daemon to the inference process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum ToWorker {
    /// First frame, sent once: selects text generation.
    Configure(WorkerConfiguration),
    /// First frame, sent once: selects embedding.
    ConfigureEmbedder(EmbedderConfiguration),
    Generate {
        id: u64,
        request: Box<GenerateRequest>,
    },
    /// Cancels a request. Unknown or finished ids are ignored: the result may already have been sent.
    Cancel {
        id: u64,
    },
    /// Embeds a text. Queries have priority, and only their first chunk is embedded.
    Embed {
        id: u64,
        is_query: bool,
        text: String,
    },
}

/// Limits of the text generation process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerConfiguration {
    /// Maximum number of tokens of a conversation, including the reply; lowered to the limit of the model.
    pub context_length: u32,
    /// Maximum number of concurrent replies; the daemon sends no more requests.
    pub max_parallel: usize,
}

/// Configuration of an embedding process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmbedderConfiguration {
    pub model_path: PathBuf,
    /// Number of threads for texts; `None` chooses it for the machine.
    pub text_threads: Option<usize>,
    pub limits: EmbedderLimits,
    /// Maximum number of queued texts, including queries.
    pub max_queue: usize,
}

/// Frame from the inference process to the daemon.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum FromWorker {
    /// A model file is being read. Repeated as a keep-alive.
    Loading { model_path: PathBuf },
    /// The model file is loaded.
    Loaded { model_path: PathBuf, context_length: u32 },
    /// Work continues, but there is no text yet (a long prompt, or buffered text).
    Working,
    /// Next part of the reply; one frame for each piece that the model generates.
    Text { id: u64, text: String },
    /// The reply is complete. Last frame for this id.
    Finished { id: u64, reason: FinishReason, usage: WorkerUsage, calls: Vec<FunctionCall> },
    /// Vectors of the text. Last frame for this id.
    Embedded { id: u64, embedded: EmbeddedText, usage: EmbeddingUsage },
    /// The request failed or was cancelled without a complete reply. Last frame for this id.
    Failed { id: u64, code: LocalErrorCode, message: String },
}

/// Usage of a reply, measured in the inference process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkerUsage {
    pub input_tokens: u32,
    /// Part of `input_tokens` that was still in the cache from an earlier turn.
    pub cached_tokens: u32,
    pub output_tokens: u32,
    /// Time spent on the prompt of this request.
    pub prompt_seconds: f64,
    /// Time spent on the reply of this request.
    pub generation_seconds: f64,
}

/// Usage of the embedding of a text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct EmbeddingUsage {
    pub tokens: u32,
    /// Share of the text in the time of its batches, in seconds.
    pub seconds: f64,
}

/// Reason why a frame could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ProtocolError {
    #[error("the pipe to the inference process failed")]
    Io(#[from] io::Error),
    #[error("a frame of {length} bytes exceeds the limit of {MAX_FRAME_BYTES}")]
    TooLong { length: usize },
    #[error("a frame is not valid JSON")]
    Malformed(#[from] serde_json::Error),
    #[error("the pipe was closed in the middle of a frame")]
    Truncated,
}

/// Encodes `message` as a frame.
///
/// # Errors
/// Returns `TooLong` if it would exceed the limit.
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, ProtocolError> {
    let mut frame = vec![0; 4];
    serde_json::to_writer(&mut frame, message)?;
    let length = frame.len() - 4;
    let Some(header) = u32::try_from(length).ok().filter(|_| length <= MAX_FRAME_BYTES) else {
        return Err(ProtocolError::TooLong { length });
    };
    frame[..4].copy_from_slice(&header.to_be_bytes());
    Ok(frame)
}

fn body_length(header: [u8; 4]) -> Result<usize, ProtocolError> {
    let length = usize::try_from(u32::from_be_bytes(header)).unwrap_or(usize::MAX);
    if length > MAX_FRAME_BYTES { Err(ProtocolError::TooLong { length }) } else { Ok(length) }
}

/// Reads one frame; `None` if the other side closed the pipe between frames.
///
/// # Errors
/// Returns an error for anything that is not a complete frame.
pub fn read_frame<T: DeserializeOwned>(reader: &mut impl Read) -> Result<Option<T>, ProtocolError> {
    let mut header = [0; 4];
    let mut filled = 0;
    while filled < header.len() {
        match reader.read(&mut header[filled..]) {
            Ok(0) if filled == 0 => return Ok(None),
            Ok(0) => return Err(ProtocolError::Truncated),
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    let mut body = vec![0; body_length(header)?];
    reader.read_exact(&mut body).map_err(truncated)?;
    Ok(Some(serde_json::from_slice(&body)?))
}

/// Reads one frame like [`read_frame`], on the daemon's side. Not cancel-safe: a dropped call may lose part of a frame.
///
/// # Errors
/// Returns an error for anything that is not a complete frame.
pub async fn read_frame_async<T: DeserializeOwned>(
    reader: &mut (impl AsyncRead + Unpin),
) -> Result<Option<T>, ProtocolError> {
    let mut header = [0; 4];
    let first = reader.read(&mut header).await?;
    if first == 0 {
        return Ok(None);
    }
    reader.read_exact(&mut header[first..]).await.map_err(truncated)?;
    let mut body = vec![0; body_length(header)?];
    reader.read_exact(&mut body).await.map_err(truncated)?;
    Ok(Some(serde_json::from_slice(&body)?))
}

/// Writes one frame in a single call, so that frames of several threads never interleave.
///
/// # Errors
/// Returns an error if the frame is too long or the pipe is closed.
pub fn write_frame<T: Serialize>(writer: &mut impl Write, message: &T) -> Result<(), ProtocolError> {
    writer.write_all(&encode(message)?)?;
    writer.flush()?;
    Ok(())
}

/// Writes one frame like [`write_frame`], on the daemon's side.
///
/// # Errors
/// Returns an error if the frame is too long or the pipe is closed.
pub async fn write_frame_async<T: Serialize>(
    writer: &mut (impl AsyncWrite + Unpin),
    message: &T,
) -> Result<(), ProtocolError> {
    writer.write_all(&encode(message)?).await?;
    writer.flush().await?;
    Ok(())
}

fn truncated(error: io::Error) -> ProtocolError {
    if error.kind() == io::ErrorKind::UnexpectedEof { ProtocolError::Truncated } else { error.into() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::embedder::EmbeddedChunk;
    use crate::embedder::{NameKind, NamedSpan};

    fn any_frame() -> impl Strategy<Value = FromWorker> {
        prop_oneof![
            Just(FromWorker::Working),
            (any::<u64>(), any::<String>()).prop_map(|(id, text)| FromWorker::Text { id, text }),
            (any::<u64>(), any::<String>()).prop_map(|(id, message)| FromWorker::Failed {
                id,
                code: LocalErrorCode::Overloaded,
                message
            }),
            (any::<u64>(), any::<u32>(), any::<u32>()).prop_map(|(id, input_tokens, output_tokens)| {
                FromWorker::Finished {
                    id,
                    reason: FinishReason::Stop,
                    usage: WorkerUsage { input_tokens, output_tokens, ..WorkerUsage::default() },
                    calls: vec![FunctionCall { name: id.to_string(), arguments: serde_json::json!({"a": [null]}) }],
                }
            }),
            (any::<u64>(), prop::collection::vec(prop::num::f32::NORMAL | prop::num::f32::SUBNORMAL, 0..20)).prop_map(
                |(id, vector)| {
                    let chunks = vec![EmbeddedChunk { range: 3..7, vector }];
                    let usage = EmbeddingUsage { tokens: 5, seconds: 0.25 };
                    let names = vec![NamedSpan { range: 1..2, kind: NameKind::Place }];
                    FromWorker::Embedded {
                        id,
                        embedded: EmbeddedText { chunks, left_out: 2, names: Some(names) },
                        usage,
                    }
                }
            ),
        ]
    }

    proptest! {
        #[test]
        fn frames_round_trip_in_order(frames in prop::collection::vec(any_frame(), 0..20)) {
            let mut pipe = Vec::new();
            for frame in &frames {
                write_frame(&mut pipe, frame).unwrap();
            }
            let mut reader = pipe.as_slice();
            for frame in &frames {
                let read = read_frame::<FromWorker>(&mut reader).unwrap();
                prop_assert_eq!(read.as_ref(), Some(frame));
            }
            prop_assert!(read_frame::<FromWorker>(&mut reader).unwrap().is_none());
        }

        #[test]
        fn truncation_is_distinguished_from_the_end(frame in any_frame(), cut in any::<prop::sample::Index>()) {
            let whole = encode(&frame).unwrap();
            let cut = cut.index(whole.len());
            let got = read_frame::<FromWorker>(&mut &whole[..cut]);
            if cut == 0 {
                prop_assert!(got.unwrap().is_none());
            } else {
                prop_assert!(matches!(got, Err(ProtocolError::Truncated)));
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic_or_exceed_the_limit(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let mut reader = bytes.as_slice();
            if let Ok(Some(frame)) = read_frame::<FromWorker>(&mut reader) {
                prop_assert!(encode(&frame).unwrap().len() <= MAX_FRAME_BYTES + 4);
            }
        }

        #[test]
        fn both_readers_agree(bytes in prop::collection::vec(any::<u8>(), 0..32), frame in any_frame()) {
            let mut pipe = encode(&frame).unwrap();
            pipe.extend_from_slice(&bytes);
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let mut sync = pipe.as_slice();
            let mut asynchronous = pipe.as_slice();
            for _ in 0..2 {
                let left = read_frame::<FromWorker>(&mut sync);
                let right = runtime.block_on(read_frame_async::<FromWorker>(&mut asynchronous));
                prop_assert_eq!(format!("{left:?}"), format!("{right:?}"));
            }
        }
    }

    #[test]
    fn oversized_frame_is_rejected_by_its_length() {
        let header = u32::try_from(MAX_FRAME_BYTES + 1).unwrap().to_be_bytes();
        assert!(matches!(
            read_frame::<FromWorker>(&mut header.as_slice()),
            Err(ProtocolError::TooLong { length }) if length == MAX_FRAME_BYTES + 1
        ));
        let text = "x".repeat(MAX_FRAME_BYTES);
        assert!(matches!(encode(&FromWorker::Text { id: 1, text }), Err(ProtocolError::TooLong { .. })));
    }
}
