//! Command line arguments of Chromium with their reasons.

use std::ffi::OsString;
use std::path::Path;

use crate::{BrowserOptions, ChromiumSandbox};

/// Arguments that are always passed.
const ALWAYS: &[&str] = &[
    // Commands use two inherited pipes; no port is open to other users of the machine.
    "--remote-debugging-pipe",
    // No start page, prompt or tour.
    "--no-startup-window",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-default-apps",
    "--disable-search-engine-choice-screen",
    "--disable-infobars",
    // No requests of the browser itself: updates, experiments, safe browsing lists, sync, crash and usage reports.
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-component-extensions-with-background-pages",
    "--disable-extensions",
    "--disable-sync",
    "--disable-domain-reliability",
    "--disable-client-side-phishing-detection",
    "--disable-field-trial-config",
    "--disable-breakpad",
    "--disable-crash-reporter",
    "--metrics-recording-only",
    "--no-pings",
    "--safebrowsing-disable-auto-update",
    // Remaining requests of the browser itself fail: no connection to this address succeeds. Contexts, which contain
    // the pages, have their own proxies.
    "--proxy-server=http://255.255.255.255:1",
    "--proxy-bypass-list=<-loopback>",
    // Names are resolved by the proxy, and only for actual requests.
    "--dns-prefetch-disable",
    // Otherwise WebRTC would send UDP past the proxy.
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    // Hidden pages must run like visible ones: several tabs are used concurrently.
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
    "--disable-background-timer-throttling",
    // No browser windows that would wait for a user and that no page event reports.
    "--disable-hang-monitor",
    "--disable-prompt-on-repost",
    "--noerrdialogs",
    // The desktop keyring would prompt the user; the profile is temporary anyway.
    "--password-store=basic",
    "--mute-audio",
    // Each site has its own process, regardless of available memory.
    "--site-per-process",
    // Events are accepted before the first paint; otherwise they would be dropped.
    "--allow-pre-commit-input",
    // The wheel scrolls immediately, not over many frames.
    "--disable-smooth-scrolling",
    // Screenshots have the same colours on every machine.
    "--force-color-profile=srgb",
];

/// Disabled features: they send data to third parties, cover pages with their own windows, or hide page activity.
const DISABLED_FEATURES: &[&str] = &[
    "AutofillServerCommunication",
    // A page restored from it reports no load.
    "BackForwardCache",
    "CertificateTransparencyComponentUpdater",
    "DialMediaRouteProvider",
    // An explicit `http` URL must not be upgraded.
    "HttpsUpgrades",
    "InterestFeedContentSuggestions",
    "LensOverlay",
    "MediaRouter",
    "OptimizationHints",
    // Delays the first frame of a page, and with it every wait for frames.
    "PaintHolding",
    "Translate",
];

/// Minimum shared memory in bytes. Below it, shared memory files go to disk, which is slower but does not run out
/// (containers have 64 MiB).
const MIN_SHARED_MEMORY_BYTES: u64 = 1 << 30;

pub(super) fn arguments(options: &BrowserOptions, profile: &Path) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = ALWAYS.iter().map(OsString::from).collect();
    let mut add = |argument: String| arguments.push(argument.into());
    add(format!("--disable-features={}", DISABLED_FEATURES.join(",")));
    add(format!("--renderer-process-limit={}", options.limits.renderers));
    add(format!("--window-size={},{}", options.viewport.0, options.viewport.1));
    if options.headless {
        add("--headless".to_owned());
    }
    if options.sandbox == ChromiumSandbox::Off {
        add("--no-sandbox".to_owned());
    }
    if !has_enough_shared_memory() {
        add("--disable-dev-shm-usage".to_owned());
    }
    let mut data_directory = OsString::from("--user-data-dir=");
    data_directory.push(profile);
    arguments.push(data_directory);
    arguments
}

fn has_enough_shared_memory() -> bool {
    rustix::fs::statvfs("/dev/shm").is_ok_and(|system| system.f_bavail * system.f_frsize >= MIN_SHARED_MEMORY_BYTES)
}
