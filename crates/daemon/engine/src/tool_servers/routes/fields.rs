//! What requests say of tool servers.

use agentd_core::vault::UnknownMask;
use serde::{Deserialize, Deserializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{AdditionalProperties, ObjectBuilder, OneOfBuilder, Schema, SchemaType, Type};
use utoipa::{PartialSchema, ToSchema};

use agentd_base::SecretState;

use crate::tool_servers::{SecretChanges, ToolServerChange, TransportKind};
use crate::tools::{Change, SentBack};

/// What becomes of write-only values, by name.
#[derive(Debug, Clone, Default)]
pub(super) struct SecretValues(pub(super) SecretChanges);

impl<'de> Deserialize<'de> for SecretValues {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Null is how those of the other transport are shown.
        Option::<SecretChanges>::deserialize(deserializer).map(|values| Self(values.unwrap_or_default()))
    }
}

fn env_values() -> Schema {
    secret_values("stdio: variables of the program's environment. `HOME` is a folder of its own that stays.")
}

fn header_values() -> Schema {
    secret_values("http: sent with every request.")
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
            "{description} Values by name: encrypted at rest and never shown again. `{{\"set\": true}}`, or a name that \
             is left out, keeps a value; null clears it. Null instead of all of them, as the other transport's are \
             shown, changes nothing."
        )))
        .into()
}

/// Fields of its own, and how a tool server is reached and what it may do. Written out in one struct each, because
/// unknown fields of a flattened one cannot be refused.
macro_rules! with_reach {
    ($(#[doc = $doc:literal])* $name:ident { $($own:tt)* }) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, Deserialize, ToSchema)]
        #[serde(deny_unknown_fields)]
        pub(super) struct $name {
            $($own)*
            /// stdio: a program that is installed on this machine, by name or absolute path.
            #[serde(default)]
            #[schema(min_length = 1, max_length = 4096, example = "uvx")]
            command: Option<String>,
            /// stdio
            #[serde(default)]
            #[schema(max_items = 128)]
            args: Option<Vec<String>>,
            #[serde(default)]
            #[schema(required = false, schema_with = env_values)]
            env: SecretValues,
            /// stdio: whether the program reaches public addresses, through a proxy that holds it to the
            /// rules for agents. Default false.
            #[serde(default)]
            network: Option<bool>,
            /// stdio: what the program may read besides the system's programs and libraries; absolute paths.
            #[serde(default)]
            #[schema(max_items = 32)]
            readable_paths: Option<Vec<String>>,
            /// stdio: folders that the program may read and change besides its home; absolute paths.
            #[serde(default)]
            #[schema(max_items = 32)]
            writable_paths: Option<Vec<String>>,
            /// http: the address of the endpoint. It may be private or on this machine. Parameters of its query that carry a
            /// credential are encrypted at rest and shown as `***`, which sent back keeps them on the same server.
            #[serde(default)]
            #[schema(min_length = 1, max_length = 2048, example = "https://mcp.example.com/mcp")]
            url: Option<String>,
            #[serde(default)]
            #[schema(required = false, schema_with = header_values)]
            headers: SecretValues,
            /// Default true.
            #[serde(default)]
            enabled: Option<bool>,
            /// Whether the server is believed when it says that a tool only reads; such a tool needs no
            /// approval. Default false.
            #[serde(default)]
            trusted: Option<bool>,
            /// One call may take no longer. Default 60.
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
    /// What a tool server is registered with.
    ToolServerFields {
        /// Its tools are called `<name>_<tool>`, the name written in lower case with hyphens.
        #[schema(min_length = 1, max_length = 100, example = "time")]
        name: String,
        transport: TransportKind,
    }
);

with_reach!(
    /// What is to be changed of a tool server; what is left out stays.
    UpdateToolServer {
        #[serde(default)]
        #[schema(min_length = 1, max_length = 100)]
        name: Option<String>,
        #[serde(default)]
        transport: Option<TransportKind>,
    }
);

impl Change for UpdateToolServer {
    const SHOWN: &'static [&'static str] =
        &["tool_prefix", "catalog_entry", "status", "error", "tools", "created_at", "updated_at"];
}

/// The body of a change.
pub(super) type ToolServerPatch = SentBack<UpdateToolServer>;
