//! Errors of schemas and validations.

/// Maximum size of a schema, which is part of every prompt.
pub const MAX_SCHEMA_BYTES: usize = 64 * 1024;
/// Maximum number of schemas applied to one value, with references expanded.
pub(super) const MAX_EXPANDED: u64 = 10_000;
/// Maximum nesting depth of these schemas.
pub(super) const MAX_IN_PLACE_DEPTH: usize = 64;

/// Reason why a schema is rejected. Each text completes a sentence that begins with the owner of the schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    #[error("must be at most {MAX_SCHEMA_BYTES} bytes of JSON")]
    TooLong,
    #[error("refers to another document, which is not fetched; define the schema in `$defs` instead")]
    RefersOutside,
    #[error("refers to `{0}`, which it does not contain")]
    NothingThere(String),
    #[error("uses `{0}`, which is not supported; refer to its parts by JSON pointers such as `#/$defs/name`")]
    NotSupported(String),
    #[error("refers to itself without terminating")]
    Endless,
    #[error(
        "unfolds to more than {MAX_EXPANDED} parts, or deeper than {MAX_IN_PLACE_DEPTH} levels, for a single value; \
         its references multiply"
    )]
    Unfolds,
    #[error("is not a valid JSON Schema: {0}")]
    Invalid(String),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValidationError {
    /// Problems of the value, one sentence each; not empty.
    #[error("{}", .0.join("; "))]
    DoesNotFit(Vec<String>),
    /// The steps were exhausted or the recursion became too deep; the validity is unknown.
    #[error("the value is too large or too deeply nested to be validated")]
    TooCostly,
}
