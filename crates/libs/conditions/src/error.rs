//! Errors of compiling and evaluating conditions.

/// Maximum length of a condition, in characters.
pub(crate) const MAX_CHARACTERS: usize = 1_000;
/// Maximum number of operators, names and values.
pub(crate) const MAX_NODES: usize = 400;
/// Maximum length of a parser message.
const MESSAGE_CHARACTERS: usize = 300;

/// Reason why a condition is rejected or could not be evaluated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConditionError {
    #[error("the expression is empty; enter one that evaluates to true or false")]
    Empty,
    #[error("the expression has {characters} characters; {MAX_CHARACTERS} are allowed")]
    TooLong { characters: usize },
    #[error("the expression is not valid CEL: {message}")]
    Syntax { message: String },
    #[error(
        "the expression is too large: at most {MAX_NODES} operators, names and values, and no loops over the results of loops"
    )]
    TooLarge,
    #[error("unknown variable `{name}`; available variables: {known}")]
    UnknownVariable { name: String, known: String },
    #[error("the expression evaluates to {found}; it must evaluate to true or false")]
    NotBoolean { found: String },
    #[error("the expression cannot be evaluated: {message}")]
    Evaluation { message: String },
}

/// Reduces a message to one line of bounded length.
pub(crate) fn shorten(message: &str) -> String {
    message.lines().next().unwrap_or_default().chars().take(MESSAGE_CHARACTERS).collect()
}
