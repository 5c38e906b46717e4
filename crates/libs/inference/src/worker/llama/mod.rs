//! llama.cpp as the engine of the scheduler, on the CPU only.
//!
//! One thread generates, at most two read prompts: the engine's threads synchronize by spinning, so more threads than
//! idle cores slow everything down many times, and the daemon itself needs a core.
//!
//! Out of scope: GPUs, batches of several replies, adapters.

mod encoder;
mod log;
mod pieces;
mod sampling;
mod sequence;

use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::num::NonZeroU32;
use std::path::Path;

use agentd_base::Timestamp;
use llama_cpp_2::context::params::LlamaContextParams;
use llama_cpp_2::llama_backend::LlamaBackend;
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::model::params::LlamaModelParams;
use llama_cpp_2::token::LlamaToken;
use llama_cpp_2::token_type::LlamaTokenAttr;

use crate::worker::llama::sequence::LlamaSequence;
use crate::worker::scheduler::Model;
use crate::worker::template::{ChatTemplate, SpecialTokens};
use crate::worker::tool_calls::ToolFormat;
use crate::{GenerateRequest, LocalError, LocalErrorCode};

/// Batch size of the engine in tokens; the scheduler never submits more.
const BATCH_TOKENS: u32 = 256;

const READ_BLOCK_BYTES: usize = 4 << 20;

/// Initialized engine, one per process.
pub(crate) struct Engine {
    backend: LlamaBackend,
}

/// Model loaded into memory.
pub(crate) struct LoadedModel<'e> {
    engine: &'e Engine,
    model: LlamaModel,
    template: ChatTemplate,
    stop_texts: Vec<String>,
    /// Control tokens that delimit tool calls, which the call reader must see.
    delimiters: HashSet<i32>,
    context_length: u32,
}

impl Engine {
    pub(crate) fn new() -> Result<Self, LocalError> {
        log::redirect();
        let backend =
            LlamaBackend::init().map_err(|error| LocalError::new(LocalErrorCode::Internal, error.to_string()))?;
        Ok(Self { backend })
    }

    /// Loads the file at `path`. `progress` is called repeatedly meanwhile.
    pub(crate) fn load(
        &self,
        path: &Path,
        context_length: u32,
        now: Timestamp,
        progress: impl FnMut() + 'static,
    ) -> Result<LoadedModel<'_>, LocalError> {
        let model = self.read(path, progress, unreadable)?;
        let architecture = model.meta_val_str("general.architecture").unwrap_or_default();
        if architecture.contains("bert") || architecture.ends_with("encoder") || model.n_vocab() <= 0 {
            return Err(unreadable(path, &format!("a `{architecture}` model does not generate text")));
        }
        let vocabulary = model.vocab();
        let piece =
            |token: LlamaToken| String::from_utf8_lossy(&vocabulary.token_to_piece(token, true, None)).into_owned();
        let text = |token: LlamaToken| if token.0 < 0 { String::new() } else { piece(token) };
        let special = SpecialTokens {
            control: vocabulary.tokens().filter(|&token| vocabulary.is_control(token)).map(piece).collect(),
            user_defined: vocabulary
                .tokens()
                .filter(|&token| vocabulary.attr(token).contains(LlamaTokenAttr::UserDefined))
                .map(piece)
                .collect(),
        };
        let source = model.chat_template(None).ok().and_then(|template| template.to_string().ok());
        let mut stop_texts: Vec<String> = [vocabulary.eos(), vocabulary.eot()].map(text).into();
        if source.is_none() {
            log::warn("the model file has no chat template; using ChatML");
            stop_texts.push("<|im_end|>".to_owned());
        }
        // A model that spells its end token out instead of generating it has finished too. Only tokens of this form are
        // used: others, such as `</s>`, also occur in ordinary text.
        stop_texts.retain(|text| text.starts_with("<|") && text.ends_with("|>"));
        stop_texts.dedup();
        let template = ChatTemplate::new(source, text(vocabulary.bos()), text(vocabulary.eos()), special, now)
            .map_err(|error| unreadable(path, &error.to_string()))?;
        let format = template.tool_format();
        let is_delimiter = |token: &LlamaToken| {
            let text = piece(*token);
            format.is_some_and(|format| format.delimiters().contains(&text.as_str()))
        };
        let control = vocabulary.tokens().filter(|&token| vocabulary.is_control(token));
        let delimiters = control.filter(is_delimiter).map(|token| token.0).collect();
        // The schemas of tools share the window with the conversation.
        let wanted = if format.is_some() { context_length.saturating_mul(2) } else { context_length };
        let trained = model.n_ctx_train();
        let context_length = if trained == 0 { wanted } else { wanted.min(trained) };
        Ok(LoadedModel { engine: self, model, template, stop_texts, delimiters, context_length })
    }

    /// Reads any GGUF file. `unusable` is the message for a file of another kind.
    fn read(
        &self,
        path: &Path,
        mut progress: impl FnMut() + 'static,
        unusable: fn(&Path, &str) -> LocalError,
    ) -> Result<LlamaModel, LocalError> {
        check_file(path).map_err(|why| unusable(path, &why))?;
        read_through(path, &mut progress).map_err(|error| unusable(path, &error.to_string()))?;
        log::take_errors();
        let parameters = LlamaModelParams::default().with_n_gpu_layers(0).with_progress_callback(move |_| {
            progress();
            true
        });
        LlamaModel::load_from_file(&self.backend, path, &parameters).map_err(|_| unusable(path, &log::take_errors()))
    }
}

impl Model for LoadedModel<'_> {
    type Sequence<'a>
        = LlamaSequence<'a>
    where
        Self: 'a;

    fn context_length(&self) -> u32 {
        self.context_length
    }

    fn stop_texts(&self) -> &[String] {
        &self.stop_texts
    }

    fn tool_format(&self) -> Option<ToolFormat> {
        self.template.tool_format()
    }

    fn reply_prefix(&self) -> &str {
        self.template.reply_prefix()
    }

    fn tokenize(&self, request: &GenerateRequest) -> Result<Vec<i32>, LocalError> {
        if request.messages.is_empty() {
            return Err(LocalError::new(LocalErrorCode::Invalid, "the request has no messages"));
        }
        let prompt = self
            .template
            .render(&request.system, &request.messages, &request.tools)
            .map_err(|error| LocalError::new(LocalErrorCode::Internal, error.to_string()))?;
        let vocabulary = self.model.vocab();
        let mut tokens = vocabulary.tokenize(prompt.as_bytes(), false, true);
        let bos = vocabulary.bos();
        // Many templates write the beginning token themselves; a second one would confuse the model.
        if vocabulary.should_add_bos() && bos.0 >= 0 && tokens.first() != Some(&bos) {
            tokens.insert(0, bos);
        }
        Ok(tokens.into_iter().map(|token| token.0).collect())
    }

    fn open(&self) -> Result<LlamaSequence<'_>, LocalError> {
        let parameters = LlamaContextParams::default()
            .with_n_ctx(NonZeroU32::new(self.context_length))
            .with_n_batch(BATCH_TOKENS)
            .with_n_ubatch(BATCH_TOKENS)
            .with_n_threads(1)
            .with_n_threads_batch(prompt_threads())
            .with_no_perf(true);
        log::take_errors();
        let context = self.model.new_context(&self.engine.backend, parameters).map_err(|_| {
            LocalError::new(
                LocalErrorCode::Internal,
                format!(
                    "not enough memory for a context window of {} tokens; {}",
                    self.context_length,
                    log::take_errors()
                ),
            )
        })?;
        Ok(LlamaSequence::new(&self.model, context, BATCH_TOKENS, &self.delimiters))
    }
}

fn prompt_threads() -> i32 {
    match std::thread::available_parallelism() {
        Ok(cores) if cores.get() > 1 => 2,
        _ => 1,
    }
}

/// Checks for problems that the engine reports only in its log, or not at all.
fn check_file(path: &Path) -> Result<(), String> {
    let mut magic = [0; 4];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut magic));
    match read {
        Ok(()) if magic == *b"GGUF" => Ok(()),
        Err(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => Err(error.to_string()),
        _ => Err("it is not a GGUF file".to_owned()),
    }
}

/// Reads the file once. The engine maps it, so that otherwise the first prompt would wait for the disk without output
/// and appear hung.
fn read_through(path: &Path, progress: &mut impl FnMut()) -> std::io::Result<()> {
    let mut file = File::open(path)?;
    let mut block = vec![0; READ_BLOCK_BYTES];
    while file.read(&mut block)? > 0 {
        progress();
    }
    Ok(())
}

fn unreadable(path: &Path, why: &str) -> LocalError {
    LocalError::new(
        LocalErrorCode::ModelMissing,
        format!("the model file {} cannot be used: {why}; replace it with a complete GGUF file", path.display()),
    )
}
