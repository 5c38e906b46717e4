//! Tool descriptions and tool results.

mod base64;
mod list;
mod output;
mod schema;

pub use list::{SkippedTool, ToolDescription, ToolHints, ToolList};
pub use output::{Attachment, ToolOutput};

pub(crate) use list::Collector;
pub(crate) use output::read_output;
