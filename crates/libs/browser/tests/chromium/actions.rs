//! Clicks and their obstacles.

use serde_json::json;

use crate::support::{act, click, context, open, path, run, title, try_act};

#[test]
fn clicks_are_real_events_in_order() {
    run(async {
        let context = context().await;
        let tab = open(&context, r#"<button id=b>Go</button><script>
            let log = [];
            for (const name of ['pointerdown', 'mousedown', 'pointerup', 'mouseup', 'click', 'dblclick', 'contextmenu', 'mouseover'])
              b.addEventListener(name, (e) => { log.push(name + (e.isTrusted ? '' : '!') + (e.detail > 1 ? e.detail : '')); document.title = log.join(' ') });
            </script>"#).await;
        click(&tab, "#b").await;
        assert_eq!(title(&tab).await, "mouseover pointerdown mousedown pointerup mouseup click");
        let tab = open(
            &context,
            "<button onclick='n = (self.n||0) + 1' ondblclick='document.title = `double after ${n}`'>Go</button>",
        )
        .await;
        act(&tab, json!({"action": "double_click", "selector": "text=Go"})).await;
        assert_eq!(title(&tab).await, "double after 2");
        let tab = open(&context, "<p oncontextmenu='document.title = `menu ${event.button}`'>Here</p>").await;
        act(&tab, json!({"action": "right_click", "selector": "text=Here"})).await;
        assert_eq!(title(&tab).await, "menu 2");
        let tab = open(&context, "<p onmouseenter='document.title = `over`'>Here</p>").await;
        act(&tab, json!({"action": "hover", "selector": "p"})).await;
        assert_eq!(title(&tab).await, "over");
    });
}

#[test]
fn point_selector_acts_at_that_point() {
    run(async {
        let context = context().await;
        let tab = open(
            &context,
            "<div style='position:fixed;inset:0' onclick='document.title = [event.clientX / innerWidth, \
            event.clientY / innerHeight].map((part) => Math.round(part * 100)).join()'></div>",
        )
        .await;
        click(&tab, "point=40%,25%").await;
        assert_eq!(title(&tab).await, "40,25");
        act(&tab, json!({"action": "double_click", "selector": "point=99%, 1%"})).await;
        assert_eq!(title(&tab).await, "99,1");
        // The document has no height here, and a moving element is hit at its current position.
        let tab = open(
            &context,
            "<style>@keyframes go { to { left: 0 } } div { position: absolute; width: 100%; height: 20%; left: -10%; \
            animation: go 9s infinite }</style><div></div><script>onclick = (event) => document.title = \
            event.target.tagName</script>",
        )
        .await;
        click(&tab, "point=50%,80%").await;
        assert_eq!(title(&tab).await, "HTML");
        click(&tab, "point=50%,10%").await;
        assert_eq!(title(&tab).await, "DIV");
    });
}

#[test]
fn covered_element_is_not_clicked_and_the_cover_is_named() {
    run(async {
        let context = context().await;
        let tab = open(&context, r#"<button onclick="document.title = 'clicked'">Pay</button>
            <div id="consent" class="layer" style="position:fixed;inset:0" onclick="document.title = 'wrong'">We value cookies</div>"#).await;
        let error =
            try_act(&tab, json!({"action": "click", "selector": "text=Pay", "timeout_ms": 2000})).await.unwrap_err();
        assert_eq!(error.code(), "not_actionable");
        assert!(
            error
                .to_string()
                .contains(r#"the element is covered by <div id="consent" class="layer"> "We value cookies""#),
            "{error}"
        );
        assert_eq!(title(&tab).await, "");
        let tab = open(
            &context,
            r#"<button onclick="document.title = 'clicked'">Pay</button>
            <div id=layer style="position:fixed;inset:0"></div><script>setTimeout(() => layer.remove(), 300)</script>"#,
        )
        .await;
        click(&tab, "text=Pay").await;
        assert_eq!(title(&tab).await, "clicked");
    });
}

#[test]
fn late_cover_receives_no_click() {
    run(async {
        let context = context().await;
        // The layer appears on mouse move, after all checks of the element.
        let tab = open(
            &context,
            r#"<button id=b style="padding:40px" onclick="document.title += 'pay '">Pay</button>
            <div id=layer hidden style="position:fixed;inset:0" onclick="document.title += 'wrong '"></div>
            <script>b.addEventListener('mousemove', () => {
            layer.hidden = false; setTimeout(() => layer.remove(), 200) }, { once: true })</script>"#,
        )
        .await;
        click(&tab, "text=Pay").await;
        assert_eq!(title(&tab).await, "pay");
    });
}

#[test]
fn click_waits_for_moving_disabled_and_late_elements() {
    run(async {
        let context = context().await;
        let tab = open(
            &context,
            r#"<style>@keyframes go { from { left: 0 } to { left: 600px } }
            #b { position: absolute; top: 50px; animation: go .5s linear forwards }</style>
            <button id=b onclick="document.title = 'at ' + b.offsetLeft">Catch</button>"#,
        )
        .await;
        click(&tab, "#b").await;
        assert_eq!(title(&tab).await, "at 600");
        let tab = open(
            &context,
            r#"<button id=b disabled onclick="document.title = 'clicked'">Save</button>
            <script>setTimeout(() => b.disabled = false, 300)</script>"#,
        )
        .await;
        click(&tab, "#b").await;
        assert_eq!(title(&tab).await, "clicked");
        let tab = open(&context, r#"<script>setTimeout(() => document.body.innerHTML = '<button onclick="document.title = 1">New</button>', 300)</script>"#).await;
        click(&tab, "text=New").await;
        assert_eq!(title(&tab).await, "1");
    });
}

#[test]
fn colour_animation_in_a_background_tab_does_not_delay_clicks() {
    run(async {
        let context = context().await;
        let tab = open(
            &context,
            r#"<style>@keyframes glow { from { color: red } to { color: blue } }
            #b { animation: glow .5s infinite }</style>
            <button id=b onclick="document.title = 'clicked'">Glow</button>"#,
        )
        .await;
        let _in_front = open(&context, "<p>In front</p>").await;
        click(&tab, "#b").await;
        assert_eq!(title(&tab).await, "clicked");
    });
}

#[test]
fn timeout_error_states_the_missing_condition() {
    run(async {
        let context = context().await;
        let tab = open(
            &context,
            r#"<button id=d disabled>x</button><button id=h style="display:none">x</button><p id=p>text</p>
            <div aria-disabled=true><span role=button id=a>x</span></div>"#,
        )
        .await;
        for (selector, action, missing) in [
            ("#d", "click", "the element is disabled"),
            ("#a", "click", "the element is disabled"),
            ("#h", "click", "the element is not visible"),
            ("#none", "click", "no element matches"),
            ("#p", "focus", "the element cannot be focused"),
        ] {
            let error =
                try_act(&tab, json!({"action": action, "selector": selector, "timeout_ms": 2000})).await.unwrap_err();
            assert_eq!(error.code(), "not_actionable", "{selector}");
            assert!(error.to_string().contains(missing), "{selector}: {error}");
        }
    });
}

#[test]
fn ambiguous_and_invalid_selectors_are_refused() {
    run(async {
        let context = context().await;
        let tab = open(&context, "<button>One</button><button>Two</button><p>One more</p>").await;
        for (selector, count) in [("button", 2), ("text=one", 2), ("role=button", 2), ("xpath=//button", 2)] {
            let error = try_act(&tab, json!({"action": "click", "selector": selector})).await.unwrap_err();
            assert_eq!(error.code(), "ambiguous", "{selector}");
            assert!(error.to_string().contains(&format!("{count} elements")), "{error}");
        }
        for selector in ["a[", "xpath=//[", "@", "role=button[x]"] {
            let error = try_act(&tab, json!({"action": "click", "selector": selector})).await.unwrap_err();
            assert_eq!(error.code(), "invalid_action", "{selector}: {error}");
        }
        click(&tab, "role=button[name=\"One\"]").await;
        click(&tab, "text=\"One\"").await;
        click(&tab, "xpath=//button[2]").await;
    });
}

#[test]
fn distant_element_is_scrolled_into_view_below_a_sticky_bar() {
    run(async {
        let context = context().await;
        let tab = open(&context, r#"<div style="position:sticky;top:0;height:120px;background:#eee">Bar</div>
            <div style="height:3000px"></div><button onclick="document.title = 'low'">Low</button><div style="height:3000px"></div>"#).await;
        click(&tab, "text=Low").await;
        assert_eq!(title(&tab).await, "low");
        let tab = open(&context, r#"<div id=box style="height:200px;overflow:auto" onscroll="document.title = 'box ' + box.scrollTop">
            <div style="height:3000px">x</div></div><div style="height:3000px"></div><script>onscroll = () => document.title = 'page ' + scrollY</script>"#).await;
        act(&tab, json!({"action": "scroll", "x": 0, "y": 150, "selector": "#box"})).await;
        assert_eq!(title(&tab).await, "box 150");
        act(&tab, json!({"action": "scroll", "x": 0, "y": 400, "selector": null})).await;
        assert_eq!(title(&tab).await, "page 400");
        act(&tab, json!({"action": "scroll_to_element", "selector": "#box"})).await;
        assert_eq!(title(&tab).await, "page 0");
    });
}

#[test]
fn click_waits_for_its_navigation() {
    run(async {
        let context = context().await;
        let next = path("<title>next</title><button onclick=\"document.title = 'clicked'\">There</button>").await;
        let tab = open(
            &context,
            &format!("<title>first</title><a href={next}>Next</a><button onclick=\"location = '{next}'\">Go</button>"),
        )
        .await;
        let outcome = click(&tab, "text=Next").await;
        assert!(outcome.navigated && outcome.url.ends_with(&next), "{outcome:?}");
        assert_eq!(outcome.title, "next");
        click(&tab, "text=There").await;
        assert_eq!(title(&tab).await, "clicked");
        assert_eq!(act(&tab, json!({"action": "go_back"})).await.title, "first");
        assert_eq!(click(&tab, "text=Go").await.title, "next");
        act(&tab, json!({"action": "go_back"})).await;
        assert_eq!(act(&tab, json!({"action": "go_forward"})).await.title, "next");
        let error = try_act(&tab, json!({"action": "go_forward"})).await.unwrap_err();
        assert!(error.to_string().contains("no page after this one"), "{error}");
        click(&tab, "text=There").await;
        assert_eq!(act(&tab, json!({"action": "reload"})).await.title, "next");
    });
}

#[test]
fn native_and_scripted_drags_work() {
    run(async {
        let context = context().await;
        let tab = open(&context, r#"<div id=a draggable=true style="width:80px;height:80px;background:red">A</div>
            <div id=b style="width:120px;height:120px;margin-top:100px;background:blue">B</div><script>
            a.ondragstart = (e) => e.dataTransfer.setData('text/plain', 'payload');
            b.ondragover = (e) => e.preventDefault();
            b.ondrop = (e) => { e.preventDefault(); document.title = 'got ' + e.dataTransfer.getData('text/plain') };</script>"#).await;
        act(&tab, json!({"action": "drag_and_drop", "source": "#a", "target": "#b"})).await;
        assert_eq!(title(&tab).await, "got payload");
        let tab = open(&context, r#"<div id=a style="position:absolute;width:80px;height:80px;background:red">A</div>
            <div id=b style="position:absolute;left:300px;top:200px;width:120px;height:120px;background:blue">B</div><script>
            let held = false;
            a.onmousedown = () => held = true;
            onmousemove = (e) => { if (held) { a.style.left = e.clientX - 40 + 'px'; a.style.top = e.clientY - 40 + 'px' } };
            onmouseup = () => { held = false; document.title = a.style.left + ' ' + a.style.top };</script>"#).await;
        act(&tab, json!({"action": "drag_and_drop", "source": "#a", "target": "#b"})).await;
        assert_eq!(title(&tab).await, "320px 220px");
    });
}
