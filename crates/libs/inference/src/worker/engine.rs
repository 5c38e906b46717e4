//! Interface between the inference process and its engine. An alternative engine implements [`Model`] and [`Sequence`],
//! and is run with [`run_with`].

use std::path::Path;
use std::process::ExitCode;

use super::generate::serve_models;
use super::run_as;
pub use super::scheduler::{Model, Piece, Sequence};
pub use super::template::{ChatTemplate, SpecialTokens, TemplateError};
pub use super::tool_calls::{CallGrammar, ToolFormat};
use crate::LocalError;

/// Runs the inference process until its standard input closes, with models loaded by `load`.
#[must_use]
pub fn run_with<M: Model>(load: impl Fn(&Path) -> Result<M, LocalError>) -> ExitCode {
    run_as(|configuration, inbox, outbox| serve_models(configuration, inbox, outbox, |path, _| load(path)))
}
