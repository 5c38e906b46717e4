//! Devices and profiles: consistent in headers, pages, frames, workers and popups.

use std::collections::BTreeMap;
use std::sync::Arc;

use agentd_browser::{ColorScheme, Context, Emulation, Geolocation, Preset, Profile, Tab};
use serde_json::{Value, json};

use crate::support::{RESULT_SCRIPT, act, context, hash_result, new_browser, options, page, path, run, script};

/// Reports the environment as seen by a page, and the headers received by a server.
const PROBE: &str = "const of = async name => ({
    name, userAgent: navigator.userAgent, platform: navigator.platform, languages: navigator.languages,
    zone: Intl.DateTimeFormat().resolvedOptions().timeZone, locale: Intl.NumberFormat().resolvedOptions().locale,
    brands: navigator.userAgentData?.brands.map(b => b.brand + b.version).sort() ?? [],
    headers: await (await fetch('/headers')).json() });";

struct Probe {
    html: String,
}

impl Probe {
    async fn new() -> Self {
        let worker = script(&format!("{PROBE} of('worker').then(postMessage)")).await;
        let shared =
            script(&format!("{PROBE} onconnect = e => of('shared').then(t => e.ports[0].postMessage(t))")).await;
        let frame = path(&format!("<script>{PROBE} of('frame').then(t => parent.postMessage(t, '*'))</script>")).await;
        let html = format!(
            "<meta name=viewport content='width=device-width'><iframe src='OTHER{frame}'></iframe><script>{PROBE}
            const heard = f => new Promise(f);
            const frame = heard(r => addEventListener('message', e => r(e.data)));
            const worker = heard(r => new Worker('{worker}').onmessage = e => r(e.data));
            const shared = heard(r => new SharedWorker('{shared}?' + location.pathname).port.onmessage = e => r(e.data));
            const place = heard(r => navigator.geolocation.getCurrentPosition(
                p => r([p.coords.latitude, p.coords.longitude]), e => r(e.message)));
            {RESULT_SCRIPT} (async () => say(JSON.stringify({{
                seen: await Promise.all([of('page'), frame, worker, shared]), place: await place,
                size: [innerWidth, innerHeight], screen: [screen.width, screen.height], scale: devicePixelRatio,
                touches: navigator.maxTouchPoints, dark: matchMedia('(prefers-color-scheme: dark)').matches }})))()
            </script>"
        );
        Self { html }
    }

    async fn report(&self, tab: &Tab) -> Value {
        act(tab, json!({"action": "goto", "url": page(&self.html).await.replace("127.0.0.1", "localhost")})).await;
        page_report(tab).await
    }
}

async fn page_report(tab: &Tab) -> Value {
    serde_json::from_str(&hash_result(tab).await).unwrap()
}

async fn emulate(context: &Context, emulation: Emulation) {
    emulation.check().unwrap();
    context.environment().set_emulation(emulation);
    context.apply_environment().await.unwrap();
}

#[test]
fn device_applies_everywhere_and_can_be_reset() {
    run(async {
        let browser = new_browser(options());
        let context = browser.context().await.unwrap();
        let tab = context.open_tab().await.unwrap();
        let probe = Probe::new().await;
        let plain = probe.report(&tab).await;
        emulate(&context, Preset::Pixel.emulation()).await;
        let pixel = probe.report(&tab).await;
        assert_eq!(pixel["size"], json!([412, 839]));
        assert_eq!((&pixel["screen"], &pixel["scale"]), (&json!([412, 915]), &json!(2.625)));
        assert_eq!(pixel["touches"], 5);
        let version = context.version().trim_start_matches("Chrome/").split('.').next().unwrap().to_owned();
        for seen in pixel["seen"].as_array().unwrap() {
            let user_agent = seen["userAgent"].as_str().unwrap();
            assert!(
                user_agent.contains("Android 10; K") && user_agent.contains(&format!("Chrome/{version}.0.0.0 Mobile")),
                "{seen:#}"
            );
            assert_eq!(seen["headers"]["user-agent"], user_agent, "{seen:#}");
            assert!(seen["brands"].as_array().unwrap().contains(&json!(format!("Google Chrome{version}"))), "{seen:#}");
        }
        let headers = &pixel["seen"][0]["headers"];
        assert_eq!(
            (&headers["sec-ch-ua-mobile"], &headers["sec-ch-ua-platform"]),
            (&json!("?1"), &json!("\"Android\""))
        );
        // Clicks still reach their element.
        let url = page("<button style='margin: 700px 20px' onclick=\"document.title = 'clicked'\">b</button>").await;
        act(&tab, json!({"action": "goto", "url": url})).await;
        assert_eq!(act(&tab, json!({"action": "click", "selector": "text=b"})).await.title, "clicked");
        // New tabs and popups are emulated before their first request.
        emulate(&context, Preset::Iphone.emulation()).await;
        let new = context.open_tab().await.unwrap();
        let iphone = probe.report(&new).await;
        assert_eq!(iphone["size"], json!([393, 659]));
        for seen in iphone["seen"].as_array().unwrap() {
            assert!(seen["userAgent"].as_str().unwrap().contains("iPhone OS"), "{seen:#}");
            assert!(seen["headers"].get("sec-ch-ua").is_none(), "{seen:#}");
        }
        assert_eq!(iphone["seen"][0]["platform"], "iPhone");
        let popup = path(&probe.html).await;
        let opens = page(&format!("<a target=_blank href='{popup}'>Go</a>")).await;
        act(&tab, json!({"action": "goto", "url": opens})).await;
        act(&tab, json!({"action": "click", "selector": "text=Go"})).await;
        let popup = context.wait_for_tab(crate::support::SOON, |tab| tab.opener_id.is_some()).await.unwrap();
        assert_eq!(page_report(&popup).await["size"], json!([393, 659]));
        // Another Chromium with the same environment.
        let environment = Arc::clone(context.environment());
        drop(context);
        browser.close().await;
        let context = browser.context_in(environment).await.unwrap();
        let tab = context.open_tab().await.unwrap();
        assert_eq!(probe.report(&tab).await["size"], json!([393, 659]));
        emulate(&context, Emulation::default()).await;
        let undone = probe.report(&tab).await;
        let without_ports = |mut report: Value| {
            for seen in report["seen"].as_array_mut().unwrap() {
                seen["headers"].as_object_mut().unwrap().retain(|name, _| !matches!(name.as_str(), "host" | "referer"));
            }
            report
        };
        assert_eq!(without_ports(undone), without_ports(plain));
    });
}

#[test]
fn profile_applies_everywhere_and_can_be_reset() {
    run(async {
        let context = context().await;
        let tab = context.open_tab().await.unwrap();
        let probe = Probe::new().await;
        let plain = probe.report(&tab).await;
        let set = async |profile: Profile| {
            profile.check().unwrap();
            context.environment().set_profile(profile);
            context.apply_environment().await.unwrap();
        };
        let profile = Profile {
            user_agent: Some("Mozilla/5.0 (Macintosh) AppleWebKit/537.36 Chrome/120.0.0.0 Safari/537.36".to_owned()),
            locale: Some("de-CH".to_owned()),
            timezone: Some("Asia/Tokyo".to_owned()),
            geolocation: Some(Geolocation { latitude: 46.5, longitude: -7.25, accuracy: 10.0 }),
            color_scheme: Some(ColorScheme::Dark),
            extra_headers: BTreeMap::from([("X-Own".to_owned(), "mine".to_owned())]),
        };
        set(profile.clone()).await;
        let other = context.open_tab().await.unwrap();
        for tab in [&tab, &other] {
            let report = probe.report(tab).await;
            assert_eq!((&report["place"], &report["dark"]), (&json!([46.5, -7.25]), &json!(true)), "{report:#}");
            for seen in report["seen"].as_array().unwrap() {
                assert_eq!(seen["languages"], json!(["de-CH", "de"]), "{seen:#}");
                assert_eq!((&seen["zone"], &seen["locale"]), (&json!("Asia/Tokyo"), &json!("de-CH")), "{seen:#}");
                assert_eq!(seen["brands"][1], "Google Chrome120", "{seen:#}");
                let headers = &seen["headers"];
                assert_eq!(headers["accept-language"], "de-CH,de;q=0.9", "{seen:#}");
                assert_eq!(
                    (&headers["x-own"], &headers["user-agent"]),
                    (&json!("mine"), &seen["userAgent"]),
                    "{seen:#}"
                );
            }
            let hints = report["seen"][0]["headers"]["sec-ch-ua"].as_str().unwrap();
            assert!(hints.contains("\"Google Chrome\";v=\"120\""), "{hints}");
        }
        // Closing the tab that set the locale of a process does not affect the other tabs.
        context.close_tab(tab.id()).await.unwrap();
        let report = probe.report(&other).await;
        assert_eq!((&report["seen"][0]["zone"], &report["seen"][0]["locale"]), (&json!("Asia/Tokyo"), &json!("de-CH")));
        set(Profile { timezone: Some("America/Lima".to_owned()), ..Profile::default() }).await;
        assert_eq!(probe.report(&other).await["seen"][2]["zone"], "America/Lima");
        set(Profile::default()).await;
        let undone = probe.report(&other).await;
        assert_eq!((&undone["dark"], &undone["seen"][0]["languages"]), (&json!(false), &plain["seen"][0]["languages"]));
        for (seen, before) in undone["seen"].as_array().unwrap().iter().zip(plain["seen"].as_array().unwrap()) {
            assert_eq!(
                (&seen["zone"], &seen["userAgent"], &seen["brands"]),
                (&before["zone"], &before["userAgent"], &before["brands"])
            );
            assert!(seen["headers"].get("x-own").is_none());
        }
        assert!(undone["place"].is_string(), "{undone:#}");
    });
}
