//! Overhead of the process, the pipe and the scheduler around the engine.
//!
//! Compares, alternately within one run and with the same file, prompt, sampler, seed and threads: a bare loop over the
//! engine's crate in this process, and the daemon's `LocalModel` with its inference process (this program in another
//! role). Both must produce the same number of tokens; the speed is measured from the first to the last token.
//!
//!     cargo run --release -p agentd-bench --features local-model --bin local_model -- MODEL.gguf [ROUNDS] [TOKENS]
//!
//! The prompt is in ChatML format, so MODEL must be a ChatML model such as the default one.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a benchmark reports to a terminal and stops at the first thing that is wrong"
)]

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use agentd_base::{Clock, Entropy};
use agentd_inference::{ChatMessage, GenerateRequest, LocalEvent, LocalModel, LocalModelOptions, worker};
use agentd_process::Spawner;
use futures_util::StreamExt;
use llama_cpp_2::context::LlamaContext;
use llama_cpp_2::context::params::LlamaContextParams;
use llama_cpp_2::llama_backend::LlamaBackend;
use llama_cpp_2::llama_batch::LlamaBatch;
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::model::params::LlamaModelParams;
use llama_cpp_2::sampling::LlamaSampler;

const WORKER: &str = "inference-worker";
const CONTEXT_LENGTH: u32 = 4096;
const BATCH_TOKENS: u32 = 256;
const TEMPERATURE: f32 = 0.7;
const QUESTION: &str = "Tell me a long story about a fox who learns to read.";

/// Generation as measured by the consumer.
#[derive(Clone, Copy)]
struct Measured {
    tokens: u32,
    /// Time from the first to the last token.
    generation_seconds: f64,
    /// Time from the request to the last token.
    total_seconds: f64,
}

impl Measured {
    fn tokens_per_second(self) -> f64 {
        f64::from(self.tokens.saturating_sub(1)) / self.generation_seconds
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == WORKER) {
        return worker::run(&Clock::system());
    }
    let Some(path) = arguments.first().map(PathBuf::from).filter(|path| path.is_file()) else {
        eprintln!("usage: local_model MODEL.gguf [ROUNDS] [TOKENS]");
        return ExitCode::FAILURE;
    };
    let number =
        |at: usize, default: u32| arguments.get(at).map_or(Ok(default), |text| text.parse()).expect("a number");
    run(&path, number(1, 9), number(2, 160));
    ExitCode::SUCCESS
}

fn run(path: &Path, rounds: u32, max_tokens: u32) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let spawner = Spawner::start().expect("a thread");
    let program = std::env::current_exe().expect("the path of this program");
    let options = LocalModelOptions {
        context_length: CONTEXT_LENGTH,
        ..LocalModelOptions::new(program, vec![WORKER.into()], spawner, Entropy::system())
    };
    let local = LocalModel::new(options);

    let mut backend = LlamaBackend::init().expect("the engine");
    backend.void_logs();
    let parameters = LlamaModelParams::default().with_n_gpu_layers(0);
    let model = LlamaModel::load_from_file(&backend, path, &parameters).expect("a model file");
    let context_parameters = LlamaContextParams::default()
        .with_n_ctx(NonZeroU32::new(CONTEXT_LENGTH))
        .with_n_batch(BATCH_TOKENS)
        .with_n_ubatch(BATCH_TOKENS)
        .with_n_threads(1)
        .with_n_threads_batch(2)
        .with_no_perf(true);
    let mut context = model.new_context(&backend, context_parameters).expect("a context");

    println!("round  reference tok/s  LocalModel tok/s  ratio  whole request");
    let (mut references, mut locals, mut ratios, mut totals) = (vec![], vec![], vec![], vec![]);
    // Round 0 loads files and warms up; it does not count.
    for round in 0..=rounds {
        let system = format!("You are storyteller number {round}.");
        let reference_first = round % 2 == 0;
        let mut reference =
            reference_first.then(|| reference_generation(&model, &mut context, &system, round, max_tokens));
        let measured = runtime.block_on(local_generation(&local, path, &system, round, max_tokens));
        let reference =
            reference.take().unwrap_or_else(|| reference_generation(&model, &mut context, &system, round, max_tokens));
        assert_eq!(reference.tokens, measured.tokens, "both must have made the same reply");
        if round == 0 {
            continue;
        }
        let ratio = measured.tokens_per_second() / reference.tokens_per_second();
        let total = reference.total_seconds / measured.total_seconds;
        println!(
            "{round:5}  {:15.1}  {:16.1}  {ratio:5.3}  {total:5.3}",
            reference.tokens_per_second(),
            measured.tokens_per_second()
        );
        references.push(reference.tokens_per_second());
        locals.push(measured.tokens_per_second());
        ratios.push(ratio);
        totals.push(total);
    }
    println!("                          min   median      max");
    for (name, values) in [
        ("reference tok/s", &mut references),
        ("LocalModel tok/s", &mut locals),
        ("ratio of generation", &mut ratios),
        ("ratio, whole request", &mut totals),
    ] {
        values.sort_by(f64::total_cmp);
        println!("{name:22} {:7.3}  {:7.3}  {:7.3}", values[0], values[values.len() / 2], values[values.len() - 1]);
    }
    let status = local.status();
    println!(
        "inference process: {:.0} MiB resident, prompt {:.0} tok/s",
        f64::from(u32::try_from(status.resident_bytes >> 10).unwrap_or(u32::MAX)) / 1024.0,
        status.prompt_tokens_per_second.unwrap_or_default()
    );
    runtime.block_on(local.shutdown());
}

/// Generates with the bare loop.
fn reference_generation(
    model: &LlamaModel,
    context: &mut LlamaContext<'_>,
    system: &str,
    seed: u32,
    max_tokens: u32,
) -> Measured {
    let started = Instant::now();
    let prompt = format!(
        "<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{QUESTION}<|im_end|>\n<|im_start|>assistant\n"
    );
    let vocabulary = model.vocab();
    let tokens = vocabulary.tokenize(prompt.as_bytes(), false, true);
    let mut sampler = LlamaSampler::chain(
        [
            LlamaSampler::penalties(model.n_vocab(), 64, 1.1, 0.0, 0.0),
            LlamaSampler::top_k(40),
            LlamaSampler::top_p(0.95, 1),
            LlamaSampler::min_p(0.05, 1),
            LlamaSampler::temp(TEMPERATURE),
            LlamaSampler::dist(seed),
        ],
        true,
    );
    context.clear_kv_cache();
    let mut batch = LlamaBatch::new(BATCH_TOKENS as usize, 1);
    batch.add_sequence(&tokens, 0, false).expect("a prompt of one batch");
    context.decode(&mut batch).expect("a decoded prompt");
    let mut position = i32::try_from(tokens.len()).expect("a short prompt");
    let mut text = Vec::new();
    let (mut first, mut count) = (None, 0);
    loop {
        let token = sampler.sample(context, batch.n_tokens() - 1);
        if vocabulary.is_eog(token) {
            break;
        }
        vocabulary.token_to_piece_into(token, &mut text, false, None);
        first.get_or_insert_with(Instant::now);
        count += 1;
        if count == max_tokens {
            break;
        }
        batch.clear();
        batch.add(token, position, &[0], true).expect("room for one token");
        position += 1;
        context.decode(&mut batch).expect("a decoded token");
    }
    Measured {
        tokens: count,
        generation_seconds: first.expect("a token").elapsed().as_secs_f64(),
        total_seconds: started.elapsed().as_secs_f64(),
    }
}

/// Generates with the daemon's `LocalModel`.
async fn local_generation(local: &LocalModel, path: &Path, system: &str, seed: u32, max_tokens: u32) -> Measured {
    let started = Instant::now();
    let mut request = GenerateRequest::new(path, system, vec![ChatMessage::user(QUESTION)]);
    request.temperature = TEMPERATURE;
    request.seed = Some(seed);
    request.max_output_tokens = Some(max_tokens);
    let mut stream = local.generate(request);
    let mut first = None;
    loop {
        match stream.next().await.expect("an end").expect("a reply") {
            LocalEvent::Text(_) => {
                first.get_or_insert_with(Instant::now);
            }
            LocalEvent::Finished { output_tokens, .. } => {
                return Measured {
                    tokens: output_tokens,
                    generation_seconds: first.expect("a token").elapsed().as_secs_f64(),
                    total_seconds: started.elapsed().as_secs_f64(),
                };
            }
        }
    }
}
