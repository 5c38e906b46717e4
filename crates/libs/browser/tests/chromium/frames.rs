//! Same-site and cross-site frames, and shadow roots.

use serde_json::json;

use crate::support::{act, click, context, expect_title, open, path, run, title, try_act};

const TELL: &str = "parent.postMessage('clicked', '*')";
const LISTEN: &str = "<script>onmessage = (e) => document.title = e.data</script>";

#[test]
fn elements_of_frames_are_found_and_clicked() {
    run(async {
        let context = context().await;
        let inner = path(&format!("<div style='height:1500px'></div><button onclick=\"{TELL}\">Inside</button><input oninput=\"parent.postMessage(this.value, '*')\">")).await;
        for origin in ["OTHER", "SELF"] {
            let tab = open(&context, &format!("{LISTEN}<p style='height:900px'>before</p><iframe style='border:7px solid;padding:11px' src={origin}{inner}></iframe>")).await;
            click(&tab, "text=Inside").await;
            expect_title(&tab, "clicked").await;
            act(&tab, json!({"action": "type_text", "selector": "input", "text": "deep"})).await;
            expect_title(&tab, "deep").await;
            let snapshot = tab.snapshot(true).await.unwrap();
            assert_eq!(
                snapshot.snapshot, "before\n@1 button \"Inside\"\n@2 textbox \"\" (value \"deep\", focused)\n",
                "{origin}"
            );
            act(&tab, json!({"action": "type_text", "selector": "@2", "text": "er"})).await;
            expect_title(&tab, "deeper").await;
        }
    });
}

#[test]
fn nested_cross_site_frames_are_reached() {
    run(async {
        let context = context().await;
        let inmost = path("<button onclick=\"top.postMessage('inmost', '*')\">Deep</button>").await;
        let middle = path(&format!("<h1>middle</h1><iframe src=SELF{inmost}></iframe>")).await;
        let tab = open(&context, &format!("{LISTEN}<iframe height=400 src=OTHER{middle}></iframe>")).await;
        click(&tab, "role=button[name=\"Deep\"]").await;
        expect_title(&tab, "inmost").await;
    });
}

#[test]
fn point_in_a_frame_selects_the_element_inside() {
    run(async {
        let context = context().await;
        let inner =
            path(&format!("<button style='position:fixed;inset:50% 0 0 0' onclick=\"{TELL}\">Inside</button>")).await;
        for origin in ["OTHER", "SELF"] {
            let frame =
                format!("<iframe style='position:fixed;inset:0;width:100%;height:100%' src={origin}{inner}></iframe>");
            let tab = open(&context, &format!("{LISTEN}{frame}")).await;
            click(&tab, "point=50%,90%").await;
            expect_title(&tab, "clicked").await;
        }
    });
}

#[test]
fn cover_over_a_frame_is_named() {
    run(async {
        let context = context().await;
        let inner = path("<button>Inside</button>").await;
        let tab = open(
            &context,
            &format!("<iframe src=OTHER{inner}></iframe><div id=veil style='position:fixed;inset:0'></div>"),
        )
        .await;
        let error =
            try_act(&tab, json!({"action": "click", "selector": "text=Inside", "timeout_ms": 2000})).await.unwrap_err();
        assert!(error.to_string().contains("the frame of the element is covered by <div id=\"veil\">"), "{error}");
    });
}

#[test]
fn frame_that_changes_its_site_is_still_usable() {
    run(async {
        let context = context().await;
        let second = path(&format!("<button onclick=\"{TELL}\">Second</button>")).await;
        let first = path(&format!("<a href=OTHER{second}>Change</a>")).await;
        let tab = open(&context, &format!("{LISTEN}<iframe src=SELF{first}></iframe>")).await;
        click(&tab, "text=Change").await;
        click(&tab, "text=Second").await;
        expect_title(&tab, "clicked").await;
    });
}

#[test]
fn open_shadow_roots_are_searched() {
    run(async {
        let context = context().await;
        let tab = open(&context, r#"<x-a></x-a><script>
            customElements.define('x-b', class extends HTMLElement { connectedCallback() {
              this.attachShadow({ mode: 'open' }).innerHTML = '<button class=inner><slot></slot></button>';
              this.shadowRoot.querySelector('button').onclick = () => document.title = (self.n = (self.n || 0) + 1) } });
            customElements.define('x-a', class extends HTMLElement { connectedCallback() {
              this.attachShadow({ mode: 'open' }).innerHTML = '<p>shade</p><x-b>Slotted</x-b>' } });</script>"#).await;
        for (number, selector) in ["button.inner", "role=button[name=\"Slotted\"]", "text=Slotted"].iter().enumerate() {
            click(&tab, selector).await;
            assert_eq!(title(&tab).await, (number + 1).to_string(), "{selector}");
        }
        let snapshot = tab.snapshot(true).await.unwrap();
        assert!(snapshot.snapshot.ends_with("shade\n@1 button \"Slotted\" (focused)\n"), "{}", snapshot.snapshot);
        click(&tab, "@1").await;
        expect_title(&tab, "4").await;
    });
}
