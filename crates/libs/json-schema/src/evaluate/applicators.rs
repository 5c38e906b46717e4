//! Keywords that apply subschemas: to the value itself, to its items and members, and to unevaluated ones.

use serde_json::{Map, Value};

use super::assertions::has_type;
use super::evaluation::{At, Evaluation, Exhausted, MAX_DEPTH, Verdict};
use super::path::Path;

impl<'s> Evaluation<'s> {
    pub(super) fn fits(&mut self, schema: &'s Value, value: &Value, at: At<'_>) -> Verdict {
        self.spend(1)?;
        let keywords = match schema {
            Value::Object(keywords) => keywords,
            Value::Bool(false) => return self.fails(at, || "nothing is allowed here".to_owned()),
            _ => return Ok(true),
        };
        if self.depth >= MAX_DEPTH {
            return Err(Exhausted);
        }
        self.depth += 1;
        let verdict = self.all_keywords(keywords, value, at);
        self.depth -= 1;
        verdict
    }

    fn all_keywords(&mut self, keywords: &'s Map<String, Value>, value: &Value, at: At<'_>) -> Verdict {
        if self.schema.ref_overrides_siblings()
            && let Some(reference) = keywords.get("$ref")
        {
            return self.reference(reference, value, at);
        }
        let mut fits = true;
        for (keyword, argument) in keywords {
            self.spend(1)?;
            fits &= self.keyword(keywords, keyword, argument, value, at)?;
            if !fits && !self.should_continue(at) {
                return Ok(false);
            }
        }
        Ok(fits)
    }

    fn keyword(
        &mut self,
        keywords: &'s Map<String, Value>,
        keyword: &'s str,
        argument: &'s Value,
        value: &Value,
        at: At<'_>,
    ) -> Verdict {
        match (keyword, value) {
            ("$ref", _) => self.reference(argument, value, at),
            ("allOf", _) => self.all(argument, value, at),
            ("anyOf", _) => self.any(argument, value, at),
            ("oneOf", _) => self.one(argument, value, at),
            ("not", _) => match self.fits(argument, value, at.silent())? {
                true => self.fails(at, || "must not fit what `not` excludes".to_owned()),
                false => Ok(true),
            },
            ("if", _) => {
                let branch = if self.fits(argument, value, at.silent())? { "then" } else { "else" };
                match keywords.get(branch) {
                    Some(branch) => self.fits(branch, value, at),
                    None => Ok(true),
                }
            }
            ("type" | "enum" | "const", _) => self.asserts_any(keyword, argument, value, at),
            (_, Value::Number(number)) => self.asserts_number(keywords, keyword, argument, number, at),
            (_, Value::String(text)) => self.asserts_string(keyword, argument, text, at),
            (_, Value::Array(items)) => self.asserts_array(keywords, keyword, argument, items, value, at),
            (_, Value::Object(members)) => self.asserts_object(keywords, keyword, argument, members, value, at),
            (_, Value::Null | Value::Bool(_)) => Ok(true),
        }
    }

    /// Evaluates a reference. In an unchecked trusted schema, it may be unresolvable; then nothing is asserted.
    fn reference(&mut self, reference: &'s Value, value: &Value, at: At<'_>) -> Verdict {
        let Some(reference) = reference.as_str() else { return Ok(true) };
        self.spend(1 + reference.len() as u64 / 16)?;
        match self.schema.resolve(reference) {
            Some(target) => self.fits(target, value, at),
            None => Ok(true),
        }
    }

    fn all(&mut self, parts: &'s Value, value: &Value, at: At<'_>) -> Verdict {
        let mut fits = true;
        for part in parts.as_array().into_iter().flatten() {
            fits &= self.fits(part, value, at)?;
            if !fits && !self.should_continue(at) {
                return Ok(false);
            }
        }
        Ok(fits)
    }

    fn any(&mut self, parts: &'s Value, value: &Value, at: At<'_>) -> Verdict {
        let Some(parts) = parts.as_array() else { return Ok(true) };
        for part in parts {
            if self.fits(part, value, at.silent())? {
                return Ok(true);
            }
        }
        self.report_alternatives(parts, value, at)
    }

    fn one(&mut self, parts: &'s Value, value: &Value, at: At<'_>) -> Verdict {
        let Some(parts) = parts.as_array() else { return Ok(true) };
        let mut fitting = 0;
        for part in parts {
            fitting += usize::from(self.fits(part, value, at.silent())?);
            if fitting > 1 {
                return self.fails(at, || "fits more than one of the alternatives in `oneOf`".to_owned());
            }
        }
        if fitting == 1 { Ok(true) } else { self.report_alternatives(parts, value, at) }
    }

    /// Reports the mismatch of all alternatives. If only one alternative has the value's type (others are `null`, for
    /// example), its problems are reported.
    fn report_alternatives(&mut self, parts: &'s [Value], value: &Value, at: At<'_>) -> Verdict {
        if !at.tells {
            return Ok(false);
        }
        let mut of_its_type = parts.iter().filter(|part| match part.get("type") {
            Some(types) => has_type(types, value),
            None => !part.is_boolean(),
        });
        match (of_its_type.next(), of_its_type.next()) {
            (Some(part), None) => self.fits(part, value, at),
            _ => self.fails(at, || "fits none of the alternatives".to_owned()),
        }
    }
}

/// Keywords for arrays.
impl<'s> Evaluation<'s> {
    fn asserts_array(
        &mut self,
        keywords: &'s Map<String, Value>,
        keyword: &str,
        argument: &'s Value,
        items: &[Value],
        value: &Value,
        at: At<'_>,
    ) -> Verdict {
        match keyword {
            "minItems" | "maxItems" => self.bounds(keyword == "minItems", argument, items.len(), "items", at),
            "uniqueItems" if *argument == Value::Bool(true) => self.asserts_unique(items, value, at),
            "prefixItems" => self.items_in_order(argument, items, at),
            "items" => match argument {
                Value::Array(_) => self.items_in_order(argument, items, at),
                _ => self.items_from(prefix_length(keywords), argument, items, at),
            },
            "additionalItems" => match keywords.get("items") {
                Some(Value::Array(first)) => self.items_from(first.len(), argument, items, at),
                _ => Ok(true),
            },
            "contains" => self.contains(keywords, argument, items, at),
            "unevaluatedItems" => self.unevaluated(keywords, "unevaluatedItems", argument, value, at),
            _ => Ok(true),
        }
    }

    fn items_in_order(&mut self, schemas: &'s Value, items: &[Value], at: At<'_>) -> Verdict {
        let mut fits = true;
        for (index, (schema, item)) in schemas.as_array().into_iter().flatten().zip(items).enumerate() {
            let inside = At { path: Path::Item(&at.path, index), ..at };
            fits &= self.fits(schema, item, inside)?;
            if !fits && !self.should_continue(at) {
                return Ok(false);
            }
        }
        Ok(fits)
    }

    fn items_from(&mut self, first: usize, schema: &'s Value, items: &[Value], at: At<'_>) -> Verdict {
        let mut fits = true;
        for (index, item) in items.iter().enumerate().skip(first) {
            let inside = At { path: Path::Item(&at.path, index), ..at };
            fits &= self.fits(schema, item, inside)?;
            if !fits && !self.should_continue(at) {
                return Ok(false);
            }
        }
        Ok(fits)
    }

    fn contains(
        &mut self,
        keywords: &'s Map<String, Value>,
        schema: &'s Value,
        items: &[Value],
        at: At<'_>,
    ) -> Verdict {
        let mut count = 0;
        for item in items {
            count += usize::from(self.fits(schema, item, at.silent())?);
        }
        let one = Value::from(1);
        let unit = "items that fit `contains`";
        let enough = self.bounds(true, keywords.get("minContains").unwrap_or(&one), count, unit, at)?;
        let few = match keywords.get("maxContains") {
            Some(most) => self.bounds(false, most, count, unit, at)?,
            None => true,
        };
        Ok(enough && few)
    }
}

/// Keywords for objects.
impl<'s> Evaluation<'s> {
    fn asserts_object(
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
                if !self.should_continue(at) {
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
            if !fits && !self.should_continue(at) {
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
                    if !fits && !self.should_continue(at) {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(fits)
    }

    /// Matches a member name against a pattern. A pattern that is not asserted matches no name.
    fn matches_name(&mut self, pattern: &'s str, name: &str) -> Verdict {
        let matches = self.matches(pattern, name)?;
        Ok(matches && self.patterns.get(pattern).is_some_and(Option::is_some))
    }

    /// Whether a member is described by `properties` or `patternProperties`. A member that may match a pattern that is
    /// not asserted counts as described, so it is not rejected as additional.
    fn is_described(&mut self, keywords: &'s Map<String, Value>, name: &str) -> Verdict {
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
            if !fits && !self.should_continue(at) {
                return Ok(false);
            }
        }
        Ok(fits)
    }

    fn unexpected_or_fits(&mut self, schema: &'s Value, name: &str, member: &Value, at: At<'_>) -> Verdict {
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
            if !fits && !self.should_continue(at) {
                return Ok(false);
            }
        }
        Ok(fits)
    }
}

/// `unevaluatedProperties` and `unevaluatedItems`: parts that no other keyword evaluated, in the schema and in its
/// in-place subschemas.
impl<'s> Evaluation<'s> {
    fn unevaluated(
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
                    if !fits && !self.should_continue(at) {
                        return Ok(false);
                    }
                }
            }
            Value::Array(items) => {
                for ((index, item), _) in items.iter().enumerate().zip(&seen).filter(|(_, seen)| !**seen) {
                    fits &= self.fits(schema, item, At { path: Path::Item(&at.path, index), ..at })?;
                    if !fits && !self.should_continue(at) {
                        return Ok(false);
                    }
                }
            }
            _ => {}
        }
        Ok(fits)
    }

    /// Marks the parts that a schema evaluates, if the value is valid.
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
        // A value that is invalid for these fails elsewhere, regardless of the marks.
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

/// Returns the number of leading items with their own schemas.
fn prefix_length(keywords: &Map<String, Value>) -> usize {
    keywords.get("prefixItems").and_then(Value::as_array).map_or(0, Vec::len)
}
