//! Creation of a registration from a catalog entry and the owner's values.

use std::path::Path;

use agentd_base::{FieldProblem, Problems, Secret};
use serde_json::{Map, Value};

use super::{
    CatalogEntry, EntryTransport, EnvironmentValue, EnvironmentVariable, Registration, RegistrationTransport,
    ValueKind, ValuePlace, ValueSpec,
};

const MAX_PATHS: usize = 32;
const MAX_TEXT: usize = 4_096;

impl CatalogEntry {
    /// Creates a registration. `values` contains a string, a list of strings or a boolean for each name in
    /// [`CatalogEntry::values`]. `program` is the path of the installed program, if the entry's package runner should
    /// not be used.
    ///
    /// # Errors
    /// Returns every missing, unknown or invalid value. No message contains a value.
    pub fn instantiate(
        &self,
        values: &Map<String, Value>,
        program: Option<&str>,
    ) -> Result<Registration, Vec<FieldProblem>> {
        let mut problems = Problems::new();
        for name in values.keys().filter(|name| !self.values.iter().any(|spec| spec.name == name.as_str())) {
            let known: Vec<_> = self.values.iter().map(|spec| spec.name).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            problems.add(format!("values.{name}"), format!("is not a value of this entry; known values: {known}"));
        }
        let mut placement = Placement::default();
        for spec in self.values {
            match values.get(spec.name).filter(|value| !value.is_null()) {
                None => problems.require(!spec.required, &format!("values.{}", spec.name), "is required"),
                Some(value) => match to_texts(spec.kind, value) {
                    Ok(texts) => placement.place(spec, texts),
                    Err(problem) => problems.add(format!("values.{}", spec.name), problem),
                },
            }
        }
        let transport = match self.transport {
            EntryTransport::Stdio { runner, package, version, .. } => {
                let (command, mut arguments) = match program {
                    Some(program) => {
                        if let Err(problem) = validate_path(program) {
                            problems.add("program", problem);
                        }
                        (program.to_owned(), Vec::new())
                    }
                    None => (runner.command().to_owned(), runner.arguments(package, version)),
                };
                arguments.extend(placement.arguments);
                RegistrationTransport::Stdio { command, arguments, environment: placement.environment }
            }
            EntryTransport::Http { url } => {
                problems.require(
                    program.is_none(),
                    "program",
                    "is not valid for this server, which is reached over HTTP",
                );
                RegistrationTransport::Http { url: url.to_owned(), headers: placement.headers }
            }
        };
        problems.into_result()?;
        Ok(Registration { name: self.name.to_owned(), transport })
    }
}

#[derive(Default)]
struct Placement {
    arguments: Vec<String>,
    environment: Vec<EnvironmentVariable>,
    headers: Vec<(String, Secret)>,
}

impl Placement {
    fn place(&mut self, spec: &ValueSpec, texts: Vec<String>) {
        match spec.place {
            ValuePlace::Argument => self.arguments.extend(texts),
            ValuePlace::Option(option) if spec.kind == ValueKind::Flag => {
                self.arguments.extend(texts.iter().map(|_| option.to_owned()));
            }
            ValuePlace::Option(option) => {
                self.arguments.extend(texts.into_iter().flat_map(|text| [option.to_owned(), text]));
            }
            ValuePlace::Environment(name) => self.environment.extend(texts.into_iter().map(|text| {
                let value = match spec.is_secret() {
                    true => EnvironmentValue::Secret(Secret::new(text)),
                    false => EnvironmentValue::Plain(text),
                };
                EnvironmentVariable { name: name.to_owned(), value }
            })),
            ValuePlace::Header { name, prefix } => {
                let header = |text| (name.to_owned(), Secret::new(format!("{prefix}{text}")));
                self.headers.extend(texts.into_iter().map(header));
            }
        }
    }
}

/// Converts a value to texts; none for a flag that is off.
fn to_texts(kind: ValueKind, value: &Value) -> Result<Vec<String>, String> {
    let text = || value.as_str().ok_or("must be a string".to_owned());
    match kind {
        ValueKind::Flag => match value {
            Value::Bool(on) => Ok(if *on { vec![String::new()] } else { Vec::new() }),
            _ => Err("must be true or false".to_owned()),
        },
        ValueKind::Path => validate_path(text()?).map(|path| vec![path]),
        ValueKind::Paths => {
            let paths: Vec<&Value> = match value {
                Value::Array(paths) => paths.iter().collect(),
                one => vec![one],
            };
            if paths.is_empty() || paths.len() > MAX_PATHS {
                return Err(format!("must be 1 to {MAX_PATHS} paths"));
            }
            paths.into_iter().map(|one| validate_path(one.as_str().ok_or("must be a list of strings")?)).collect()
        }
        ValueKind::TimeZone => {
            let zone = text()?;
            let is_name = zone.starts_with(|first: char| first.is_ascii_alphabetic())
                && zone.len() <= 64
                && zone.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_+-/".contains(&byte));
            if is_name {
                Ok(vec![zone.to_owned()])
            } else {
                Err("must be an IANA time zone name such as Europe/Berlin".to_owned())
            }
        }
        ValueKind::Secret => {
            let secret = text()?;
            let fits =
                !secret.is_empty() && secret.len() <= MAX_TEXT && secret.bytes().all(|byte| byte.is_ascii_graphic());
            if fits { Ok(vec![secret.to_owned()]) } else { Err("must be printable ASCII without spaces".to_owned()) }
        }
    }
}

/// Validates a path; a valid one cannot be mistaken for an option.
fn validate_path(text: &str) -> Result<String, String> {
    if !Path::new(text).is_absolute() {
        return Err("must be an absolute path".to_owned());
    }
    if text.len() > MAX_TEXT || text.chars().any(char::is_control) {
        return Err(format!("must be at most {MAX_TEXT} bytes without control characters"));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::{catalog, find_entry};
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn instantiate(id: &str, values: Value) -> Result<Registration, Vec<FieldProblem>> {
        let values = values.as_object().expect("an object").clone();
        find_entry(id).expect("an entry").instantiate(&values, None)
    }

    fn command_line(registration: &Registration) -> String {
        match &registration.transport {
            RegistrationTransport::Stdio { command, arguments, .. } => format!("{command} {}", arguments.join(" ")),
            RegistrationTransport::Http { url, .. } => url.clone(),
        }
    }

    #[test]
    fn values_are_placed_as_the_entry_specifies() {
        let filesystem = instantiate("filesystem", json!({ "directories": ["/a", "/b c"] })).expect("a registration");
        let line = command_line(&filesystem);
        assert!(line.starts_with("npx --yes @modelcontextprotocol/server-filesystem@"), "{line}");
        assert!(line.ends_with(" /a /b c"), "{line}");

        let time = instantiate("time", json!({ "local_timezone": "Europe/Berlin" })).expect("a registration");
        let line = command_line(&time);
        assert!(line.starts_with("uvx mcp-server-time@") && line.ends_with("--local-timezone Europe/Berlin"), "{line}");

        let notion = instantiate("notion", json!({ "token": "ntn_0123" })).expect("a registration");
        let RegistrationTransport::Stdio { environment, .. } = &notion.transport else { panic!("not a program") };
        assert_eq!(environment[0].name, "NOTION_TOKEN");
        assert!(matches!(&environment[0].value, EnvironmentValue::Secret(token) if token.expose() == "ntn_0123"));
        assert!(!format!("{notion:?}").contains("ntn_0123"));

        let github = instantiate("github", json!({ "token": "ghp_0123" })).expect("a registration");
        let RegistrationTransport::Http { headers, .. } = &github.transport else { panic!("not over HTTP") };
        assert_eq!((headers[0].0.as_str(), headers[0].1.expose()), ("Authorization", "Bearer ghp_0123"));
    }

    #[test]
    fn installed_program_replaces_the_runner() {
        let entry = find_entry("memory").expect("an entry");
        let values = json!({ "memory_file": "/data/memory.jsonl" });
        let registration = entry.instantiate(values.as_object().expect("an object"), Some("/opt/mcp-server-memory"));
        assert_eq!(command_line(&registration.expect("a registration")).trim(), "/opt/mcp-server-memory");
        let refused = entry.instantiate(&Map::new(), Some("mcp-server-memory")).expect_err("a relative path");
        assert_eq!(refused[0].field, "program");
    }

    #[test]
    fn all_problems_are_reported_together() {
        let problems = instantiate("filesystem", json!({ "directory": "/a" })).expect_err("two problems");
        let fields: Vec<_> = problems.iter().map(|problem| problem.field.as_str()).collect();
        assert_eq!(fields, ["values.directory", "values.directories"]);
        for (id, values) in [
            ("filesystem", json!({ "directories": [] })),
            ("filesystem", json!({ "directories": ["--help"] })),
            ("filesystem", json!({ "directories": ["relative"] })),
            ("filesystem", json!({ "directories": [7] })),
            ("git", json!({ "repository": "/a\n/b" })),
            ("time", json!({ "local_timezone": "--help" })),
            ("notion", json!({ "token": "a b" })),
            ("notion", json!({ "token": "" })),
            ("fetch", json!({ "ignore_robots_txt": "yes" })),
        ] {
            assert_eq!(instantiate(id, values.clone()).expect_err("a problem").len(), 1, "{id} {values}");
        }
    }

    #[test]
    fn flag_is_present_only_if_true() {
        let on = command_line(&instantiate("fetch", json!({ "ignore_robots_txt": true })).expect("a registration"));
        assert!(on.ends_with("--ignore-robots-txt"), "{on}");
        let off = command_line(&instantiate("fetch", json!({ "ignore_robots_txt": false })).expect("a registration"));
        assert!(!off.contains("robots"), "{off}");
    }

    #[test]
    fn entries_are_consistent() {
        let mut ids = std::collections::HashSet::new();
        for entry in catalog() {
            assert!(ids.insert(entry.id), "{} is there twice", entry.id);
            assert!(entry.homepage.starts_with("https://"), "{}", entry.id);
            assert!(entry.description.ends_with('.'), "{}", entry.id);
            let over_http = matches!(entry.transport, EntryTransport::Http { .. });
            for spec in entry.values {
                let is_header = matches!(spec.place, ValuePlace::Header { .. });
                assert_eq!(is_header, over_http, "{} {}", entry.id, spec.name);
                let is_argument = matches!(spec.place, ValuePlace::Argument | ValuePlace::Option(_));
                assert!(!(spec.is_secret() && is_argument), "{}: arguments can be seen by others", entry.id);
                let may_be_switch = matches!(spec.place, ValuePlace::Option(_));
                assert!(spec.kind != ValueKind::Flag || may_be_switch, "{} {}", entry.id, spec.name);
            }
            if let EntryTransport::Stdio { version, .. } = entry.transport {
                assert!(version.starts_with(|first: char| first.is_ascii_digit()), "{}", entry.id);
            }
        }
        assert!(catalog().len() >= 12);
    }

    proptest! {
        #[test]
        fn values_never_become_options_or_panic(text in "\\PC{0,20}|-{1,2}[a-z]{1,8}|/[a-z -]{0,12}") {
            for entry in catalog() {
                let values = entry.values.iter().map(|spec| (spec.name.to_owned(), Value::from(text.clone()))).collect();
                let Ok(registration) = entry.instantiate(&values, None) else { continue };
                if let RegistrationTransport::Stdio { arguments, .. } = registration.transport {
                    prop_assert!(!arguments.contains(&text) || !text.starts_with('-'));
                }
            }
        }
    }
}
