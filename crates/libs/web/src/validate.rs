//! Rejections that report all invalid fields, including violations of domain rules.
//!
//! A schema defines types and sizes; other rules, such as the grammar of a name, belong to the domain, which validates
//! whole requests. If a request violates its schema, [`Validated`] removes the invalid parts, lets the domain validate
//! the rest, and reports both. A request that satisfies its schema is passed on: its domain validates it itself.

use agentd_base::FieldProblem;
use axum::extract::{FromRequest, FromRequestParts, Request};
use http::request::Parts;
use serde::de::DeserializeOwned;
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use crate::error::ApiError;
use crate::extract::{Json, Query, deserialized, read_json, read_query};
use crate::schema::checked;

/// Request with domain rules that a schema cannot express.
pub trait Validate<S>: Sized {
    /// Fields whose rules depend on another field, listed by that field. Their violations are not reported while that
    /// field is invalid.
    const DEPENDENT: &'static [(&'static str, &'static [&'static str])] = &[];

    /// Returns every field that violates a domain rule. Fields that violate the schema are absent or hold a
    /// placeholder; problems with those are discarded. Has no side effects.
    fn validate(self, state: &S) -> impl Future<Output = Vec<FieldProblem>> + Send;
}

/// [`Json`] or [`Query`] whose rejection also reports violations of domain rules.
#[derive(Debug, Clone)]
pub struct Validated<E>(pub E);

impl<T, S> FromRequest<S> for Validated<Json<T>>
where
    T: DeserializeOwned + ToSchema + Validate<S> + Send + 'static,
    S: Send + Sync,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let (value, problems) = read_json::<T, S>(request, state).await?;
        if problems.is_empty() {
            return deserialized(value).map(|fields| Self(Json(fields)));
        }
        let sanitized = value.is_object().then(|| checked::<T>().sanitized(value));
        Err(rejection::<T, S>(sanitized, problems, state).await)
    }
}

impl<T, S> FromRequestParts<S> for Validated<Query<T>>
where
    T: DeserializeOwned + IntoParams + Validate<S> + Send,
    S: Send + Sync,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let read = read_query::<T>(parts.uri.query().unwrap_or_default());
        if read.problems.is_empty() {
            return deserialized(Value::Object(read.given)).map(|query| Self(Query(query)));
        }
        let mut given = read.given;
        for (name, placeholder) in read.missing {
            given.insert(name, placeholder);
        }
        Err(rejection::<T, S>(Some(Value::Object(given)), read.problems, state).await)
    }
}

async fn rejection<T, S>(sanitized: Option<Value>, mut problems: Vec<FieldProblem>, state: &S) -> ApiError
where
    T: DeserializeOwned + Validate<S>,
{
    if let Some(rest) = sanitized.and_then(|sanitized| serde_json::from_value::<T>(sanitized).ok()) {
        let mut own = rest.validate(state).await;
        let is_named = |field: &str| problems.iter().any(|problem| overlaps(&problem.field, field));
        let is_dependent = |field: &str| {
            let mut dependent = T::DEPENDENT.iter().filter(|(on, _)| is_named(on));
            dependent.any(|(_, fields)| fields.iter().any(|outer| is_within(outer, field)))
        };
        own.retain(|problem| problem.field != "body" && !is_named(&problem.field) && !is_dependent(&problem.field));
        problems.extend(own);
    }
    ApiError::invalid(problems)
}

/// Whether one field is equal to the other or contains it.
fn overlaps(one: &str, other: &str) -> bool {
    is_within(one, other) || is_within(other, one)
}

fn is_within(outer: &str, inner: &str) -> bool {
    inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

#[cfg(test)]
mod tests {
    use agentd_base::Problems;
    use axum::body::Body;
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize, ToSchema)]
    struct Retry {
        #[schema(minimum = 1, maximum = 10)]
        attempts: u32,
        zone: Option<String>,
    }

    #[derive(Debug, Deserialize, ToSchema)]
    struct Wanted {
        name: String,
        #[schema(min_length = 1)]
        owner: String,
        retry: Option<Retry>,
        #[serde(default)]
        #[schema(max_items = 2)]
        tags: Vec<String>,
    }

    impl Validate<()> for Wanted {
        const DEPENDENT: &'static [(&'static str, &'static [&'static str])] = &[("owner", &["tags"])];

        async fn validate(self, (): &()) -> Vec<FieldProblem> {
            let mut problems = Problems::new();
            problems.require(self.name == "good", "name", "must be good");
            problems.require(self.owner == "Ada", "owner", "must be Ada");
            let zone = self.retry.as_ref().and_then(|retry| retry.zone.as_deref());
            problems.require(zone != Some("Mars"), "retry.zone", "must be on Earth");
            problems.require(self.retry.is_none_or(|retry| retry.attempts != 1), "retry.attempts", "must be more");
            for (index, tag) in self.tags.iter().enumerate() {
                problems.require(!tag.is_empty(), &format!("tags[{index}]"), "must say something");
            }
            problems.into_result().err().unwrap_or_default()
        }
    }

    async fn fields(body: &Value) -> String {
        let request =
            Request::builder().header("content-type", "application/json").body(Body::from(body.to_string())).unwrap();
        match Validated::<Json<Wanted>>::from_request(request, &()).await {
            Ok(_) => "taken".to_owned(),
            Err(error) => error.bad_fields().join(" "),
        }
    }

    #[tokio::test]
    async fn schema_and_domain_violations_are_reported_together() {
        assert_eq!(fields(&json!({"name": "bad", "owner": ""})).await, "owner name");
        assert_eq!(fields(&json!({"name": "bad"})).await, "owner name");
        assert_eq!(
            fields(&json!({"name": 7, "owner": "Bob", "retry": {"attempts": 99, "zone": "Mars"}})).await,
            "name retry.attempts owner retry.zone"
        );
        assert_eq!(fields(&json!({"name": "bad", "owner": "Ada", "tags": ["", 7]})).await, "tags[1] name tags[0]");
        assert_eq!(fields(&json!({"name": "good", "owner": "Ada", "tags": ["a", "b", ""]})).await, "tags");
        assert_eq!(fields(&json!([1])).await, "body");
        // The rules for tags depend on the owner.
        assert_eq!(fields(&json!({"name": "bad", "owner": 7, "tags": [""]})).await, "owner name");
        // A request that violates only domain rules is left to the domain.
        assert_eq!(fields(&json!({"name": "bad", "owner": "Ada"})).await, "taken");
        // An empty body lacks all required fields.
        let nothing = Request::builder().body(Body::empty()).unwrap();
        let refused = Validated::<Json<Wanted>>::from_request(nothing, &()).await.unwrap_err();
        assert_eq!(refused.bad_fields().join(" "), "name owner");
    }

    #[derive(Debug, Deserialize, IntoParams)]
    struct Asked {
        #[param(min_length = 1)]
        q: String,
        #[param(minimum = 1, maximum = 100)]
        limit: Option<i64>,
        day: Option<String>,
    }

    impl Validate<()> for Asked {
        async fn validate(self, (): &()) -> Vec<FieldProblem> {
            let mut problems = Problems::new();
            problems.require(self.q != "x" && self.limit != Some(0), "q", "must be more");
            problems.require(self.day.as_deref() != Some("never"), "day", "must be a day");
            problems.into_result().err().unwrap_or_default()
        }
    }

    #[tokio::test]
    async fn query_violations_are_reported_together() {
        let fields = async |query: &str| {
            let (mut parts, ()) = Request::builder().uri(format!("/?{query}")).body(()).unwrap().into_parts();
            let found = Validated::<Query<Asked>>::from_request_parts(&mut parts, &()).await;
            found.map_or_else(|error| error.bad_fields().join(" "), |_| "taken".to_owned())
        };
        assert_eq!(fields("q=&limit=0&day=never").await, "q limit day");
        assert_eq!(fields("day=never&limit=x").await, "limit q day");
        assert_eq!(fields("q=a&limit=5.0&day=never").await, "taken");
    }
}
