//! Patch bodies that accept read-only fields, so that a response of GET can be sent back.

use agentd_base::FieldProblem;
use agentd_web::{ApiError, ApiResult};
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaType};
use utoipa::{PartialSchema, ToSchema};

const ID: &str = "id";

/// Body of an update whose resource has further read-only fields.
pub(crate) trait PatchFields: DeserializeOwned + ToSchema {
    /// Read-only fields, except `id`; they are ignored.
    const READ_ONLY: &'static [&'static str];
}

/// A patch body in which read-only fields are accepted and ignored.
#[derive(Debug)]
pub(crate) struct PatchBody<T> {
    id: Option<Value>,
    change: T,
}

impl<T> PatchBody<T> {
    /// Returns the change, intended for the resource `id`.
    ///
    /// # Errors
    /// The body contains the id of another resource.
    pub(crate) fn for_id(self, id: &str) -> ApiResult<T> {
        if self.id.is_none_or(|sent| sent == id) {
            return Ok(self.change);
        }
        let message = "must equal the id in the path; send it unchanged, or omit it".to_owned();
        Err(ApiError::invalid(vec![FieldProblem { field: ID.to_owned(), message }]))
    }
}

impl<'de, T: PatchFields> Deserialize<'de> for PatchBody<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = Map::<String, Value>::deserialize(deserializer)?;
        let id = fields.remove(ID);
        fields.retain(|name, _| !T::READ_ONLY.contains(&name.as_str()));
        let change = serde_json::from_value(Value::Object(fields)).map_err(D::Error::custom)?;
        Ok(Self { id, change })
    }
}

impl<T: PatchFields> PartialSchema for PatchBody<T> {
    fn schema() -> RefOr<Schema> {
        let mut schema = T::schema();
        if let RefOr::T(Schema::Object(object)) = &mut schema {
            let mut add_read_only = |name: &str, description: &str| {
                let property =
                    ObjectBuilder::new().schema_type(SchemaType::AnyValue).description(Some(description)).build();
                object.properties.insert(name.to_owned(), RefOr::T(Schema::Object(property)));
            };
            add_read_only(
                ID,
                "As returned by GET, so that its response can be sent back; the id of another resource is rejected.",
            );
            for name in T::READ_ONLY {
                add_read_only(name, "As returned by GET, so that its response can be sent back; ignored.");
            }
        }
        schema
    }
}

impl<T: PatchFields> ToSchema for PatchBody<T> {
    fn name() -> std::borrow::Cow<'static, str> {
        T::name()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        T::schemas(schemas);
    }
}
