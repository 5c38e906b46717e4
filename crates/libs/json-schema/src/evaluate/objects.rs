//! Keywords of objects.

use serde_json::{Map, Value};

use super::path::Path;
use super::{At, Evaluation, Verdict};

impl<'s> Evaluation<'s> {
    pub(super) fn asserts_object(
        &mut self,
        keywords: &'s Map<String, Value>,
        keyword: &str,
        argument: &'s Value,
        members: &Map<String, Value>,
        value: &Value,
        at: At<'_>,
    ) -> Verdict {
        match (keyword, argument) {
            ("minProperties" | "maxProperties", _) => {
                self.bounds(keyword == "minProperties", argument, members.len(), "members", at)
            }
            ("required", Value::Array(names)) => self.requires(names, members, at),
            ("properties", Value::Object(schemas)) => self.named_members(schemas, members, at),
            ("patternProperties", Value::Object(schemas)) => self.matching_members(schemas, members, at),
            ("additionalProperties", _) => self.other_members(keywords, argument, members, at),
            ("propertyNames", _) => {
                for name in members.keys() {
                    self.spend(1 + name.len() as u64 / 64)?;
                    if !self.fits(argument, &Value::from(name.as_str()), at.silent())? {
                        return self.fails(at, || format!("the name `{name}` is not allowed"));
                    }
                }
                Ok(true)
            }
            ("dependentRequired" | "dependentSchemas" | "dependencies", Value::Object(dependencies)) => {
                self.dependencies(dependencies, members, value, at)
            }
            ("unevaluatedProperties", _) => self.unevaluated(keywords, "unevaluatedProperties", argument, value, at),
            _ => Ok(true),
        }
    }

    fn requires(&mut self, names: &[Value], members: &Map<String, Value>, at: At<'_>) -> Verdict {
        self.spend(names.len() as u64)?;
        let mut fits = true;
        for name in names.iter().filter_map(Value::as_str) {
            if !members.contains_key(name) {
                fits = self.fails(at, || format!("`{name}` is required"))?;
                if !self.goes_on(at) {
                    return Ok(false);
                }
            }
        }
        Ok(fits)
    }

    fn named_members(&mut self, schemas: &'s Map<String, Value>, members: &Map<String, Value>, at: At<'_>) -> Verdict {
        let mut fits = true;
        for (name, member) in members {
            self.spend(1)?;
            let Some(schema) = schemas.get(name) else { continue };
            fits &= self.fits(schema, member, At { path: Path::Member(&at.path, name), ..at })?;
            if !fits && !self.goes_on(at) {
                return Ok(false);
            }
        }
        Ok(fits)
    }

    fn matching_members(
        &mut self,
        schemas: &'s Map<String, Value>,
        members: &Map<String, Value>,
        at: At<'_>,
    ) -> Verdict {
        let mut fits = true;
        for (pattern, schema) in schemas {
            for (name, member) in members {
                if self.matches_name(pattern, name)? {
                    fits &= self.fits(schema, member, At { path: Path::Member(&at.path, name), ..at })?;
                    if !fits && !self.goes_on(at) {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(fits)
    }

    /// A name does not match a pattern that is not asserted: nothing is asked of the member then.
    pub(super) fn matches_name(&mut self, pattern: &'s str, name: &str) -> Verdict {
        let matches = self.matches(pattern, name)?;
        Ok(matches && self.patterns.get(pattern).is_some_and(Option::is_some))
    }

    /// Whether `properties` or `patternProperties` is about a member. One that a pattern which is not asserted may be
    /// about counts as such: it is not held against the rest.
    pub(super) fn is_described(&mut self, keywords: &'s Map<String, Value>, name: &str) -> Verdict {
        self.spend(1)?;
        if keywords.get("properties").and_then(Value::as_object).is_some_and(|names| names.contains_key(name)) {
            return Ok(true);
        }
        for pattern in keywords.get("patternProperties").and_then(Value::as_object).into_iter().flat_map(Map::keys) {
            if self.matches(pattern, name)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn other_members(
        &mut self,
        keywords: &'s Map<String, Value>,
        schema: &'s Value,
        members: &Map<String, Value>,
        at: At<'_>,
    ) -> Verdict {
        let mut fits = true;
        for (name, member) in members {
            if self.is_described(keywords, name)? {
                continue;
            }
            fits &= self.unexpected_or_fits(schema, name, member, at)?;
            if !fits && !self.goes_on(at) {
                return Ok(false);
            }
        }
        Ok(fits)
    }

    pub(super) fn unexpected_or_fits(&mut self, schema: &'s Value, name: &str, member: &Value, at: At<'_>) -> Verdict {
        if *schema == Value::Bool(false) {
            return self.fails(at, || format!("`{name}` is unexpected"));
        }
        self.fits(schema, member, At { path: Path::Member(&at.path, name), ..at })
    }

    fn dependencies(
        &mut self,
        dependencies: &'s Map<String, Value>,
        members: &Map<String, Value>,
        value: &Value,
        at: At<'_>,
    ) -> Verdict {
        let mut fits = true;
        for (name, dependency) in dependencies {
            self.spend(1)?;
            if !members.contains_key(name) {
                continue;
            }
            fits &= match dependency {
                Value::Array(names) => self.requires(names, members, at)?,
                schema => self.fits(schema, value, at)?,
            };
            if !fits && !self.goes_on(at) {
                return Ok(false);
            }
        }
        Ok(fits)
    }
}
