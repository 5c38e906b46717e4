//! Request bodies for tool servers.

use agentd_core::vault::UnknownMask;
use serde::{Deserialize, Deserializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{AdditionalProperties, ObjectBuilder, OneOfBuilder, Schema, SchemaType, Type};
use utoipa::{PartialSchema, ToSchema};

use agentd_base::SecretState;

use crate::tool_servers::{SecretChanges, ToolServerChange, TransportKind};
use crate::tools::{PatchBody, PatchFields};

/// Changes to write-only values, by name.
#[derive(Debug, Clone, Default)]
pub(super) struct SecretValues(pub(super) SecretChanges);

impl<'de> Deserialize<'de> for SecretValues {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Values of the other transport are returned as null.
        Option::<SecretChanges>::deserialize(deserializer).map(|values| Self(values.unwrap_or_default()))
    }
}

fn env_values() -> Schema {
    secret_values("stdio: environment variables of the program, up to 64. `HOME` is a persistent folder of its own.")
}

fn header_values() -> Schema {
    secret_values("http: headers that are sent with every request, up to 32.")
}

fn secret_values(description: &str) -> Schema {
    let text = ObjectBuilder::new().schema_type(Type::String).max_length(Some(32_768)).write_only(true);
    let value = OneOfBuilder::new()
        .item(ObjectBuilder::new().schema_type(Type::Null))
        .item(text)
        .item(SecretState::schema())
        .build();
    ObjectBuilder::new()
        .schema_type(SchemaType::from_iter([Type::Object, Type::Null]))
        .additional_properties(Some(AdditionalProperties::RefOr(RefOr::T(Schema::OneOf(value)))))
        .description(Some(format!(
            "{description} Values by name are stored encrypted and never returned. An absent name or \
             `{{\"set\": true}}` keeps a value; null clears it. Null instead of the object changes nothing."
        )))
        .into()
}

/// Own fields plus the fields for transport and permissions. Expanded into each struct, because unknown fields of a
/// flattened struct cannot be rejected.
macro_rules! with_reach {
    ($(#[doc = $doc:literal])* $name:ident { $($own:tt)* }) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, Deserialize, ToSchema)]
        #[serde(deny_unknown_fields)]
        pub(super) struct $name {
            $($own)*
            /// stdio: program installed on the daemon's machine, by name or absolute path, up to 4,096 bytes.
            #[serde(default)]
            #[schema(min_length = 1, max_length = 4096, example = "uvx")]
            command: Option<String>,
            /// stdio: arguments of the program, up to 128 of at most 8,192 bytes each. Default: none.
            #[serde(default)]
            #[schema(max_items = 128)]
            args: Option<Vec<String>>,
            #[serde(default)]
            #[schema(required = false, schema_with = env_values)]
            env: SecretValues,
            /// stdio: whether the program may access public addresses, through a proxy that enforces the rules for
            /// agents. Default: false.
            #[serde(default)]
            network: Option<bool>,
            /// stdio: absolute paths that the program may read, besides the system's programs and libraries, up to 32.
            /// Default: none.
            #[serde(default)]
            #[schema(max_items = 32)]
            readable_paths: Option<Vec<String>>,
            /// stdio: absolute paths of folders that the program may read and modify, besides its home folder, up to
            /// 32. Default: none.
            #[serde(default)]
            #[schema(max_items = 32)]
            writable_paths: Option<Vec<String>>,
            /// http: URL of the endpoint, up to 2,048 bytes; may be private or local. Query parameters that contain a
            /// credential are stored encrypted and returned as `***`; sending `***` back keeps the value for the same
            /// server.
            #[serde(default)]
            #[schema(min_length = 1, max_length = 2048, example = "https://mcp.example.com/mcp")]
            url: Option<String>,
            #[serde(default)]
            #[schema(required = false, schema_with = header_values)]
            headers: SecretValues,
            /// Whether the server is enabled. Default: true.
            #[serde(default)]
            enabled: Option<bool>,
            /// Whether the server's read-only hints are trusted; read-only tools require no approval. Default: false.
            #[serde(default)]
            trusted: Option<bool>,
            /// Time limit of one call in seconds, 1 to 3,600. Default: 60.
            #[serde(default)]
            #[schema(minimum = 1, maximum = 3600)]
            timeout_seconds: Option<u32>,
        }

        impl From<$name> for ToolServerChange {
            fn from(fields: $name) -> Self {
                Self {
                    name: fields.name.into(),
                    transport: fields.transport.into(),
                    command: fields.command,
                    args: fields.args,
                    env: fields.env.0,
                    network: fields.network,
                    readable_paths: fields.readable_paths,
                    writable_paths: fields.writable_paths,
                    url: fields.url,
                    unknown_masks: UnknownMask::Refuse,
                    headers: fields.headers.0,
                    enabled: fields.enabled,
                    trusted: fields.trusted,
                    timeout_seconds: fields.timeout_seconds,
                }
            }
        }
    };
}

with_reach!(
    /// Fields of a new tool server.
    ToolServerFields {
        /// Unique name, 1 to 100 characters. Its tools are named `<prefix>_<tool>`, where the prefix is derived from the
        /// name: lower case, with hyphens, at most 24 characters.
        #[schema(min_length = 1, max_length = 100, example = "time")]
        name: String,
        /// Transport: a local program (`stdio`) or a web service (`http`).
        transport: TransportKind,
    }
);

with_reach!(
    /// Changes to a tool server; absent fields keep their values.
    UpdateToolServer {
        /// Unique name, 1 to 100 characters. A new name changes the names of its tools.
        #[serde(default)]
        #[schema(min_length = 1, max_length = 100)]
        name: Option<String>,
        /// Transport. A change removes the fields and secrets of the previous transport.
        #[serde(default)]
        transport: Option<TransportKind>,
    }
);

impl PatchFields for UpdateToolServer {
    const READ_ONLY: &'static [&'static str] =
        &["tool_prefix", "catalog_entry", "status", "error", "tools", "created_at", "updated_at"];
}

/// Body of an update.
pub(super) type ToolServerPatch = PatchBody<UpdateToolServer>;
