//! Text snapshots and screenshots.

use agentd_browser::{Area, ImageFormat, MAX_ELEMENTS};
use serde_json::json;

use crate::support::{act, click, context, open, run, title, try_act};

#[test]
fn snapshot_lists_interactive_elements_in_reading_order() {
    run(async {
        let context = context().await;
        let tab = open(&context, r#"<h1>Shop</h1><p>Two  for
            one</p><a href="/x">Home</a><button disabled>Save "all"</button><label>Name <input value=Ann required></label>
            <select aria-label=Size><option>S<option selected>M</select><input type=checkbox checked aria-label=Agree>
            <details><summary>More</summary>hidden</details><div hidden><button>Never</button></div><div tabindex=0 aria-label=Card role=group>x</div>"#).await;
        let snapshot = tab.snapshot(false).await.unwrap();
        assert_eq!(
            snapshot.snapshot,
            "@1 link \"Home\"\n@2 button \"Save 'all'\" (disabled)\n@3 textbox \"Name\" (value \"Ann\", required)\n\
            @4 combobox \"Size\" (value \"M\", collapsed)\n@5 checkbox \"Agree\" (checked)\n@6 disclosure \"More\" (collapsed)\n@7 group \"Card\"\n"
        );
        assert_eq!((snapshot.element_count, snapshot.truncated), (7, false));
        let full = tab.snapshot(true).await.unwrap();
        assert!(full.snapshot.starts_with("# Shop\nTwo for one\n@1 link \"Home\"\n"), "{}", full.snapshot);
        assert!(tab.readable_text().await.unwrap().text.contains("Two for one"));
    });
}

#[test]
fn lone_surrogates_do_not_break_reading_a_page() {
    run(async {
        let context = context().await;
        let html = r#"<button onclick="document.title = 'cut \ud83d'">x</button><p id=p></p><script>
            document.querySelector('button').textContent = 'Go \ud83d'; p.textContent = '\ude00 and \ud83d\ude00';
            localStorage.half = 'a\udc00b'</script>"#;
        let tab = open(&context, html).await;
        let full = tab.snapshot(true).await.unwrap();
        assert_eq!(full.snapshot, "@1 button \"Go \u{fffd}\"\n\u{fffd} and \u{1f600}\n");
        click(&tab, "@1").await;
        assert_eq!(title(&tab).await, "cut \u{fffd}");
        assert!(tab.readable_text().await.unwrap().text.contains("and \u{1f600}"));
        let state = context.storage_state().await.unwrap().state;
        assert_eq!(state.origins[0].local_storage[0].value, "a\u{fffd}b");
    });
}

#[test]
fn numbers_are_valid_while_their_element_exists() {
    run(async {
        let context = context().await;
        let tab = open(
            &context,
            r#"<div id=list><button onclick="document.title = 'kept'">Keep</button><button id=o>Other</button></div>"#,
        )
        .await;
        tab.snapshot(false).await.unwrap();
        click(&tab, "@1").await;
        assert_eq!(title(&tab).await, "kept");

        let tab = open(&context, r#"<div id=list><button id=a onclick="document.title = 'a'">A</button><button id=b>B</button><button id=c>C</button></div>
            <button id=go onclick="list.append(a); a.className = 'moved'; b.textContent = 'Delete'; c.outerHTML = '<button>C</button>'">Render</button>"#).await;
        tab.snapshot(false).await.unwrap();
        click(&tab, "#go").await;
        click(&tab, "@1").await;
        assert_eq!(title(&tab).await, "a");
        for (number, why) in
            [("@2", "changed since the snapshot"), ("@3", "no longer exists"), ("@77", "not in the last snapshot")]
        {
            let error = try_act(&tab, json!({"action": "click", "selector": number})).await.unwrap_err();
            assert_eq!(error.code(), "stale_ref", "{number}");
            assert!(error.to_string().contains(why), "{error}");
        }
        act(&tab, json!({"action": "reload"})).await;
        assert_eq!(try_act(&tab, json!({"action": "click", "selector": "@1"})).await.unwrap_err().code(), "stale_ref");
    });
}

#[test]
fn large_pages_and_names_are_truncated() {
    run(async {
        let context = context().await;
        let tab = open(
            &context,
            "<body><script>document.body.innerHTML = \
            Array.from({length: 700}, (_, i) => `<button>${i} ${'x'.repeat(500)}</button>`).join('')</script>",
        )
        .await;
        let snapshot = tab.snapshot(false).await.unwrap();
        assert_eq!((snapshot.element_count, snapshot.truncated), (MAX_ELEMENTS, true));
        assert!(snapshot.snapshot.len() < 110_000, "{}", snapshot.snapshot.len());
        // Exactly the maximum number of elements is not truncated.
        for (count, is_cut) in [(MAX_ELEMENTS, false), (MAX_ELEMENTS + 1, true)] {
            let tab = open(&context, &format!("{}<p>The end</p>", "<button>x</button>".repeat(count))).await;
            let snapshot = tab.snapshot(false).await.unwrap();
            assert_eq!((snapshot.element_count, snapshot.truncated), (MAX_ELEMENTS, is_cut));
        }
    });
}

/// Checks that the partial query of a large page lists the same elements as the whole tree.
#[test]
fn large_pages_list_the_same_elements_as_small_ones() {
    const PARTS: &str = r##"<a href="/x">Home</a><a>Nowhere</a><button disabled>Save</button><label>Name <input value=Ann required></label>
        <input type=hidden value=x><select aria-label=Size><option>S<option selected>M</select><select multiple aria-label=List><option>P<option selected>Q</select>
        <input type=checkbox checked aria-label=Agree><input type=date aria-label=Day><input type=color aria-label=Tint>
        <details><summary>More</summary><button>Inside</button></details><div hidden><button>Never</button></div>
        <button style="visibility:hidden">Unseen</button><div aria-hidden=true><a href=y>Untold</a></div><a href=z style="display:contents">Bare</a>
        <div tabindex=0 aria-label=Card role=group>x</div><div role=switch aria-checked=true aria-label=Wifi></div><div role=listitem>no</div>
        <div contenteditable aria-label=Notes>hi</div><p contenteditable=false>no</p>
        <div id=host></div><img usemap="#m" width=9 height=9><map name=m><area href=a alt=Area shape=rect coords=0,0,9,9></map>
        <iframe srcdoc="<button>In frame</button>"></iframe><button>Last</button><script>
        host.attachShadow({mode: 'open'}).innerHTML = '<button>In shadow</button>'</script>"##;
    run(async {
        let context = context().await;
        let small = open(&context, PARTS).await.snapshot(false).await.unwrap();
        let filler = "<script>document.body.insertAdjacentHTML('beforeend', '<i></i>'.repeat(3000))</script>";
        let tab = open(&context, &format!("{PARTS}{filler}")).await;
        let large = tab.snapshot(false).await.unwrap();
        assert!(small.element_count > 18, "{}", small.snapshot);
        assert_eq!(large.snapshot, small.snapshot);
        let last = format!("@{}", large.element_count);
        assert_eq!(click(&tab, &last).await.title, "");
        // Hidden elements do not count towards the limit.
        let script = "<script>document.body.innerHTML = '<button hidden>x</button><button role=none aria-hidden=true>y</button>'\
            .repeat(700) + '<i></i>'.repeat(3000) + '<button>Seen</button>'</script>";
        let tab = open(&context, &format!("<body>{script}")).await;
        let snapshot = tab.snapshot(false).await.unwrap();
        assert_eq!((snapshot.snapshot.as_str(), snapshot.truncated), ("@1 button \"Seen\"\n", false));
    });
}

#[test]
fn screenshots_have_the_size_of_their_area() {
    run(async {
        let context = context().await;
        let tab = open(&context, r#"<body style="margin:0"><div id=d style="margin-top:2000px;width:120px;height:60px;background:red"></div>"#).await;
        let size = |png: &[u8]| {
            assert_eq!(&png[1..4], b"PNG");
            let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
            (number(16), number(20))
        };
        assert_eq!(size(&tab.screenshot(ImageFormat::Png, &Area::Viewport).await.unwrap()), (1280, 800));
        let full = size(&tab.screenshot(ImageFormat::Png, &Area::FullPage).await.unwrap());
        assert!(full.0 >= 1_200 && full.1 == 2060, "{full:?}");
        let element = tab.screenshot(ImageFormat::Png, &Area::Element("#d".into())).await.unwrap();
        assert_eq!(size(&element), (120, 60));
        let jpeg = tab.screenshot(ImageFormat::Jpeg(60), &Area::Viewport).await.unwrap();
        assert_eq!(&jpeg[..3], [0xff, 0xd8, 0xff]);
        assert_eq!(tab.screenshot(ImageFormat::Jpeg(0), &Area::Viewport).await.unwrap_err().code(), "invalid_action");
    });
}
