//! Clickable elements without a role, and checkboxes that are replaced by their labels.

use serde_json::json;

use crate::support::{act, click, context, expect_title, open, run, title, try_act};

const LOG: &str = "<script>const log = (said) => document.title += `${document.title ? '|' : ''}${said}`</script>";

#[test]
fn snapshot_lists_clickable_elements_without_a_role() {
    run(async {
        let context = context().await;
        let tab = open(
            &context,
            &format!(
                r#"{LOG}<div style="cursor:pointer" onclick="log('card')"><h3>Holiday plan</h3><span>2 pages</span></div>
            <ul id=list><li>Lisbon</li><li>Porto</li></ul><div tabindex=0 onclick="log('focus')">Keyboard card</div>
            <div id=handler>Property</div><p>Plain text</p><div id=icon><svg width=20 height=20><title>Close</title></svg></div>
            <script>for (const item of list.children) item.addEventListener('click', () => log(item.textContent));
            handler.onclick = () => log('property'); icon.addEventListener('pointerdown', () => log('icon'))</script>"#
            ),
        )
        .await;
        let snapshot = tab.snapshot(false).await.unwrap();
        assert_eq!(
            snapshot.snapshot,
            "@1 clickable \"Holiday plan2 pages\"\n@2 clickable \"Lisbon\"\n@3 clickable \"Porto\"\n\
            @4 clickable \"Keyboard card\"\n@5 clickable \"Property\"\n@6 clickable \"Close\"\n"
        );
        for number in 1..=6 {
            click(&tab, &format!("@{number}")).await;
        }
        expect_title(&tab, "card|Lisbon|Porto|focus|property|icon").await;
        let full = tab.snapshot(true).await.unwrap().snapshot;
        assert!(full.contains("Plain text\n") && full.matches("Lisbon").count() == 1, "{full}");
    });
}

#[test]
fn containers_and_parts_of_clickable_elements_are_left_out() {
    run(async {
        let context = context().await;
        // A delegated framework listener, a pointer cursor around links, and labels of visible checkboxes.
        let tab = open(
            &context,
            r#"<div id=root><p>Words</p><button>Save</button><div style="cursor:pointer"><a href="/x">Go</a></div>
            <label style="cursor:pointer"><input type=checkbox>Agree</label><a href="/y"><span style="cursor:pointer" id=s>Deep</span></a>
            <div class=row style="cursor:pointer"><b>Outer</b><span id=inner>inner</span></div><div hidden onclick="1">Never</div></div>
            <script>root.addEventListener('click', () => {}); document.body.addEventListener('click', () => {});
            s.addEventListener('click', () => {}); document.addEventListener('click', () => {})</script>"#,
        )
        .await;
        let snapshot = tab.snapshot(false).await.unwrap();
        assert_eq!(
            snapshot.snapshot,
            "@1 button \"Save\"\n@2 link \"Go\"\n@3 checkbox \"Agree\"\n@4 link \"Deep\"\n@5 clickable \"Outerinner\"\n"
        );
    });
}

#[test]
fn number_of_a_clickable_element_is_stale_after_its_text_changed() {
    run(async {
        let context = context().await;
        let tab = open(
            &context,
            r#"<div id=a onclick="document.title = 'a'">Keep</div><div id=b onclick="document.title = 'b'">Archive</div>
            <div id=c onclick="document.title = 'c'">Gone</div>
            <button id=go onclick="b.textContent = 'Delete'; c.remove()">Render</button>"#,
        )
        .await;
        tab.snapshot(false).await.unwrap();
        click(&tab, "#go").await;
        click(&tab, "@1").await;
        assert_eq!(title(&tab).await, "a");
        for (number, why) in [("@2", "changed since the snapshot"), ("@3", "no longer exists")] {
            let error = try_act(&tab, json!({"action": "click", "selector": number})).await.unwrap_err();
            assert_eq!(error.code(), "stale_ref", "{number}");
            assert!(error.to_string().contains(why), "{error}");
        }
    });
}

#[test]
fn large_pages_and_frames_list_clickable_elements_too() {
    run(async {
        let context = context().await;
        let filler = "<p>text</p>".repeat(2_000);
        let inner = "<div onclick='parent.document.title = 1'>Inside</div>";
        let tab = open(
            &context,
            &format!(
                "{filler}<div id=x>Heard</div><div style='cursor:pointer'>Styled</div><iframe srcdoc=\"{inner}\"></iframe>\
                 <script>x.addEventListener('click', () => document.title = 'x')</script>"
            ),
        )
        .await;
        let snapshot = tab.snapshot(false).await.unwrap().snapshot;
        for name in ["Heard", "Styled", "Inside"] {
            assert!(snapshot.contains(&format!("clickable \"{name}\"")), "{name} in {snapshot}");
        }
        click(&tab, "@1").await;
        assert_eq!(title(&tab).await, "x");
    });
}

#[test]
fn names_are_found_as_snapshots_show_them() {
    run(async {
        let context = context().await;
        let tab = open(
            &context,
            &format!(
                "{LOG}<a href='#' onclick=\"log('nbsp')\">Read&nbsp;more</a><button onclick=\"log('lines')\">Two\n   \
                 lines</button><button onclick=\"log('quotes')\">Say &quot;hi&quot;</button>\
                 <button onclick=\"log('soft')\">Ver&shy;sand&#8203;kosten</button>"
            ),
        )
        .await;
        let snapshot = tab.snapshot(false).await.unwrap().snapshot;
        for line in snapshot.lines() {
            let (_, line) = line.split_once(' ').unwrap();
            let (role, name) = line.split_once(' ').unwrap();
            click(&tab, &format!("role={role}[name={name}]")).await;
        }
        click(&tab, "text=Versandkosten").await;
        click(&tab, "role=link[name=\"Read\u{a0} more\"]").await;
        expect_title(&tab, "nbsp|lines|quotes|soft|soft|nbsp").await;
        let tab = open(&context, "<button>Same name</button><button>Same&nbsp;name</button>").await;
        let error = try_act(&tab, json!({"action": "click", "selector": "role=button[name=\"Same name\"]"})).await;
        assert_eq!(error.unwrap_err().code(), "ambiguous", "both are shown alike");
    });
}

#[test]
fn hidden_checkboxes_are_used_through_their_labels() {
    run(async {
        let context = context().await;
        let log = "onchange=\"document.title = this.id + this.checked\"";
        for (kind, html) in [
            (
                "no size",
                format!(
                    "<input type=checkbox id=b style='appearance:none;width:0;height:0' {log}><label for=b>Box</label>"
                ),
            ),
            (
                "outside",
                format!("<label><input type=checkbox id=b style='position:absolute;left:-9999px' {log}>Box</label>"),
            ),
            ("transparent", format!("<label><input type=checkbox id=b style='opacity:0' {log}>Box</label>")),
            ("clipped", format!("<label><input type=checkbox id=b style='clip-path:inset(50%)' {log}>Box</label>")),
            (
                "radio",
                format!("<input type=radio id=b style='position:fixed;top:-99px' {log}><label for=b>Box</label>"),
            ),
        ] {
            let tab = open(&context, &html).await;
            let snapshot = tab.snapshot(false).await.unwrap().snapshot;
            assert!(snapshot.starts_with("@1 checkbox \"Box\"") || kind == "radio", "{kind}: {snapshot}");
            act(&tab, json!({"action": "check", "selector": "@1", "timeout_ms": 5000})).await;
            assert_eq!(title(&tab).await, "btrue", "{kind}");
        }
        // If the checkbox is not in the tree, its label is listed.
        let tab =
            open(&context, &format!("<label><input type=checkbox id=b style='display:none' {log}>Box</label>")).await;
        assert_eq!(tab.snapshot(false).await.unwrap().snapshot, "@1 clickable \"Box\"\n");
        act(&tab, json!({"action": "check", "selector": "@1"})).await;
        assert_eq!(title(&tab).await, "btrue");
        // A checkbox without a label is not changed.
        let tab = open(
            &context,
            &format!("<input type=checkbox id=b aria-label=Box style='width:0;height:0;appearance:none' {log}>"),
        )
        .await;
        let error = try_act(&tab, json!({"action": "check", "selector": "#b", "timeout_ms": 500})).await.unwrap_err();
        assert_eq!(error.code(), "not_actionable");
    });
}
