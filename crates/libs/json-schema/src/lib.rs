//! Validation with untrusted JSON Schemas: those of tool servers, devices and custom tools.
//!
//! A schema of two kilobytes can require more work than a machine does in a year, because references multiply: a chain
//! of definitions that each reference the next one twice doubles with every link. Other libraries validate such a
//! schema without a limit. In this crate:
//!
//! - a schema is accepted ([`Schema::new`]) only if the schemas applied to one value remain few with all references
//!   expanded, and no reference leads back to itself without descending into the value;
//! - a validation ([`Schema::validate`]) ends after a number of steps, regardless of schema and value. One step is
//!   approximately the cost of one keyword; long texts and large lists cost more. Recursion, memory and the number of
//!   reported problems are bounded too.
//!
//! Supported are the drafts 4 to 2020-12 without `$dynamicRef`, `$recursiveRef`, anchors and nested schemas with an
//! `$id`, which no tool needs: references are JSON pointers into the same document. `format` is not asserted, nor is a
//! `pattern` that cannot be expressed without backtracking (look-around, back-references), since the tool itself
//! validates its input.

mod error;
mod evaluate;
mod keywords;
mod same;
mod schema;

pub use error::{MAX_SCHEMA_BYTES, SchemaError, ValidationError};
pub use schema::{Schema, has_external_reference};
