//! Emulation commands for each session, so that pages, frames and workers present the same browser.

use serde_json::{Value, json};

use super::user_agent::{shared_worker_script, user_agent_override};
use super::{ColorScheme, Emulation, Profile};
use crate::BrowserError;

/// Kind of target that a session is attached to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Page,
    /// Out-of-process frame.
    Frame,
    /// Dedicated worker. Its requests are intercepted by the page.
    Worker,
    /// Service worker or shared worker.
    SharedWorker,
}

/// Emulated device and user.
#[derive(Debug, Clone, Default)]
pub(crate) struct Appearance {
    pub(crate) emulation: Emulation,
    pub(crate) profile: Profile,
}

type Command = (&'static str, Value);

impl Appearance {
    /// Returns the commands that apply the appearance to a session. `viewport` is the size without emulation,
    /// `chromium` the reported version. A new session has the defaults; others may need earlier overrides reset.
    pub(crate) fn commands(&self, kind: Kind, viewport: (u32, u32), chromium: &str, is_new: bool) -> Vec<Command> {
        let Self { emulation, profile } = self;
        let mut commands = Vec::new();
        let mut add = |is_wanted: bool, method, parameters| {
            if is_wanted || !is_new {
                commands.push((method, parameters));
            }
        };
        let user_agent = profile.user_agent.clone().or_else(|| emulation.user_agent_in(chromium));
        let languages = profile.languages();
        let parameters = user_agent_override(user_agent.as_deref(), languages.as_deref());
        add(user_agent.is_some() || languages.is_some(), "Emulation.setUserAgentOverride", parameters);
        let headers = json!({"headers": profile.extra_headers});
        add(!profile.extra_headers.is_empty(), "Network.setExtraHTTPHeaders", headers);
        if let Some(user_agent) = user_agent.filter(|_| kind == Kind::SharedWorker && is_new) {
            add(true, "Runtime.evaluate", json!({"expression": shared_worker_script(&user_agent)}));
        }
        if matches!(kind, Kind::Page | Kind::Frame) {
            let [locale, timezone] = self.process_overrides();
            add(profile.locale.is_some(), locale.0, locale.1);
            add(profile.timezone.is_some(), timezone.0, timezone.1);
            let touches = if emulation.is_mobile { 5 } else { 1 };
            let touch = json!({"enabled": emulation.is_mobile, "maxTouchPoints": touches});
            add(emulation.is_mobile, "Emulation.setTouchEmulationEnabled", touch);
            let scheme = match profile.color_scheme {
                Some(ColorScheme::Light) => "light",
                Some(ColorScheme::Dark) => "dark",
                None => "",
            };
            let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
            add(profile.color_scheme.is_some(), "Emulation.setEmulatedMedia", media);
            match profile.geolocation {
                Some(position) => add(true, "Emulation.setGeolocationOverride", json!(position)),
                None => add(false, "Emulation.clearGeolocationOverride", json!({})),
            }
        }
        if kind == Kind::Page {
            commands.push(("Emulation.setDeviceMetricsOverride", self.metrics(viewport)));
        }
        commands
    }

    /// Returns the overrides that apply to a whole process, including workers. They end with the session that set them.
    pub(crate) fn process_overrides(&self) -> [Command; 2] {
        let locale = self.profile.locale.as_ref().map_or(json!({}), |locale| json!({"locale": locale}));
        let timezone = json!({"timezoneId": self.profile.timezone.as_deref().unwrap_or_default()});
        [("Emulation.setLocaleOverride", locale), ("Emulation.setTimezoneOverride", timezone)]
    }

    pub(crate) fn has_process_overrides(&self) -> bool {
        self.profile.locale.is_some() || self.profile.timezone.is_some()
    }

    fn metrics(&self, viewport: (u32, u32)) -> Value {
        let emulation = &self.emulation;
        let (width, height) = emulation.viewport.unwrap_or(viewport);
        let mut metrics = json!({
            "width": width,
            "height": height,
            "deviceScaleFactor": emulation.device_scale_factor,
            "mobile": emulation.is_mobile,
        });
        if let Some((width, height)) = emulation.screen {
            metrics["screenWidth"] = width.into();
            metrics["screenHeight"] = height.into();
        }
        if emulation.is_mobile {
            let (kind, angle) = if width > height { ("landscapePrimary", 90) } else { ("portraitPrimary", 0) };
            metrics["screenOrientation"] = json!({"type": kind, "angle": angle});
        }
        metrics
    }
}

/// Whether Chromium reports that another target of the same process has already set this override.
pub(crate) fn is_already_in_effect(error: &BrowserError) -> bool {
    matches!(error, BrowserError::Protocol(message) if message.contains("already in effect"))
}
