//! Tools as a server describes them, and what they answer.

mod base64;
mod list;
mod output;
mod schema;

pub use list::{LeftOutTool, ToolDescription, ToolHints, ToolList};
pub use output::{Attachment, ToolOutput};

pub(crate) use list::Collector;
pub(crate) use output::read_output;
