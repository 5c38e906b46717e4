//! Handler for the browser profile.

use std::collections::BTreeMap;

use agentd_base::Patch;
use agentd_browser::{ColorScheme, Geolocation, Profile};
use agentd_web::{Answer, ErrorBody, Json};
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::browser::model::ProfileChange;
use crate::browser::service::Browser;

/// Position reported to pages.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[schema(as = BrowserGeolocation)]
struct Place {
    /// Latitude in degrees, -90 to 90.
    #[schema(minimum = -90.0, maximum = 90.0)]
    latitude: f64,
    /// Longitude in degrees, -180 to 180.
    #[schema(minimum = -180.0, maximum = 180.0)]
    longitude: f64,
    /// Accuracy in meters, 0 to 1,000,000; default 10.
    #[serde(default = "default_accuracy")]
    #[schema(minimum = 0.0, maximum = 1_000_000.0, required = false)]
    accuracy: f64,
}

fn default_accuracy() -> f64 {
    10.0
}

/// Preferred color scheme reported to pages.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Scheme {
    Light,
    Dark,
}

/// Value of an extra header, or `{"set": true}` to keep its current value.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged)]
#[schema(as = BrowserHeader)]
enum Header {
    Value(String),
    Kept {
        /// Whether to keep the current value; with false, the header is removed.
        set: bool,
    },
}

/// Changes to the profile; omitted fields keep their values, and null restores the browser's own.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = BrowserProfileChange)]
pub(super) struct ProfileFields {
    /// User agent, 1 to 500 printable ASCII characters; takes precedence over that of an emulated device.
    #[serde(default)]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 500)]
    user_agent: Patch<String>,
    /// Language tag with optional region, visible to pages and sent in headers.
    #[serde(default)]
    #[schema(value_type = Option<String>, min_length = 2, max_length = 35, example = "de-CH")]
    locale: Patch<String>,
    /// IANA time zone of pages.
    #[serde(default)]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 100, example = "Europe/Zurich")]
    timezone: Patch<String>,
    /// Position reported to pages that ask for it, without a permission prompt.
    #[serde(default)]
    #[schema(value_type = Option<Place>)]
    geolocation: Patch<Place>,
    /// Preferred color scheme reported to pages.
    #[serde(default)]
    #[schema(value_type = Option<Scheme>)]
    color_scheme: Patch<Scheme>,
    /// Replaces all extra headers, which are sent with every request to any host; at most 100 with 16 KiB in total.
    #[serde(default)]
    #[schema(value_type = Option<BTreeMap<String, Header>>)]
    extra_headers: Patch<BTreeMap<String, Header>>,
}

fn mapped<T, U>(patch: Patch<T>, map: impl FnOnce(T) -> U) -> Patch<U> {
    match patch {
        Patch::Keep => Patch::Keep,
        Patch::Clear => Patch::Clear,
        Patch::Set(value) => Patch::Set(map(value)),
    }
}

impl From<ProfileFields> for ProfileChange {
    fn from(fields: ProfileFields) -> Self {
        let header = |(name, header): (String, Header)| match header {
            Header::Value(value) => Some((name, Some(value))),
            Header::Kept { set } => set.then_some((name, None)),
        };
        Self {
            user_agent: fields.user_agent,
            locale: fields.locale,
            timezone: fields.timezone,
            geolocation: mapped(fields.geolocation, |Place { latitude, longitude, accuracy }| Geolocation {
                latitude,
                longitude,
                accuracy,
            }),
            color_scheme: mapped(fields.color_scheme, |scheme| match scheme {
                Scheme::Light => ColorScheme::Light,
                Scheme::Dark => ColorScheme::Dark,
            }),
            extra_headers: mapped(fields.extra_headers, |headers| headers.into_iter().filter_map(header).collect()),
        }
    }
}

/// Marker of an extra header.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserHeaderSet)]
struct HeaderSet {
    /// Always true; the value is not returned.
    set: bool,
}

/// Active profile; null means the browser's own value.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserProfile)]
pub(super) struct ProfileView {
    /// User agent set by the profile.
    user_agent: Option<String>,
    /// Language tag, such as `de-CH`.
    locale: Option<String>,
    /// IANA time zone, such as `Europe/Zurich`.
    timezone: Option<String>,
    /// Position reported to pages.
    geolocation: Option<Place>,
    /// Preferred color scheme reported to pages.
    color_scheme: Option<Scheme>,
    /// Extra headers by name, without their values; empty if none are set.
    extra_headers: BTreeMap<String, HeaderSet>,
}

impl From<Profile> for ProfileView {
    fn from(profile: Profile) -> Self {
        Self {
            user_agent: profile.user_agent,
            locale: profile.locale,
            timezone: profile.timezone,
            geolocation: profile.geolocation.map(|place| Place {
                latitude: place.latitude,
                longitude: place.longitude,
                accuracy: place.accuracy,
            }),
            color_scheme: profile.color_scheme.map(|scheme| match scheme {
                ColorScheme::Light => Scheme::Light,
                ColorScheme::Dark => Scheme::Dark,
            }),
            extra_headers: profile.extra_headers.into_keys().map(|name| (name, HeaderSet { set: true })).collect(),
        }
    }
}

/// Change the browser profile
///
/// Applies consistently to pages, workers and headers, open or opened later, until the session is closed.
#[utoipa::path(post, path = "/api/browser/profile", tag = "browser", request_body = ProfileFields,
    responses(
        (status = 200, body = ProfileView),
        (status = 502, body = ErrorBody, description = "`browser_failed`, `browser_ended`: the browser failed"),
    ))]
pub(super) async fn change_browser_profile(
    State(browser): State<Browser>,
    Json(fields): Json<ProfileFields>,
) -> Answer<ProfileView> {
    Ok(Json(browser.change_profile(fields.into()).await?.into()))
}
