//! What was read, changed and sent back.

use agentd_base::FieldProblem;
use agentd_web::{ApiError, ApiResult};
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaType};
use utoipa::{PartialSchema, ToSchema};

const ID: &str = "id";

/// A change of something that answers show with more fields than can be changed.
pub(crate) trait Change: DeserializeOwned + ToSchema {
    /// The fields that are shown only, but for `id`.
    const SHOWN: &'static [&'static str];
}

/// A change, beside which every field that is shown only may stand and counts for nothing.
#[derive(Debug)]
pub(crate) struct SentBack<T> {
    id: Option<Value>,
    change: T,
}

impl<T> SentBack<T> {
    /// The change, which is meant for `id`.
    ///
    /// # Errors
    /// It was read from another one.
    pub(crate) fn of(self, id: &str) -> ApiResult<T> {
        if self.id.is_none_or(|sent| sent == id) {
            return Ok(self.change);
        }
        let message = "is not the one in the path; send it as it was read, or leave it out".to_owned();
        Err(ApiError::invalid(vec![FieldProblem { field: ID.to_owned(), message }]))
    }
}

impl<'de, T: Change> Deserialize<'de> for SentBack<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = Map::<String, Value>::deserialize(deserializer)?;
        let id = fields.remove(ID);
        fields.retain(|name, _| !T::SHOWN.contains(&name.as_str()));
        let change = serde_json::from_value(Value::Object(fields)).map_err(D::Error::custom)?;
        Ok(Self { id, change })
    }
}

impl<T: Change> PartialSchema for SentBack<T> {
    fn schema() -> RefOr<Schema> {
        let mut schema = T::schema();
        if let RefOr::T(Schema::Object(object)) = &mut schema {
            let mut show = |name: &str, description: &str| {
                let shown =
                    ObjectBuilder::new().schema_type(SchemaType::AnyValue).description(Some(description)).build();
                object.properties.insert(name.to_owned(), RefOr::T(Schema::Object(shown)));
            };
            show(ID, "As GET shows it, so that its answer can be sent back; that of another is refused.");
            for name in T::SHOWN {
                show(name, "As GET shows it, so that its answer can be sent back; it changes nothing.");
            }
        }
        schema
    }
}

impl<T: Change> ToSchema for SentBack<T> {
    fn name() -> std::borrow::Cow<'static, str> {
        T::name()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        T::schemas(schemas);
    }
}
