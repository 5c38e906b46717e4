//! The built-in models, each of which runs in a child process of the daemon's own program.

use std::path::Path;
use std::time::Duration;

use agentd_core::runtime::AppContext;
use agentd_engine::providers::LocalOptions;
use agentd_inference::embedder::{EmbedderOptions, LocalEmbedder};
use agentd_inference::{LocalModel, LocalModelOptions};
use agentd_process::Spawner;

use crate::config::Config;

/// The built-in model is unloaded after this long without work.
const IDLE_UNLOAD: Duration = Duration::from_secs(300);

pub(super) struct BuiltInModels {
    pub(super) embedder: LocalEmbedder,
    pub(super) local: LocalOptions,
}

/// Describes the built-in models; starts none of them.
pub(super) fn built_in_models(
    context: &AppContext,
    config: &Config,
    program: &Path,
    spawner: &Spawner,
) -> BuiltInModels {
    let arguments = || vec!["inference-worker".into()];
    let embedder = LocalEmbedder::new(EmbedderOptions::new(
        config.embedding_model_paths(),
        program.to_owned(),
        arguments(),
        spawner.clone(),
        context.entropy.clone(),
    ));
    let entropy = context.entropy.clone();
    let mut model = LocalModelOptions::new(program.to_owned(), arguments(), spawner.clone(), entropy);
    model.idle_unload = IDLE_UNLOAD;
    BuiltInModels { embedder, local: LocalOptions { model: LocalModel::new(model), folders: config.model_dirs() } }
}
