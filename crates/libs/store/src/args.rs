//! Statement text and parameters.

use std::borrow::Cow;

use crate::StoreError;
use crate::value::{IntoValue, Value};

/// Text of one statement, with `$1` parameters. Text that is assembled at run time must consist of program constants
/// only; every external value is a parameter.
#[derive(Debug, Clone)]
pub struct Sql(pub(crate) Cow<'static, str>);

impl From<&'static str> for Sql {
    fn from(text: &'static str) -> Self {
        Self(Cow::Borrowed(text))
    }
}

impl From<String> for Sql {
    fn from(text: String) -> Self {
        Self(Cow::Owned(text))
    }
}

/// Statement parameters in order, `$1` first; created by [`args!`](crate::args). A value that cannot be stored is
/// reported when the statement runs.
#[derive(Debug, Clone, Default)]
pub struct Args {
    values: Vec<Value>,
    refused: Option<StoreError>,
}

impl Args {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self { values: Vec::with_capacity(capacity), refused: None }
    }

    /// Adds the next parameter and returns its number, for statements assembled at run time.
    pub fn push(&mut self, value: impl IntoValue) -> usize {
        let position = self.values.len() + 1;
        match value.into_value() {
            Ok(value) => self.values.push(value),
            Err(source) => {
                self.values.push(Value::Null(crate::Kind::Text));
                self.refused.get_or_insert(StoreError::Argument { position, source });
            }
        }
        position
    }

    /// Appends the parameters of another part of the statement.
    pub fn append(&mut self, other: Self) {
        self.values.extend(other.values);
        self.refused = self.refused.take().or(other.refused);
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    pub(crate) fn into_values(self) -> Result<Vec<Value>, StoreError> {
        match self.refused {
            Some(error) => Err(error),
            None => Ok(self.values),
        }
    }
}

/// Builds the parameters of a statement: `args![id, &name, created_at]`.
#[macro_export]
macro_rules! args {
    () => { $crate::Args::new() };
    ($($value:expr),+ $(,)?) => {{
        let mut args = $crate::Args::new();
        $( args.push($value); )+
        args
    }};
}
