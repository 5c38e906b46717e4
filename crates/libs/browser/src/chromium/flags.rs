//! The arguments of Chromium, each with its reason.

use std::ffi::OsString;
use std::path::Path;

use crate::{BrowserOptions, ChromiumSandbox};

/// Always given.
const ALWAYS: &[&str] = &[
    // Commands come over two inherited pipes; no port is open to other users of the machine.
    "--remote-debugging-pipe",
    // No page, question or tour of its own.
    "--no-startup-window",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-default-apps",
    "--disable-search-engine-choice-screen",
    "--disable-infobars",
    // Requests that no page asked for: updates, experiments, safe browsing lists, sync, crash and usage reports.
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
    // What Chromium still sends on its own goes nowhere: connecting to this address fails at once. Contexts, in which
    // pages are, have proxies of their own.
    "--proxy-server=http://255.255.255.255:1",
    "--proxy-bypass-list=<-loopback>",
    // Names are resolved by the proxy, when something is really asked for.
    "--dns-prefetch-disable",
    // WebRTC sends UDP past a proxy otherwise.
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    // Pages that nobody looks at must run as those that somebody does: several tabs are worked in at once.
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
    "--disable-background-timer-throttling",
    // Windows of the browser that no page event reports: they would wait for a person.
    "--disable-hang-monitor",
    "--disable-prompt-on-repost",
    "--noerrdialogs",
    // The desktop's key ring asks a person; the profile is thrown away anyway.
    "--password-store=basic",
    "--mute-audio",
    // Each site in a process of its own, however little memory there is.
    "--site-per-process",
    // A page that has drawn nothing yet takes events all the same; they would be dropped.
    "--allow-pre-commit-input",
    // A wheel's way is gone at once, not over many frames.
    "--disable-smooth-scrolling",
    // The same colours in pictures on every machine.
    "--force-color-profile=srgb",
];

/// Features that send something to somebody, put windows of their own over a page, or hide what a page does.
const FEATURES_OFF: &[&str] = &[
    "AutofillServerCommunication",
    // A page that comes back from it reports no loading.
    "BackForwardCache",
    "CertificateTransparencyComponentUpdater",
    "DialMediaRouteProvider",
    // An address with `http` is meant so.
    "HttpsUpgrades",
    "InterestFeedContentSuggestions",
    "LensOverlay",
    "MediaRouter",
    "OptimizationHints",
    // Holds the first frame of a page back, and with it every wait for frames.
    "PaintHolding",
    "Translate",
];

/// Below this shared memory on disk is slower but does not run out (containers get 64 MiB).
const ENOUGH_SHARED_MEMORY: u64 = 1 << 30;

pub(super) fn arguments(options: &BrowserOptions, profile: &Path) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = ALWAYS.iter().map(OsString::from).collect();
    let mut add = |argument: String| arguments.push(argument.into());
    add(format!("--disable-features={}", FEATURES_OFF.join(",")));
    add(format!("--renderer-process-limit={}", options.limits.renderers));
    add(format!("--window-size={},{}", options.viewport.0, options.viewport.1));
    if options.headless {
        add("--headless".to_owned());
    }
    if options.sandbox == ChromiumSandbox::Off {
        add("--no-sandbox".to_owned());
    }
    if !has_shared_memory() {
        add("--disable-dev-shm-usage".to_owned());
    }
    let mut data_directory = OsString::from("--user-data-dir=");
    data_directory.push(profile);
    arguments.push(data_directory);
    arguments
}

fn has_shared_memory() -> bool {
    rustix::fs::statvfs("/dev/shm").is_ok_and(|system| system.f_bavail * system.f_frsize >= ENOUGH_SHARED_MEMORY)
}
