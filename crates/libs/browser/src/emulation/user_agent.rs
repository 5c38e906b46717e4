//! User agent with consistent client hints and platform.

use serde_json::{Value, json};

const MAX_USER_AGENT_BYTES: usize = 500;

/// Properties parsed from a user agent string.
#[derive(Debug, PartialEq, Eq)]
struct Parts<'a> {
    platform: Platform,
    is_mobile: bool,
    /// Version of a Chromium-based browser; `None` for other browsers.
    chrome: Option<&'a str>,
    brand: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Platform {
    Windows,
    MacOs,
    Android,
    Iphone,
    Ipad,
    Linux,
}

impl Platform {
    /// `navigator.platform`
    fn navigator_platform(self) -> &'static str {
        match self {
            Self::Windows => "Win32",
            Self::MacOs => "MacIntel",
            Self::Android => "Linux armv81",
            Self::Iphone => "iPhone",
            Self::Ipad => "iPad",
            Self::Linux => "Linux x86_64",
        }
    }

    /// Platform name and version in client hints.
    fn hint_platform(self) -> (&'static str, &'static str) {
        match self {
            Self::Windows => ("Windows", "15.0.0"),
            Self::MacOs => ("macOS", "14.5.0"),
            Self::Android => ("Android", "14.0.0"),
            Self::Iphone | Self::Ipad => ("iOS", "17.5.0"),
            Self::Linux => ("Linux", ""),
        }
    }
}

impl<'a> Parts<'a> {
    fn parse(user_agent: &'a str) -> Self {
        let has = |word: &str| user_agent.contains(word);
        let platform = if has("Windows") {
            Platform::Windows
        } else if has("iPhone") || has("iPod") {
            Platform::Iphone
        } else if has("iPad") {
            Platform::Ipad
        } else if has("Android") {
            Platform::Android
        } else if has("Macintosh") {
            Platform::MacOs
        } else {
            Platform::Linux
        };
        let after = user_agent.split_once("Chrome/").map(|(_, rest)| rest);
        let chrome = after.map(|rest| rest.split([' ', ';', ')']).next().unwrap_or_default());
        let brand = if has("Edg") {
            "Microsoft Edge"
        } else if has("OPR/") {
            "Opera"
        } else {
            "Google Chrome"
        };
        Self { platform, is_mobile: has("Mobile"), chrome: chrome.filter(|version| !version.is_empty()), brand }
    }

    /// Returns the client hints; `None` for a browser that is not based on Chromium.
    fn hints(&self) -> Option<Value> {
        let version = self.chrome?;
        let major = version.split('.').next().unwrap_or(version);
        let brands = |version: &str, other: &str| {
            json!([
                {"brand": "Not:A-Brand", "version": other},
                {"brand": "Chromium", "version": version},
                {"brand": self.brand, "version": version},
            ])
        };
        let (platform, platform_version) = self.platform.hint_platform();
        let is_android = self.platform == Platform::Android;
        Some(json!({
            "brands": brands(major, "8"),
            "fullVersionList": brands(version, "8.0.0.0"),
            "platform": platform,
            "platformVersion": platform_version,
            "architecture": if is_android { "" } else { "x86" },
            "bitness": if is_android { "" } else { "64" },
            "model": if is_android { "Pixel 8" } else { "" },
            "mobile": self.is_mobile,
            "wow64": false,
        }))
    }
}

/// Returns the parameters of `Emulation.setUserAgentOverride`. Without a user agent Chromium keeps its own.
pub(super) fn user_agent_override(user_agent: Option<&str>, languages: Option<&str>) -> Value {
    let mut parameters = json!({"userAgent": ""});
    if let Some(languages) = languages {
        parameters["acceptLanguage"] = languages.into();
    }
    if let Some(user_agent) = user_agent {
        let parts = Parts::parse(user_agent);
        parameters["platform"] = parts.platform.navigator_platform().into();
        if let Some(hints) = parts.hints() {
            parameters["userAgentMetadata"] = hints;
        }
        parameters["userAgent"] = user_agent.into();
    }
    parameters
}

/// Returns a script that overrides `navigator` in shared workers, where Chromium overrides only headers and hints.
pub(super) fn shared_worker_script(user_agent: &str) -> String {
    let version = user_agent.split_once('/').map_or(user_agent, |(_, version)| version);
    let overrides = json!({
        "userAgent": user_agent,
        "appVersion": version,
        "platform": Parts::parse(user_agent).platform.navigator_platform(),
    });
    format!(
        "for (const [name, value] of Object.entries({overrides})) Object.defineProperty(WorkerNavigator.prototype, name, \
         {{get: () => value, configurable: true, enumerable: true}})"
    )
}

pub(super) fn user_agent_problem(user_agent: &str) -> Option<String> {
    if user_agent.is_empty() || user_agent.len() > MAX_USER_AGENT_BYTES {
        return Some(format!("must be 1 to {MAX_USER_AGENT_BYTES} bytes long"));
    }
    let is_plain = user_agent.trim() == user_agent && user_agent.chars().all(|c| matches!(c, ' '..='~'));
    (!is_plain).then(|| "must be printable ASCII without leading or trailing spaces".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Preset;

    #[test]
    fn presets_are_consistent_with_the_running_chromium() {
        let agent_of = |preset: Preset| {
            user_agent_override(preset.emulation().user_agent_in("Chrome/156.0.8078.108").as_deref(), None)
        };
        let pixel = agent_of(Preset::Pixel);
        assert!(pixel["userAgent"].as_str().unwrap().contains("Chrome/156.0.0.0 Mobile"), "{pixel}");
        assert_eq!((&pixel["platform"], &pixel["userAgentMetadata"]["mobile"]), (&json!("Linux armv81"), &json!(true)));
        assert_eq!(pixel["userAgentMetadata"]["brands"][2], json!({"brand": "Google Chrome", "version": "156"}));
        let desktop = agent_of(Preset::Desktop);
        assert_eq!(
            (&desktop["platform"], &desktop["userAgentMetadata"]["platform"]),
            (&json!("Win32"), &json!("Windows"))
        );
        for (preset, platform) in [(Preset::Iphone, "iPhone"), (Preset::Ipad, "iPad")] {
            let apple = agent_of(preset);
            assert_eq!((&apple["platform"], apple.get("userAgentMetadata")), (&json!(platform), None), "{apple}");
        }
    }

    #[test]
    fn custom_user_agent_gets_hints_of_its_version() {
        let text = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.1.2 \
                    Safari/537.36 Edg/120.0.3.4";
        let edge = user_agent_override(Some(text), Some("de-DE,de"));
        assert_eq!(edge["userAgentMetadata"]["brands"][2], json!({"brand": "Microsoft Edge", "version": "120"}));
        assert_eq!((&edge["platform"], &edge["acceptLanguage"]), (&json!("Linux x86_64"), &json!("de-DE,de")));
        let firefox = user_agent_override(Some("Mozilla/5.0 (Windows NT 10.0; rv:130.0) Firefox/130.0"), None);
        assert_eq!((firefox.get("userAgentMetadata"), &firefox["platform"]), (None, &json!("Win32")));
        assert_eq!(user_agent_override(None, Some("fr")), json!({"userAgent": "", "acceptLanguage": "fr"}));
    }
}
