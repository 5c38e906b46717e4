//! JSON Schemas that strangers wrote: those of tool servers, devices and custom tools.
//!
//! A schema of two kilobytes can ask for more work than a machine does in a year, because references multiply: a chain
//! of definitions of which each names the next one twice doubles with every link. Libraries validate such a schema to
//! the end. Here
//!
//! - a schema is taken over ([`Schema::new`]) only if what it applies to one value stays small with all references
//!   unfolded, and no reference leads back to itself without going down into the value;
//! - a validation ([`Schema::validate`]) ends after a number of steps, whatever the schema and the value are. One step
//!   is about what one keyword costs; long texts and large lists cost more. Recursion, memory and the number of
//!   problems told are bounded too.
//!
//! Understood are the drafts 4 to 2020-12 without `$dynamicRef`, `$recursiveRef`, anchors and schemas with an `$id`
//! inside, which no tool needs: references are JSON pointers into the same document. `format` is not asserted, and
//! neither is a `pattern` that the regular expressions without backtracking cannot express (look-around,
//! back-references): the tool itself has the last word on its input.

mod error;
mod evaluate;
mod keywords;
mod same;
mod schema;

pub use error::{MAX_SCHEMA_BYTES, SchemaError, ValidationError};
pub use schema::{Schema, refers_outside};
