//! Catalog entries: how a server is reached, and which values the owner provides.

use serde::Serialize;

/// Well-known server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct CatalogEntry {
    pub id: &'static str,
    pub name: &'static str,
    /// One-sentence description.
    pub description: &'static str,
    pub homepage: &'static str,
    #[serde(flatten)]
    pub transport: EntryTransport,
    /// Values that the owner provides.
    pub values: &'static [ValueSpec],
    /// Whether the server itself needs network access, apart from its initial download.
    pub needs_network: bool,
}

/// Transport of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "transport", rename_all = "snake_case")]
pub enum EntryTransport {
    Stdio {
        runner: Runner,
        package: &'static str,
        version: &'static str,
        /// Name of the program after installation.
        executable: &'static str,
    },
    Http {
        url: &'static str,
    },
}

/// Package runner that downloads a package and runs its program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Runner {
    /// npm's runner for packages of the npm registry. Needs Node.js.
    Npx,
    /// uv's runner for packages of the Python Package Index.
    Uvx,
}

impl Runner {
    /// Returns the program to start.
    #[must_use]
    pub fn command(self) -> &'static str {
        match self {
            Self::Npx => "npx",
            Self::Uvx => "uvx",
        }
    }

    pub(super) fn arguments(self, package: &str, version: &str) -> Vec<String> {
        match self {
            Self::Npx => vec!["--yes".to_owned(), format!("{package}@{version}")],
            Self::Uvx => vec![format!("{package}@{version}")],
        }
    }
}

/// Value that the owner may or must provide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ValueSpec {
    pub name: &'static str,
    pub description: &'static str,
    pub kind: ValueKind,
    pub required: bool,
    pub place: ValuePlace,
}

impl ValueSpec {
    /// Whether the value is stored encrypted and never displayed.
    #[must_use]
    pub fn is_secret(&self) -> bool {
        self.kind == ValueKind::Secret
    }
}

/// Type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ValueKind {
    /// Absolute path.
    Path,
    /// One or more absolute paths.
    Paths,
    /// IANA time zone name.
    TimeZone,
    Secret,
    /// Switch: `true` or `false`.
    Flag,
}

/// Destination of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ValuePlace {
    /// Positional argument; several values are several arguments.
    Argument,
    /// Argument after this option; for a flag, the option alone.
    Option(&'static str),
    /// Environment variable.
    Environment(&'static str),
    /// Header, after a prefix.
    Header { name: &'static str, prefix: &'static str },
}
