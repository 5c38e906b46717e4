//! What is known of a server: how it is reached, and which values the owner fills in.

use serde::Serialize;

/// A server that is known by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct CatalogEntry {
    pub id: &'static str,
    pub name: &'static str,
    /// One sentence.
    pub description: &'static str,
    pub homepage: &'static str,
    #[serde(flatten)]
    pub transport: EntryTransport,
    /// What the owner fills in.
    pub values: &'static [ValueSpec],
    /// The server reaches out by itself, apart from being downloaded once.
    pub needs_network: bool,
}

/// How the server is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "transport", rename_all = "snake_case")]
pub enum EntryTransport {
    Stdio {
        runner: Runner,
        package: &'static str,
        version: &'static str,
        /// What the program is called once it is installed.
        executable: &'static str,
    },
    Http {
        url: &'static str,
    },
}

/// What fetches a package and runs the program in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Runner {
    /// Of npm: packages of the npm registry. Needs Node.js.
    Npx,
    /// Of uv: packages of the Python Package Index.
    Uvx,
}

impl Runner {
    /// The program to be started.
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

/// One value that the owner may or must give.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ValueSpec {
    pub name: &'static str,
    pub description: &'static str,
    pub kind: ValueKind,
    pub required: bool,
    pub place: ValuePlace,
}

impl ValueSpec {
    /// It is kept sealed and shown nowhere.
    #[must_use]
    pub fn is_secret(&self) -> bool {
        self.kind == ValueKind::Secret
    }
}

/// What a value must look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ValueKind {
    /// An absolute path.
    Path,
    /// One or several absolute paths.
    Paths,
    /// An IANA name.
    TimeZone,
    Secret,
    /// A switch: `true` or `false`.
    Flag,
}

/// Where a value goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ValuePlace {
    /// An argument by itself; several values are several arguments.
    Argument,
    /// An argument behind this option; for a flag, the option alone.
    Option(&'static str),
    /// An environment variable.
    Environment(&'static str),
    /// A header, behind a prefix.
    Header { name: &'static str, prefix: &'static str },
}
