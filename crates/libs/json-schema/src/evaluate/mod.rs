//! Evaluation of a value with bounded steps.

mod applicators;
mod assertions;
mod evaluation;
mod path;

use serde_json::Value;

use self::evaluation::{At, Evaluation, Exhausted};
use self::path::Path;
use super::error::ValidationError;
use super::schema::Schema;

impl Schema {
    /// Validates `value` in at most `steps` steps.
    ///
    /// # Errors
    /// Returns up to five problems, or an error if the steps did not suffice.
    pub fn validate(&self, value: &Value, steps: u64) -> Result<(), ValidationError> {
        let problems = Evaluation::new(self, steps).problems(value).map_err(|_| ValidationError::TooCostly)?;
        if problems.is_empty() { Ok(()) } else { Err(ValidationError::DoesNotFit(problems)) }
    }
}

impl Evaluation<'_> {
    /// Returns the problems; empty if the value is valid.
    fn problems(mut self, value: &Value) -> Result<Vec<String>, Exhausted> {
        let at = At { path: Path::Root, tells: true };
        let fits = self.fits(self.schema.value(), value, at)?;
        if !fits && self.problems.is_empty() {
            self.problems.push("it does not fit".to_owned());
        }
        Ok(self.problems)
    }
}
