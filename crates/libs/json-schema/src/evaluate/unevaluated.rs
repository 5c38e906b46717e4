//! `unevaluatedProperties` and `unevaluatedItems`: what no other keyword was about, in the schema and in what it
//! applies in place.

use serde_json::{Map, Value};

use super::assertions::prefix_length;
use super::path::Path;
use super::{At, Evaluation, Exhausted, MAX_DEPTH, Verdict};

impl<'s> Evaluation<'s> {
    pub(super) fn unevaluated(
        &mut self,
        keywords: &'s Map<String, Value>,
        keyword: &'static str,
        schema: &'s Value,
        value: &Value,
        at: At<'_>,
    ) -> Verdict {
        let length = value.as_array().map_or_else(|| value.as_object().map_or(0, Map::len), Vec::len);
        self.spend(length as u64)?;
        let mut seen = vec![false; length];
        self.mark_by_keywords(keywords, Some(keyword), value, &mut seen)?;
        let mut fits = true;
        match value {
            Value::Object(members) => {
                for ((name, member), _) in members.iter().zip(&seen).filter(|(_, seen)| !**seen) {
                    fits &= self.unexpected_or_fits(schema, name, member, at)?;
                    if !fits && !self.goes_on(at) {
                        return Ok(false);
                    }
                }
            }
            Value::Array(items) => {
                for ((index, item), _) in items.iter().enumerate().zip(&seen).filter(|(_, seen)| !**seen) {
                    fits &= self.fits(schema, item, At { path: Path::Item(&at.path, index), ..at })?;
                    if !fits && !self.goes_on(at) {
                        return Ok(false);
                    }
                }
            }
            _ => {}
        }
        Ok(fits)
    }

    /// Marks what a schema is about, if the value fits it.
    fn mark_if_fits(&mut self, schema: &'s Value, value: &Value, seen: &mut [bool]) -> Verdict {
        let fits = self.fits(schema, value, At { path: Path::Root, tells: false })?;
        if fits {
            self.mark(schema, value, seen)?;
        }
        Ok(fits)
    }

    fn mark(&mut self, schema: &'s Value, value: &Value, seen: &mut [bool]) -> Result<(), Exhausted> {
        let Value::Object(keywords) = schema else { return Ok(()) };
        if self.depth >= MAX_DEPTH {
            return Err(Exhausted);
        }
        self.depth += 1;
        let marked = self.mark_by_keywords(keywords, None, value, seen);
        self.depth -= 1;
        marked
    }

    fn mark_by_keywords(
        &mut self,
        keywords: &'s Map<String, Value>,
        leave_out: Option<&str>,
        value: &Value,
        seen: &mut [bool],
    ) -> Result<(), Exhausted> {
        match value {
            Value::Object(members) => self.mark_members(keywords, leave_out, members, seen)?,
            Value::Array(items) => self.mark_items(keywords, leave_out, items, seen)?,
            _ => return Ok(()),
        }
        self.spend(keywords.len() as u64)?;
        // What does not fit these fails elsewhere, whatever is marked here.
        for part in keywords.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            self.mark(part, value, seen)?;
        }
        if let Some(reference) = keywords.get("$ref").and_then(Value::as_str) {
            self.spend(1 + reference.len() as u64 / 16)?;
            if let Some(target) = self.schema.resolve(reference) {
                self.mark(target, value, seen)?;
            }
        }
        for keyword in ["anyOf", "oneOf"] {
            for part in keywords.get(keyword).and_then(Value::as_array).into_iter().flatten() {
                self.mark_if_fits(part, value, seen)?;
            }
        }
        if let Some(condition) = keywords.get("if") {
            let branch = if self.mark_if_fits(condition, value, seen)? { "then" } else { "else" };
            if let Some(branch) = keywords.get(branch) {
                self.mark(branch, value, seen)?;
            }
        }
        if let (Some(Value::Object(dependencies)), Value::Object(members)) = (keywords.get("dependentSchemas"), value) {
            for (name, dependency) in dependencies {
                self.spend(1)?;
                if members.contains_key(name) {
                    self.mark(dependency, value, seen)?;
                }
            }
        }
        Ok(())
    }

    fn mark_members(
        &mut self,
        keywords: &'s Map<String, Value>,
        leave_out: Option<&str>,
        members: &Map<String, Value>,
        seen: &mut [bool],
    ) -> Result<(), Exhausted> {
        self.spend(seen.len() as u64)?;
        let takes_all = |keyword: &str| leave_out != Some(keyword) && keywords.contains_key(keyword);
        if takes_all("additionalProperties") || takes_all("unevaluatedProperties") {
            seen.fill(true);
            return Ok(());
        }
        for (name, seen) in members.keys().zip(seen).filter(|(_, seen)| !**seen) {
            *seen = self.is_described(keywords, name)?;
        }
        Ok(())
    }

    fn mark_items(
        &mut self,
        keywords: &'s Map<String, Value>,
        leave_out: Option<&str>,
        items: &[Value],
        seen: &mut [bool],
    ) -> Result<(), Exhausted> {
        self.spend(seen.len() as u64)?;
        let takes_all = |keyword: &str| leave_out != Some(keyword) && keywords.contains_key(keyword);
        let first = match keywords.get("items") {
            Some(Value::Array(first)) if !keywords.contains_key("additionalItems") => first.len(),
            Some(_) => items.len(),
            None if takes_all("unevaluatedItems") => items.len(),
            None => prefix_length(keywords),
        };
        seen.iter_mut().take(first).for_each(|seen| *seen = true);
        if let Some(schema) = keywords.get("contains") {
            for (item, seen) in items.iter().zip(seen).filter(|(_, seen)| !**seen) {
                *seen = self.fits(schema, item, At { path: Path::Root, tells: false })?;
            }
        }
        Ok(())
    }
}
