//! Schema of a partial update, derived from the schema of the section.

use agentd_base::SecretState;
use utoipa::PartialSchema;
use utoipa::openapi::schema::AdditionalProperties;
use utoipa::openapi::{Object, ObjectBuilder, OneOfBuilder, RefOr, Schema};

use super::destination::WriteOnly;
use super::section::Section;

/// Declares the schema of a partial update of a section: all fields are optional, and unknown fields are rejected.
#[macro_export]
macro_rules! section_patch {
    ($(#[doc = $doc:literal])* $patch:ident, $section:ty) => {
        $(#[doc = $doc])*
        #[derive(Debug)]
        pub struct $patch;

        impl ::utoipa::PartialSchema for $patch {
            fn schema() -> ::utoipa::openapi::RefOr<::utoipa::openapi::Schema> {
                $crate::settings::patch_schema::<$section>(concat!($($doc),*).trim())
            }
        }

        impl ::utoipa::ToSchema for $patch {
            fn name() -> ::std::borrow::Cow<'static, str> {
                stringify!($patch).into()
            }

            fn schemas(
                schemas: &mut Vec<(String, ::utoipa::openapi::RefOr<::utoipa::openapi::Schema>)>,
            ) {
                <$section as ::utoipa::ToSchema>::schemas(schemas);
            }
        }
    };
}
pub use section_patch;

/// Description of a write-only field in a partial update.
const WRITE_ONLY_UPDATE: &str =
    "New value, 1 to 8,192 characters. `null` deletes the stored value; `{\"set\": true}`, as returned, keeps it.";

/// Converts the schema of a section into the schema of a partial update.
#[must_use]
pub fn patch_schema<S: Section>(description: &str) -> RefOr<Schema> {
    let mut schema = S::schema();
    if let RefOr::T(Schema::Object(object)) = &mut schema {
        make_partial(object);
        object.description = Some(description.to_owned());
        for WriteOnly { path, .. } in S::SECRETS {
            let update = OneOfBuilder::new()
                .description(Some(WRITE_ONLY_UPDATE))
                .item(ObjectBuilder::new().schema_type(utoipa::openapi::Type::Null))
                .item(
                    ObjectBuilder::new()
                        .schema_type(utoipa::openapi::Type::String)
                        .min_length(Some(1))
                        .max_length(Some(8192))
                        .write_only(true),
                )
                .item(SecretState::schema())
                .description(Some(
                    "New value of 1 to 8,192 characters. `null` deletes the stored value; the object returned by a read \
                     keeps it",
                ));
            replace_property(object, path, RefOr::T(Schema::OneOf(update.build())));
        }
    }
    schema
}

/// Makes all fields optional and rejects unknown fields, recursively.
fn make_partial(object: &mut Object) {
    object.required.clear();
    object.additional_properties = Some(Box::new(AdditionalProperties::FreeForm(false)));
    for property in object.properties.values_mut() {
        // An object with a default is an `allOf` of the object and its default; omitted fields of a change have no
        // default.
        if let RefOr::T(Schema::AllOf(both)) = property
            && let Some(inner) = both.items.iter().find(|item| is_inline_object(item)).cloned()
        {
            *property = inner;
        }
        if is_inline_object(property)
            && let RefOr::T(Schema::Object(inner)) = property
        {
            make_partial(inner);
        }
    }
}

fn is_inline_object(schema: &RefOr<Schema>) -> bool {
    matches!(schema, RefOr::T(Schema::Object(object)) if !object.properties.is_empty())
}

fn replace_property(object: &mut Object, path: &str, schema: RefOr<Schema>) {
    match path.split_once('.') {
        None => {
            object.properties.insert(path.to_owned(), schema);
        }
        Some((first, rest)) => {
            if let Some(RefOr::T(Schema::Object(inner))) = object.properties.get_mut(first) {
                replace_property(inner, rest, schema);
            }
        }
    }
}
