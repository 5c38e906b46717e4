//! Encoder page. WebCodecs require a secure context, which an `https` document is, whatever its source. This document
//! is served by this process. Its policy forbids everything but scripts, which are sent over the pipe.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::VideoError;
use crate::browser::Context;
use crate::internal_page::{Evaluated, Headers, InternalPage};
use crate::shared::COMMAND_TIMEOUT;
use crate::tab::Deadline;
use crate::{Browser, BrowserError};

include!(concat!(env!("OUT_DIR"), "/muxer.rs"));
const SCRIPT: &str = include_str!("../page/video.js");
const ADDRESS: &str = "https://video-encoder.invalid/";
const HEADERS: Headers = &[("content-security-policy", "default-src 'none'; sandbox allow-scripts")];
/// Time limit of a call in addition to the encoded duration, generous for a busy machine.
const CALL_LIMIT: Duration = Duration::from_secs(60);

/// Encoder page with its functions.
#[derive(Debug)]
pub(super) struct EncoderPage {
    pub(super) page: InternalPage,
    functions: String,
    /// Owns the page.
    _context: Context,
}

/// Bytes with their position in the file.
pub(super) type Piece = (u64, Vec<u8>);

/// Result of a call: parts of the file, and whether more are ready.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) pieces: Vec<Piece>,
    pub(super) is_more: bool,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Raw {
    Failed { failure: Failure },
    Done { pieces: Vec<(u64, String)>, is_more: bool },
}

#[derive(Deserialize)]
struct Failure {
    kind: FailureKind,
    message: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum FailureKind {
    Empty,
    Picture,
    Encoder,
}

impl EncoderPage {
    pub(super) async fn open(browser: &Browser) -> Result<Self, VideoError> {
        let muxer = MUXER.ok_or(VideoError::NotBuilt)?;
        let context = browser.context().await?;
        // Granting an empty list denies all permissions.
        let none = json!({"permissions": [], "browserContextId": context.id()});
        let connection = &context.shared().connection;
        let refused = connection.call::<IgnoredAny>(None, "Browser.grantPermissions", none, COMMAND_TIMEOUT).await;
        refused.map_err(BrowserError::from)?;
        let page = InternalPage::open(&context, HEADERS).await?;
        page.visit(ADDRESS, Deadline::after(CALL_LIMIT)).await?;
        let parameters = json!({"expression": format!("{muxer}\n;({SCRIPT})(Mp4Muxer)")});
        let evaluated = page.run("Runtime.evaluate", parameters, CALL_LIMIT).await?;
        let functions = evaluated.result.object_id.filter(|_| evaluated.exception_details.is_none());
        let functions = functions.ok_or_else(|| unknown_answer("its script did not start"))?;
        Ok(Self { page, functions, _context: context })
    }

    /// Calls a function. `duration` is the length of the video that it encodes.
    pub(super) async fn call(
        &self,
        function: &'static str,
        arguments: &[Value],
        duration: Duration,
    ) -> Result<Answer, VideoError> {
        let arguments: Vec<Value> = arguments.iter().map(|value| json!({"value": value})).collect();
        let parameters = json!({
            "functionDeclaration": format!("function (...given) {{ return this.{function}(...given) }}"),
            "objectId": self.functions, "arguments": arguments, "awaitPromise": true, "returnByValue": true,
        });
        let deadline = Deadline::after(CALL_LIMIT.saturating_add(duration));
        let called = self.page.run("Runtime.callFunctionOn", parameters, deadline.remaining()).await;
        let Evaluated { result, exception_details } = called.map_err(|error| match error {
            BrowserError::Timeout { .. } => deadline.timeout("a picture to be encoded"),
            error => error,
        })?;
        if exception_details.is_some() {
            return Err(unknown_answer("its script failed"));
        }
        match serde_json::from_value(result.value).map_err(unknown_answer)? {
            Raw::Done { pieces, is_more } => {
                let decoded = |(position, text): (u64, String)| Ok((position, STANDARD.decode(text)?));
                let pieces: Result<_, base64::DecodeError> = pieces.into_iter().map(decoded).collect();
                Ok(Answer { pieces: pieces.map_err(unknown_answer)?, is_more })
            }
            Raw::Failed { failure: Failure { kind, message } } => Err(match kind {
                FailureKind::Empty => VideoError::Empty,
                FailureKind::Picture => VideoError::Picture(message),
                FailureKind::Encoder => VideoError::Encoder(message),
            }),
        }
    }
}

fn unknown_answer(error: impl std::fmt::Display) -> VideoError {
    VideoError::Encoder(format!("the encoder page responded in an unknown format: {error}"))
}
