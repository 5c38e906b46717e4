//! Installs entries of the catalog as registrations.

use std::path::{Component, Path};

use agentd_base::{Problems, SecretUpdate};
use agentd_mcp::catalog::{
    CatalogEntry, EntryTransport, EnvironmentValue, Registration, RegistrationTransport, ValueKind, find_entry,
};
use agentd_store::Recorder;
use serde_json::{Map, Value};

use super::change::ToolServerChange;
use super::change::TransportKind;
use super::error::ToolServerError;
use super::model::ToolServer;
use super::service::ToolServers;
use super::state::ToolServerState;

/// Options of the owner for the installation of an entry.
#[derive(Debug, Clone, Default)]
pub struct Installation {
    /// Values by the names that the entry defines.
    pub values: Map<String, Value>,
    /// Name. Default: the entry's name.
    pub name: Option<String>,
    /// Program that is already installed, instead of a download by the package runner.
    pub program: Option<String>,
    /// Network access. Default: granted if the server needs it or its package must be downloaded.
    pub network: Option<bool>,
    pub readable_paths: Option<Vec<String>>,
    /// Writable paths in addition to the folders among the values.
    pub writable_paths: Option<Vec<String>>,
    pub enabled: Option<bool>,
    pub trusted: Option<bool>,
}

impl ToolServers {
    /// Registers a server from the catalog.
    ///
    /// # Errors
    /// `UnknownEntry`, and the errors of [`ToolServers::create`].
    pub async fn install(
        &self,
        entry: &str,
        installation: Installation,
        recorder: Recorder<ToolServer>,
    ) -> Result<ToolServerState, ToolServerError> {
        let unknown = || ToolServerError::UnknownEntry { id: entry.chars().take(80).collect() };
        let entry = find_entry(entry).ok_or_else(unknown)?;
        let change = to_change(entry, installation)?;
        self.create(change, Some(entry.id), recorder).await
    }
}

fn to_change(entry: &CatalogEntry, installation: Installation) -> Result<ToolServerChange, ToolServerError> {
    let invalid = |problems| ToolServerError::Invalid { problems };
    let Installation { values, name, program, network, readable_paths, writable_paths, enabled, trusted } =
        installation;
    let Registration { name: default_name, transport } =
        entry.instantiate(&values, program.as_deref()).map_err(invalid)?;
    let mut change =
        ToolServerChange { name: Some(name.unwrap_or(default_name)), enabled, trusted, ..ToolServerChange::default() };
    match transport {
        RegistrationTransport::Http { url, headers } => {
            change.transport = Some(TransportKind::Http);
            change.url = Some(url);
            change.headers = headers.into_iter().map(|(name, value)| (name, Some(SecretUpdate::New(value)))).collect();
            change.network = network;
            change.readable_paths = readable_paths;
            change.writable_paths = writable_paths;
        }
        RegistrationTransport::Stdio { command, arguments, environment } => {
            let is_downloaded = matches!(entry.transport, EntryTransport::Stdio { .. }) && program.is_none();
            let mut writable = writable_paths.unwrap_or_default();
            grant_folders(entry, &values, &mut writable).into_result().map_err(invalid)?;
            change.transport = Some(TransportKind::Stdio);
            change.command = Some(command);
            change.args = Some(arguments);
            change.env = environment
                .into_iter()
                .map(|variable| {
                    let value = match variable.value {
                        EnvironmentValue::Plain(text) => agentd_base::Secret::new(text),
                        EnvironmentValue::Secret(secret) => secret,
                    };
                    (variable.name, Some(SecretUpdate::New(value)))
                })
                .collect();
            change.network = Some(network.unwrap_or(entry.needs_network || is_downloaded));
            change.readable_paths = readable_paths;
            change.writable_paths = Some(writable);
        }
    }
    Ok(change)
}

/// Grants access to the folders among the values. Access to a single file cannot be granted; the owner must name its
/// folder explicitly.
fn grant_folders(entry: &CatalogEntry, values: &Map<String, Value>, writable: &mut Vec<String>) -> Problems {
    let mut problems = Problems::new();
    let specs = entry.values.iter().filter(|spec| matches!(spec.kind, ValueKind::Path | ValueKind::Paths));
    for spec in specs {
        let paths: Vec<&str> = match values.get(spec.name) {
            Some(Value::String(path)) => vec![path],
            Some(Value::Array(paths)) => paths.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        for path in paths {
            let field = format!("values.{}", spec.name);
            let has_parents = Path::new(path).components().any(|part| part == Component::ParentDir);
            problems.require(!has_parents, &field, "must have no `..`");
            if writable.iter().any(|folder| Path::new(path).starts_with(folder)) {
                continue;
            }
            if Path::new(path).is_dir() {
                writable.push(path.to_owned());
            } else {
                problems.add(&field, "is not an existing folder; for a file, add its folder to `writable_paths`");
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn change(entry: &str, installation: Installation) -> Result<ToolServerChange, Vec<String>> {
        to_change(find_entry(entry).unwrap(), installation).map_err(|error| match error {
            ToolServerError::Invalid { problems } => problems.into_iter().map(|problem| problem.field).collect(),
            other => panic!("{other}"),
        })
    }

    fn values(values: Value) -> Installation {
        Installation { values: values.as_object().unwrap().clone(), ..Installation::default() }
    }

    #[test]
    fn folders_among_the_values_are_granted_and_files_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap();
        let made = change("filesystem", values(json!({"directories": [path]}))).unwrap();
        assert_eq!(made.writable_paths.unwrap(), [path]);
        let file = format!("{path}/graph.jsonl");
        let refused = change("memory", values(json!({"memory_file": file}))).unwrap_err();
        assert_eq!(refused, ["values.memory_file"]);
        let named =
            Installation { writable_paths: Some(vec![path.to_owned()]), ..values(json!({"memory_file": file})) };
        assert_eq!(change("memory", named).unwrap().writable_paths.unwrap(), [path]);
        let outside = values(json!({"directories": [format!("{path}/../..")]}));
        assert_eq!(change("filesystem", outside).unwrap_err(), ["values.directories"]);
    }

    #[test]
    fn network_access_is_granted_if_needed() {
        let network = |entry, installation| change(entry, installation).unwrap().network;
        assert_eq!(network("time", Installation::default()), Some(true));
        let installed = || Installation { program: Some("/opt/server".into()), ..Installation::default() };
        assert_eq!(network("time", installed()), Some(false));
        assert_eq!(network("fetch", installed()), Some(true));
        assert_eq!(network("fetch", Installation { network: Some(false), ..installed() }), Some(false));
    }
}
