//! Speed and quality of memory.
//!
//!     memory MODEL.gguf [--episodes N] [--seconds S]   speed: insert, search, cold start
//!     memory MODEL.gguf --quality FOLDER               evidence recall on conversations, as a table
//!
//! Drives the release daemon over HTTP. The reference embedder is the daemon's own: its inference process, started by
//! this program. FOLDER contains `episodes.jsonl` (`conversation, id, date, speaker, text, image?`) and
//! `questions.jsonl` (`conversation, question, category, evidence`); it is only read.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark prints its figures, and measures time itself"
)]

mod fill;
mod quality;
mod speed;
mod texts;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use agentd_base::Entropy;
use agentd_bench::Outcome;
use agentd_bench::daemon::binary;
use agentd_inference::LocalEmbedder;
use agentd_inference::embedder::EmbedderOptions;
use agentd_process::Spawner;

const USAGE: &str = "usage: memory MODEL.gguf [--episodes N] [--seconds S] [--quality FOLDER]";

struct Arguments {
    model: PathBuf,
    episodes: usize,
    time: Duration,
    quality: Option<PathBuf>,
}

impl Arguments {
    fn read() -> Outcome<Self> {
        let mut given = std::env::args().skip(1);
        let model = given.next().map(PathBuf::from).filter(|model| model.is_file()).ok_or(USAGE)?;
        let mut arguments =
            Self { model: model.canonicalize()?, episodes: 100_000, time: Duration::from_secs(20), quality: None };
        while let Some(name) = given.next() {
            let value = given.next().ok_or(USAGE)?;
            match name.as_str() {
                "--episodes" => arguments.episodes = value.parse()?,
                "--seconds" => arguments.time = Duration::from_secs(value.parse()?),
                "--quality" => arguments.quality = Some(value.into()),
                _ => return Err(USAGE.into()),
            }
        }
        Ok(arguments)
    }
}

/// Starts the daemon's embedder.
fn embedder(model: &std::path::Path) -> Outcome<LocalEmbedder> {
    let models = vec![model.to_path_buf()];
    let worker = vec!["inference-worker".into()];
    Ok(LocalEmbedder::new(EmbedderOptions::new(models, binary(), worker, Spawner::start()?, Entropy::system())))
}

fn main() -> ExitCode {
    let outcome = Arguments::read().and_then(|arguments| {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(async {
            match &arguments.quality {
                Some(folder) => quality::measure(&arguments.model, folder).await,
                None => speed::measure(&arguments).await,
            }
        })
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}
