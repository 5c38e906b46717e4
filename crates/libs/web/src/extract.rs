//! Extractors whose rejections use the common error shape and report every invalid field.

use agentd_base::{FieldProblem, Problems};
use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::{IntoParams, ToSchema};

use crate::content_length::too_large;
use crate::error::ApiError;
use crate::schema::{CompiledSchema, check};

/// JSON body, validated against the documented schema; also a JSON response. A request without a body and without a
/// `Content-Type` counts as `{}`.
#[derive(Debug, Clone)]
pub struct Json<T>(pub T);

/// Result of most handlers: a JSON body or an error.
pub type Answer<T> = Result<Json<T>, ApiError>;

impl<T, S> FromRequest<S> for Json<T>
where
    T: DeserializeOwned + ToSchema + 'static,
    S: Send + Sync,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let (value, problems) = read_json::<T, S>(request, state).await?;
        deserialize_valid(value, problems).map(Self)
    }
}

/// Like [`Json`], but the body is optional.
#[derive(Debug, Clone)]
pub struct OptionalJson<T>(pub T);

impl<T, S> FromRequest<S> for OptionalJson<T>
where
    T: DeserializeOwned + ToSchema + Default + 'static,
    S: Send + Sync,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let is_json = require_json(request.headers());
        let body = Bytes::from_request(request, state).await.map_err(|rejection| body_error(&rejection))?;
        if body.is_empty() {
            return Ok(Self(T::default()));
        }
        is_json?;
        let (value, problems) = parse_json::<T>(&body)?;
        deserialize_valid(value, problems).map(Self)
    }
}

pub(crate) fn body_error(rejection: &axum::extract::rejection::BytesRejection) -> ApiError {
    if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
        return too_large();
    }
    ApiError::new(StatusCode::BAD_REQUEST, "body_unreadable", "The request body is incomplete; send it again")
}

fn require_json(headers: &HeaderMap) -> Result<(), ApiError> {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") { Ok(()) } else { Err(not_json()) }
}

fn not_json() -> ApiError {
    ApiError::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "unsupported_media_type",
        "Send the body as JSON with the header `Content-Type: application/json`",
    )
}

/// Reads a body and the violations of its schema.
pub(crate) async fn read_json<T, S>(request: Request, state: &S) -> Result<(Value, Vec<FieldProblem>), ApiError>
where
    T: ToSchema + 'static,
    S: Send + Sync,
{
    let has_type = request.headers().contains_key(CONTENT_TYPE);
    if has_type {
        require_json(request.headers())?;
    }
    let body = Bytes::from_request(request, state).await.map_err(|rejection| body_error(&rejection))?;
    match (has_type, body.is_empty()) {
        (true, _) => parse_json::<T>(&body),
        // An empty body needs no content type; the schema reports missing fields.
        (false, true) => parse_json::<T>(b"{}"),
        (false, false) => Err(not_json()),
    }
}

fn parse_json<T: ToSchema + 'static>(body: &[u8]) -> Result<(Value, Vec<FieldProblem>), ApiError> {
    let mut value: Value = serde_json::from_slice(body)
        .map_err(|error| ApiError::new(StatusCode::BAD_REQUEST, "malformed_json", syntax_problem(body, &error)))?;
    let mut problems = Problems::new();
    check::<T>(&mut value, &mut problems);
    Ok((value, problems.into_result().err().unwrap_or_default()))
}

/// Describes why a body cannot be parsed as JSON.
fn syntax_problem(body: &[u8], error: &serde_json::Error) -> String {
    if body.trim_ascii().is_empty() {
        return "The body is empty; send JSON".to_owned();
    }
    // `serde_json` distinguishes this case only by its message.
    if error.to_string().starts_with("recursion limit") {
        return "The body is nested deeper than 128 levels".to_owned();
    }
    format!("The body is not valid JSON: line {}, column {}", error.line(), error.column())
}

fn deserialize_valid<T: DeserializeOwned>(value: Value, problems: Vec<FieldProblem>) -> Result<T, ApiError> {
    if problems.is_empty() { deserialized(value) } else { Err(ApiError::invalid(problems)) }
}

/// Deserializes a value that satisfies its schema.
pub(crate) fn deserialized<T: DeserializeOwned>(value: Value) -> Result<T, ApiError> {
    serde_json::from_value(value).map_err(|error| {
        ApiError::new(StatusCode::BAD_REQUEST, "invalid_request", format!("The request is not valid: {error}"))
    })
}

/// Raw body of any media type, up to the limit of the route.
#[derive(Debug, Clone)]
pub struct RawBody(pub Bytes);

impl<S: Send + Sync> FromRequest<S> for RawBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        Bytes::from_request(request, state).await.map(Self).map_err(|rejection| body_error(&rejection))
    }
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        match serde_json::to_vec(&self.0) {
            Ok(body) => ([(CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response(),
            Err(error) => ApiError::internal(&error).into_response(),
        }
    }
}

/// Query parameters, validated against the documented ones. Unknown parameters are ignored; the last value of a
/// repeated one wins.
#[derive(Debug, Clone)]
pub struct Query<T>(pub T);

impl<T, S> FromRequestParts<S> for Query<T>
where
    T: DeserializeOwned + IntoParams,
    S: Send + Sync,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        parse_query(parts.uri.query().unwrap_or_default()).map(Self)
    }
}

fn parse_query<T: DeserializeOwned + IntoParams>(query: &str) -> Result<T, ApiError> {
    let read = read_query::<T>(query);
    deserialize_valid(Value::Object(read.given), read.problems)
}

/// Parsed query according to the documented parameters.
pub(crate) struct ReadQuery {
    pub(crate) given: Map<String, Value>,
    pub(crate) problems: Vec<FieldProblem>,
    /// Placeholder values for required parameters that are invalid or missing.
    pub(crate) missing: Vec<(String, Value)>,
}

pub(crate) fn read_query<T: IntoParams>(query: &str) -> ReadQuery {
    let parameters = T::into_params(|| Some(ParameterIn::Query));
    let schema_of = |parameter: &Parameter| {
        let schema = parameter.schema.as_ref().and_then(|schema| serde_json::to_value(schema).ok());
        schema.unwrap_or(Value::Bool(true))
    };
    let mut given: Map<String, Value> = Map::new();
    let mut problems = Problems::new();
    let mut invalid = Vec::new();
    for (name, text) in form_urlencoded::parse(query.as_bytes()).into_owned() {
        let Some(parameter) = parameters.iter().find(|parameter| parameter.name == name) else { continue };
        let schema = schema_of(parameter);
        let message = match coerce(&schema, &text) {
            Ok(mut value) => {
                let mut found = Problems::new();
                CompiledSchema::from_value(schema).check(&mut value, &mut found);
                match found.into_result().err().and_then(|found| found.into_iter().next()) {
                    None => {
                        given.insert(name, value);
                        continue;
                    }
                    Some(problem) => problem.message,
                }
            }
            Err(message) => message,
        };
        problems.add(&*name, message);
        given.remove(&name);
        invalid.push(name);
    }
    let mut missing = Vec::new();
    for parameter in &parameters {
        let is_required = matches!(parameter.required, utoipa::openapi::Required::True);
        if is_required && !given.contains_key(&parameter.name) {
            if !invalid.contains(&parameter.name) {
                problems.add(&*parameter.name, "is required");
            }
            missing.push((parameter.name.clone(), CompiledSchema::from_value(schema_of(parameter)).placeholder()));
        }
    }
    ReadQuery { given, problems: problems.into_result().err().unwrap_or_default(), missing }
}

fn coerce(schema: &Value, text: &str) -> Result<Value, String> {
    let names = match schema.get("type") {
        Some(Value::String(name)) => vec![name.as_str()],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if names.contains(&"integer") {
        let whole = text.parse::<i64>().map(Value::from);
        // `5.0` is a whole number too; the schema decides whether it is allowed.
        let number = || text.parse::<f64>().ok().filter(|number| number.fract() == 0.0).map(Value::from);
        return whole.or_else(|_| number().ok_or_else(|| "must be a whole number".to_owned()));
    }
    if names.contains(&"number") {
        let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
        return number.map(Value::from).ok_or_else(|| "must be a number".to_owned());
    }
    if names.contains(&"boolean") {
        return text.parse::<bool>().map(Value::from).map_err(|_| "must be `true` or `false`".to_owned());
    }
    Ok(Value::from(text))
}

/// Path parameters. A parameter that cannot be decoded is reported as an invalid path.
#[derive(Debug, Clone)]
pub struct Path<T>(pub T);

impl<T, S> FromRequestParts<S> for Path<T>
where
    T: DeserializeOwned + Send,
    S: Send + Sync,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        if parts.uri.path().contains("%00") {
            return Err(ApiError::invalid(vec![FieldProblem {
                field: "path".to_owned(),
                message: "must not contain the NUL character".to_owned(),
            }]));
        }
        match axum::extract::Path::<T>::from_request_parts(parts, state).await {
            Ok(axum::extract::Path(value)) => Ok(Self(value)),
            Err(_) => Err(ApiError::new(
                StatusCode::BAD_REQUEST,
                "invalid_path",
                "A segment of the path is not valid; check its encoding",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize, IntoParams)]
    struct ListQuery {
        #[param(minimum = 1, maximum = 100)]
        limit: Option<i64>,
        q: String,
        deep: Option<bool>,
    }

    #[test]
    fn queries_are_parsed_and_validated() {
        let query: ListQuery = parse_query("q=a%20b+c%C3%A9&limit=7&deep=true&other=1").unwrap();
        assert_eq!((query.q.as_str(), query.limit, query.deep), ("a b cé", Some(7), Some(true)));
        let error = parse_query::<ListQuery>("limit=x&deep=2").unwrap_err();
        let body = format!("{error:?}");
        for part in ["limit", "must be a whole number", "deep", "must be `true` or `false`", "is required"] {
            assert!(body.contains(part), "{part} in {body}");
        }
        assert!(parse_query::<ListQuery>("q=a&limit=101").is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_query_panics(query in ".{0,64}") {
            let _ = parse_query::<ListQuery>(&query);
        }
    }
}
