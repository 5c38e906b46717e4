//! Completes the generated OpenAPI document with facts common to all operations.

use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{Operation, ParameterIn};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Components, ContentBuilder, OpenApi, Ref, RefOr, ResponseBuilder, Schema};
use utoipa::{PartialSchema, ToSchema};

use agentd_base::FieldProblem;

use crate::error::ErrorBody;
use crate::idempotency::PARAMETER;

/// Adds the security schemes and the error responses of the middleware, so that each operation lists every status it
/// can return.
pub fn complete_document(document: &mut OpenApi) {
    let components = document.components.get_or_insert_with(Components::new);
    components.schemas.insert(ErrorBody::name().into_owned(), ErrorBody::schema());
    components.schemas.insert(FieldProblem::name().into_owned(), FieldProblem::schema());
    components.add_security_scheme(
        "bearer",
        SecurityScheme::Http(
            HttpBuilder::new()
                .scheme(HttpAuthScheme::Bearer)
                .description(Some("An API key (`svc_…`) or a session token (`sess_…`)"))
                .build(),
        ),
    );
    components.add_security_scheme(
        "api_key",
        SecurityScheme::ApiKey(ApiKey::Header(ApiKeyValue::with_description("X-API-Key", "An API key (`svc_…`)"))),
    );
    components.add_security_scheme(
        "session_cookie",
        SecurityScheme::ApiKey(ApiKey::Cookie(ApiKeyValue::with_description(
            "svc_session",
            "The cookie of a page session, created by a login with `cookie: true`. Valid only together with the page \
             secret and for pages of the daemon's own origin. Requests that are not read-only also need the header \
             `X-Svc-Csrf: 1`",
        ))),
    );
    components.add_security_scheme(
        "page_secret",
        SecurityScheme::ApiKey(ApiKey::Header(ApiKeyValue::with_description(
            "X-Svc-Page",
            "The second half of a page session: `page_secret` of the response to a login with `cookie: true`",
        ))),
    );
    components.add_security_scheme(
        "ticket",
        SecurityScheme::ApiKey(ApiKey::Query(ApiKeyValue::with_description(
            "ticket",
            "A ticket of `POST /api/auth/ticket`, valid for one request that a browser sends without headers, such as a stream or a download",
        ))),
    );
    components.add_security_scheme(
        "device_token",
        SecurityScheme::ApiKey(ApiKey::Query(ApiKeyValue::with_description(
            "token",
            "The token (`dev_…`) issued to a device when it was paired; valid only for its socket",
        ))),
    );
    components.schemas.values_mut().for_each(describe_fields);
    for (path, item) in &mut document.paths.paths {
        let is_probe = path.starts_with("/health") || path == "/api/health" || path == "/api/metrics/prometheus";
        if let Some(operation) = item.post.as_mut().filter(|operation| is_idempotent(operation)) {
            add_replayed(operation);
        }
        let methods = [
            (&mut item.get, false),
            (&mut item.put, true),
            (&mut item.post, true),
            (&mut item.delete, true),
            (&mut item.patch, true),
        ];
        for (operation, changes) in methods {
            if let Some(operation) = operation {
                complete_operation(operation, changes, is_probe);
            }
        }
    }
}

/// Moves the descriptions of optional and of inlined fields from the schema of their type to the field itself, where
/// readers of the document expect them.
fn describe_fields(schema: &mut RefOr<Schema>) {
    match schema {
        RefOr::T(Schema::Object(object)) => object.properties.values_mut().for_each(describe_field),
        RefOr::T(Schema::OneOf(parts)) => parts.items.iter_mut().for_each(describe_fields),
        RefOr::T(Schema::AllOf(parts)) => parts.items.iter_mut().for_each(describe_fields),
        _ => {}
    }
}

fn describe_field(field: &mut RefOr<Schema>) {
    match field {
        RefOr::T(Schema::OneOf(optional)) if optional.description.is_none() => {
            let described = optional.items.iter_mut().find_map(|item| match item {
                RefOr::Ref(reference) if !reference.description.is_empty() => Some(reference),
                _ => None,
            });
            optional.description = described.map(|reference| std::mem::take(&mut reference.description));
        }
        // The type comes first, followed by what belongs to the field.
        RefOr::T(Schema::AllOf(inlined)) if inlined.description.is_none() => {
            if let Some(RefOr::T(Schema::Object(own))) = inlined.items.last_mut() {
                inlined.description = own.description.take();
            }
            inlined.items.iter_mut().for_each(describe_fields);
        }
        _ => {}
    }
}

/// Whether a repeat of the operation is replayed.
fn is_idempotent(operation: &Operation) -> bool {
    let parameters = operation.parameters.as_deref().unwrap_or_default();
    parameters.iter().any(|parameter| matches!(parameter, RefOr::T(parameter) if parameter.name == PARAMETER))
}

fn add_replayed(operation: &mut Operation) {
    let replayed = HeaderBuilder::new()
        .schema(Some(ObjectBuilder::new().schema_type(Type::String).enum_values(Some(["true"]))))
        .description(Some("The response is that of an earlier request with the same `Idempotency-Key`"));
    let replayed = replayed.build();
    for (status, response) in &mut operation.responses.responses {
        if let (true, RefOr::T(response)) = (status.starts_with('2'), response) {
            response.headers.insert("Idempotency-Replayed".to_owned(), RefOr::T(replayed.clone()));
        }
    }
}

fn complete_operation(operation: &mut Operation, changes: bool, is_probe: bool) {
    let has_security = operation.security.as_ref().is_some_and(|list| !list.is_empty());
    let parameters = operation.parameters.as_deref().unwrap_or_default();
    let has_path = parameters
        .iter()
        .any(|parameter| matches!(parameter, RefOr::T(parameter) if parameter.parameter_in == ParameterIn::Path));
    let has_body = operation.request_body.is_some();
    let mut statuses: Vec<(&str, &str)> = Vec::new();
    if !is_probe {
        statuses.push(("421", "The `Host` header is not one of the daemon's names"));
        statuses.push(("500", "Internal error; the log entry with this `error_id` contains the cause"));
        statuses.push(("503", "A required component is disabled or unavailable; the message says how to enable it"));
    }
    if has_security {
        statuses.push(("401", "No valid credential"));
        if changes {
            statuses.push(("403", "The credential is read-only, or a session cookie was sent without `X-Svc-Csrf`"));
        }
    }
    if has_path || has_body || !parameters.is_empty() {
        statuses.push(("400", "The request is not valid; `fields` lists every invalid field"));
    }
    if has_path {
        statuses.push(("404", "Not found"));
    }
    if has_body {
        statuses.push(("408", "The body was received too slowly"));
        statuses.push(("415", "Unsupported media type of the body"));
    }
    if has_body || changes {
        statuses.push(("413", "The body is too large"));
    }
    if changes {
        statuses.push((
            "409",
            if is_idempotent(operation) {
                "Conflict with the current state, or with an `Idempotency-Key` used before"
            } else {
                "Conflict with the current state"
            },
        ));
    }
    for (status, description) in statuses {
        operation.responses.responses.entry(status.to_owned()).or_insert_with(|| error_response(description));
    }
}

pub(crate) fn error_response(description: &str) -> RefOr<utoipa::openapi::Response> {
    ResponseBuilder::new()
        .description(description)
        .content(
            "application/json",
            ContentBuilder::new().schema(Some(Ref::from_schema_name(ErrorBody::name()))).build(),
        )
        .build()
        .into()
}
