//! Why a schema is not taken over, and why a value does not fit one.

/// A schema is part of every prompt.
pub const MAX_SCHEMA_BYTES: usize = 64 * 1024;
/// What one schema may apply to one value, with its references unfolded.
pub(super) const MAX_UNFOLDED: u64 = 10_000;
/// How deep those may be nested.
pub(super) const MAX_IN_PLACE_DEPTH: usize = 64;

/// Each text completes a sentence that begins with what the schema is of.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    #[error("must be at most {MAX_SCHEMA_BYTES} bytes of JSON")]
    TooLong,
    #[error("refers to another document, and none is fetched; put what it needs into its own `$defs`")]
    RefersOutside,
    #[error("refers to `{0}`, which is not in it")]
    NothingThere(String),
    #[error("uses `{0}`, which is not supported; refer to its parts by JSON pointers such as `#/$defs/name`")]
    NotSupported(String),
    #[error("refers to itself without end")]
    Endless,
    #[error(
        "unfolds to more than {MAX_UNFOLDED} parts, or deeper than {MAX_IN_PLACE_DEPTH} levels, for a single value; \
         its references multiply"
    )]
    Unfolds,
    #[error("is no valid JSON Schema: {0}")]
    Invalid(String),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValidationError {
    /// What does not fit, a sentence each; not empty.
    #[error("{}", .0.join("; "))]
    DoesNotFit(Vec<String>),
    /// The steps were used up, or the recursion became too deep: nothing is known of the value.
    #[error("it is too large or nested too deeply to be validated")]
    TooCostly,
}
