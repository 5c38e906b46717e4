//! Inference process without an engine, for tests of the layers above: template, scheduler and tool call parsing are
//! real, and a script determines the output of the model.
//!
//! Its model file is a valid GGUF file that contains a chat template and the script. Requests to the engine are
//! recorded in a file next to it, one JSON value per line: `{"prompt": …}`, and `{"grammar": …, "written": …}` at the
//! start of a call.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use agentd_base::{Clock, Timestamp};
use agentd_inference::worker::engine::{
    CallGrammar, ChatTemplate, Model, Piece, Sequence, SpecialTokens, ToolFormat, run_with,
};
use agentd_inference::{GenerateRequest, LocalError, LocalErrorCode};
use serde_json::{Value, json};

use crate::gguf;

/// Prefix of replies that are held back until [`release`] is called.
pub const HELD_PREFIX: &str = "[held]";

const CHAT_TEMPLATE: &str = "tokenizer.chat_template";
const SCRIPT: &str = "scripted.replies";
/// Duration of a work step while a reply is held back.
const STEP_DURATION: Duration = Duration::from_millis(1);
const CONTEXT_LENGTH: u32 = 1 << 20;

/// Writes a model file whose model replies with `text` if its prompt contains `seen`, using the first matching pair of
/// `replies`.
///
/// # Errors
/// The file cannot be written.
pub fn write_model(path: &Path, template: &str, replies: &[(&str, &str)]) -> io::Result<()> {
    let script = json!(replies).to_string();
    gguf::write(path, &[("general.architecture", "scripted"), (CHAT_TEMPLATE, template), (SCRIPT, &script)])
}

/// Returns the recorded requests to the model at `path`.
///
/// # Errors
/// No request was recorded, or the record cannot be read.
pub fn recorded_prompts(path: &Path) -> io::Result<Vec<Value>> {
    let lines = std::fs::read_to_string(record(path))?;
    lines.lines().map(|line| serde_json::from_str(line).map_err(io::Error::from)).collect()
}

/// Releases the held replies of the model at `path`.
///
/// # Errors
/// The release file cannot be written.
pub fn release(path: &Path) -> io::Result<()> {
    std::fs::write(released(path), "")
}

fn released(path: &Path) -> PathBuf {
    path.with_extension("released")
}

fn record(path: &Path) -> PathBuf {
    path.with_extension("asked")
}

/// Runs the inference process, like [`agentd_inference::worker::run`], with a scripted engine.
#[must_use]
pub fn run(clock: &Clock) -> ExitCode {
    run_with(|path| Scripted::load(path, clock.now()))
}

struct Scripted {
    path: PathBuf,
    template: ChatTemplate,
    replies: Vec<(String, String)>,
}

impl Scripted {
    fn load(path: &Path, now: Timestamp) -> Result<Self, LocalError> {
        let failed = |error: &dyn std::fmt::Display| LocalError::new(LocalErrorCode::ModelMissing, error.to_string());
        let template = gguf::read(path, CHAT_TEMPLATE).map_err(|error| failed(&error))?;
        let script = gguf::read(path, SCRIPT).map_err(|error| failed(&error))?;
        let replies = serde_json::from_str(&script.unwrap_or_default()).map_err(|error| failed(&error))?;
        let template = ChatTemplate::new(template, String::new(), String::new(), SpecialTokens::default(), now)
            .map_err(|error| failed(&error))?;
        Ok(Self { path: path.to_path_buf(), template, replies })
    }

    fn note(&self, line: &Value) -> Result<(), LocalError> {
        let file = OpenOptions::new().create(true).append(true).open(record(&self.path));
        let written = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
        written.map_err(|error| LocalError::new(LocalErrorCode::Internal, error.to_string()))
    }
}

impl Model for Scripted {
    type Sequence<'a> = ScriptedSequence<'a>;

    fn context_length(&self) -> u32 {
        CONTEXT_LENGTH
    }

    fn stop_texts(&self) -> &[String] {
        &[]
    }

    fn tool_format(&self) -> Option<ToolFormat> {
        self.template.tool_format()
    }

    fn reply_prefix(&self) -> &str {
        self.template.reply_prefix()
    }

    /// Uses one token per byte.
    fn tokenize(&self, request: &GenerateRequest) -> Result<Vec<i32>, LocalError> {
        let prompt = self
            .template
            .render(&request.system, &request.messages, &request.tools)
            .map_err(|error| LocalError::new(LocalErrorCode::Internal, error.to_string()))?;
        self.note(&json!({ "prompt": prompt }))?;
        Ok(prompt.bytes().map(i32::from).collect())
    }

    fn open(&self) -> Result<ScriptedSequence<'_>, LocalError> {
        Ok(ScriptedSequence { model: self, is_held: false, reply: Vec::new().into_iter() })
    }
}

struct ScriptedSequence<'m> {
    model: &'m Scripted,
    is_held: bool,
    reply: std::vec::IntoIter<char>,
}

impl Sequence for ScriptedSequence<'_> {
    fn cached(&self) -> &[i32] {
        &[]
    }

    fn begin(&mut self, prompt: Vec<i32>, _: &GenerateRequest) -> Result<usize, LocalError> {
        let bytes: Vec<u8> = prompt.iter().filter_map(|&token| u8::try_from(token).ok()).collect();
        let text = String::from_utf8_lossy(&bytes);
        let reply = self.model.replies.iter().find(|(seen, _)| text.contains(seen));
        let reply = reply.map(|(_, reply)| reply.as_str()).unwrap_or_default();
        self.is_held = reply.starts_with(HELD_PREFIX);
        let reply: Vec<char> = reply.strip_prefix(HELD_PREFIX).unwrap_or(reply).chars().collect();
        self.reply = reply.into_iter();
        Ok(0)
    }

    fn read_prompt(&mut self, _: usize) -> Result<bool, LocalError> {
        if self.is_held && !released(&self.model.path).exists() {
            std::thread::sleep(STEP_DURATION);
            return Ok(false);
        }
        Ok(true)
    }

    fn sample(&mut self) -> Result<Piece, LocalError> {
        let next = self.reply.next();
        Ok(next.map_or(Piece::End, |character| Piece::Token(character.to_string().into_bytes())))
    }

    fn advance(&mut self) -> Result<(), LocalError> {
        Ok(())
    }

    fn begin_call(&mut self, grammar: &CallGrammar, written: &str) -> Result<(), LocalError> {
        self.model.note(&json!({ "grammar": grammar.schema, "written": written }))
    }
}
