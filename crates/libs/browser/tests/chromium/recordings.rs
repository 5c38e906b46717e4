//! Recording, and replay on a changed page.

use std::sync::Arc;

use agentd_base::Secret;
use agentd_browser::{
    ActionRequest, AlternativeKind, Context, Drift, Recorded, RecordedStep, Recorder, Replay, ReplayError, Replayed,
    StepTab, Tab, with_secrets,
};
use serde_json::{Value, json};

use crate::support::{act, address, context, eventually, expect_title, open, page, path, run, title, try_act};

fn credentials(url: &str) -> Vec<Secret> {
    let token = url.split_once("token=").map(|(_, token)| Secret::new(token.to_owned()));
    token.into_iter().collect()
}

async fn recorded(recorder: &Recorder, context: &Context, tab: &Arc<Tab>, action: Value) -> Recorded {
    let request: ActionRequest = serde_json::from_value(action.clone()).unwrap();
    let fields = action.as_object().cloned().unwrap();
    let done = recorder.act(context, tab, request, fields).await;
    done.unwrap_or_else(|error| panic!("{action}: {} {error}", error.code()))
}

/// Records actions on a page.
async fn record(context: &Context, tab: &Arc<Tab>, actions: &[Value]) -> Vec<RecordedStep> {
    let recorder = Recorder::new(Some(context), credentials);
    let mut steps = Vec::new();
    for action in actions {
        let done = recorded(&recorder, context, tab, action.clone()).await;
        // Serialized as in a recording file.
        let written = serde_json::to_string(&done.step).unwrap();
        steps.push(serde_json::from_str(&written).unwrap());
    }
    steps
}

async fn replay_step(
    replay: &mut Replay,
    context: &Context,
    tab: &Arc<Tab>,
    step: &RecordedStep,
    timeout_ms: u64,
) -> Result<Replayed, ReplayError> {
    let tab = match replay.tab(context, step).await? {
        StepTab::There(tab) => tab,
        StepTab::New { .. } => {
            replay.follow(step, tab);
            Arc::clone(tab)
        }
    };
    let mut action = with_secrets(&step.parameters, |_| None);
    action.insert("action".into(), step.action.clone().into());
    action.insert("timeout_ms".into(), timeout_ms.into());
    replay.act(context, &tab, step, serde_json::from_value(action.into()).unwrap()).await
}

async fn replay(context: &Context, tab: &Arc<Tab>, steps: &[RecordedStep]) -> Vec<Vec<Drift>> {
    let mut replay = Replay::new(context);
    let mut drifts = Vec::new();
    for step in steps {
        match replay_step(&mut replay, context, tab, step, 10_000).await {
            Ok(done) => drifts.push(done.drift),
            Err(ReplayError { error, tried }) => panic!("{}: {error} {tried:?}", step.caption()),
        }
    }
    drifts
}

/// Returns the error of a step that must be refused.
async fn refused(context: &Context, html: &str, step: &RecordedStep) -> ReplayError {
    let tab = open(context, html).await;
    let done = replay_step(&mut Replay::new(context), context, &tab, step, 1_500).await;
    let error = match done {
        Ok(done) => panic!("{html}: {} was done with {:?}", step.caption(), done.drift),
        Err(error) => error,
    };
    assert_eq!(title(&tab).await, "", "{html}: something was done");
    error
}

const DONE: &str = "onclick=\"document.title += this.dataset.did || this.textContent\"";

#[test]
fn element_recorded_by_point_is_found_by_its_properties() {
    run(async {
        let context = context().await;
        let html = r#"<button style="position:fixed;inset:0 50% 0 0" onclick="document.title = 'saved'">Save</button>"#;
        let tab = open(&context, html).await;
        let steps = record(&context, &tab, &[json!({"action": "click", "selector": "point=10%,10%"})]).await;
        assert_eq!(title(&tab).await, "saved");
        assert_eq!(steps[0].parameters["selector"], r#"role=button[name="Save"]"#);
        assert!(!steps[0].targets[0].alternatives.iter().any(|found| found.selector.starts_with("point=")));
        let tab = open(&context, r#"<p>Above</p><button onclick="document.title = 'again'">Save</button>"#).await;
        replay(&context, &tab, &steps).await;
        assert_eq!(title(&tab).await, "again");
        // A point outside any element, on a canvas or on a slider cannot be replayed.
        let surfaces = "<canvas style='position:fixed;inset:0 50% 0 0'></canvas>\
            <input type=range style='position:fixed;right:0;top:0;width:50%;height:50%;margin:0'>";
        let tab = open(&context, surfaces).await;
        for point in ["point=90%,90%", "point=10%,10%", "point=90%,10%"] {
            let recorder = Recorder::new(Some(&context), credentials);
            let action = json!({"action": "click", "selector": point});
            let fields = action.as_object().cloned().unwrap();
            let refused = recorder.act(&context, &tab, serde_json::from_value(action).unwrap(), fields).await;
            assert_eq!(refused.err().map(|error| error.code()), Some("invalid_action"), "{point}");
        }
    });
}

#[test]
fn element_is_found_by_label_on_a_changed_page() {
    run(async {
        let context = context().await;
        let tell = "document.title = [name_.value, plan.value, terms.checked].join()";
        let today = "<form onsubmit='return false'><label for=n1>Name</label><input id=n1 class=a>\
             <label>Plan <select id=p9 class=b><option>Free<option>Pro</select></label>\
             <label><input type=checkbox id=t2> I agree</label><button id=s7 class=c><b>Sign</b> up</button></form>\
             <script>n1.oninput = 0; s7.onclick = () => document.title = [n1.value, p9.value, t2.checked].join()</script>";
        let tab = open(&context, today).await;
        let snapshot = tab.snapshot(false).await.unwrap().snapshot;
        let number = |name: &str| snapshot.lines().find(|line| line.contains(name)).unwrap().split(' ').next().unwrap();
        let steps = record(
            &context,
            &tab,
            &[
                json!({"action": "type_text", "selector": number("Name"), "text": "Ada"}),
                json!({"action": "select_option", "selector": "#p9", "label": "Pro"}),
                json!({"action": "check", "selector": number("agree")}),
                json!({"action": "click", "selector": "text=\"Sign\""}),
            ],
        )
        .await;
        assert_eq!(title(&tab).await, "Ada,Pro,true");
        let captions: Vec<String> = steps.iter().map(RecordedStep::caption).collect();
        assert_eq!(captions[0], "type_text textbox \"Name\"");
        assert_eq!(steps[1].targets[0].alternatives[0].kind, AlternativeKind::Given);
        assert!(steps[0].targets[0].alternatives.iter().all(|found| !found.selector.contains('@')), "{steps:?}");

        // Changed IDs, classes, wrappers and order, and late rendering.
        let tomorrow = format!(
            "<div id=app></div><script>setTimeout(() => {{ app.innerHTML = `<section><p><button class=x1>Sign up</button>\
             <button>Cancel</button></p><div><label for=zz>Name</label><span><input id=zz></span></div>\
             <label>I agree <input type=checkbox id=terms></label><label>Country <select><option>Pro</select></label>\
             <label>Plan <select id=plan><option>Team<option>Pro<option>Free</select></label></section>`;\
             const name_ = zz; document.querySelector('.x1').onclick = () => {tell} }}, 400)</script>"
        );
        let changed = open(&context, &tomorrow).await;
        let drifts = replay(&context, &changed, &steps).await;
        assert_eq!(title(&changed).await, "Ada,Pro,true");
        let drift = &drifts[1][0];
        assert_eq!((&*drift.recorded, &*drift.parameter), ("#p9", "selector"));
        assert!(drift.used.contains("Plan"), "{drift:?}");
        assert!(drifts[2].is_empty(), "{drifts:?}");

        // Unchanged page: no drift.
        let same = open(&context, today).await;
        assert_eq!(replay(&context, &same, &steps).await.concat(), []);
    });
}

#[test]
fn other_elements_are_never_acted_on() {
    run(async {
        let context = context().await;
        let row =
            |name: &str, did: &str| format!("<tr><td>{name}<td><button class=d data-did={did} {DONE}>Delete</button>");
        let rows = |rows: &[String]| format!("<table>{}</table>", rows.concat());
        let (alice, bob, carol) = (row("Alice", "a"), row("Bob", "b"), row("Carol", "c"));
        let tab = open(&context, &rows(&[alice.clone(), bob.clone()])).await;
        let steps = record(&context, &tab, &[json!({"action": "click", "selector": "tr:nth-child(2) button"})]).await;
        assert_eq!(title(&tab).await, "b");
        let target = &steps[0].targets[0];
        assert_eq!((target.fingerprint.keys.as_slice(), target.fingerprint.twins), (&["Bob".to_owned()][..], 2));

        // Reordered and wrapped rows: the row is found by its content.
        let wrapped = "<div class=row><p><span>Bob</span></p><div><button data-did=b onclick=\"document.title=this.dataset.did\">Delete</button></div></div>\
            <div class=row><p><span>Alice</span></p><div><button data-did=a onclick=\"document.title=this.dataset.did\">Delete</button></div></div>";
        for html in
            [rows(&[bob.clone(), carol.clone(), alice.clone()]), rows(std::slice::from_ref(&bob)), wrapped.to_owned()]
        {
            let changed = open(&context, &html).await;
            let drift = replay(&context, &changed, &steps).await.concat();
            assert_eq!(title(&changed).await, "b", "{html}");
            assert!(!drift.is_empty() && drift[0].used.contains("Bob"), "{drift:?}");
        }
        // The row is gone; another row at its position is not used.
        for html in [
            rows(&[alice.clone(), carol.clone()]),
            rows(std::slice::from_ref(&carol)),
            format!("<p>Bob was removed</p>{}", rows(std::slice::from_ref(&alice))),
            "<p>Bob</p>".to_owned(),
        ] {
            let error = refused(&context, &html, &steps[0]).await;
            assert_eq!(error.error.code(), "not_actionable");
            assert!(error.error.to_string().contains("button \"Delete\""), "{}", error.error);
            assert!(error.tried.len() > 2 && error.tried[0].selector.contains("nth-child"), "{:?}", error.tried);
        }

        // Identical rows are found by position, unless something around them changed.
        let (first, second) = (row("Ada", "1"), row("Ada", "2"));
        let tab = open(&context, &rows(&[first.clone(), second.clone(), bob.clone()])).await;
        let steps = record(&context, &tab, &[json!({"action": "click", "selector": "tr:nth-child(1) button"})]).await;
        let same = open(&context, &rows(&[first.clone(), second.clone(), carol.clone()])).await;
        assert_eq!(replay(&context, &same, &steps).await.concat(), []);
        assert_eq!(title(&same).await, "1");
        refused(&context, &rows(&[row("Bob", "1"), second, first]), &steps[0]).await;

        // A unique button: neither a second one with its label nor another at its position is used.
        let tab = open(&context, &format!("<main><button {DONE}>Save</button><i></i></main>")).await;
        let steps = record(&context, &tab, &[json!({"action": "click", "selector": "main > button"})]).await;
        for html in [
            format!("<main><button {DONE}>Delete all</button></main>"),
            format!("<main><button {DONE}>Save</button></main><button {DONE}>Save</button>"),
            format!("<main><a href=# {DONE}>Save</a></main>"),
            "<main></main>".to_owned(),
        ] {
            refused(&context, &html, &steps[0]).await;
        }

        // A test ID is used although the label changed, which is reported.
        let tab = open(&context, &format!("<button data-testid=save {DONE}>Save</button>")).await;
        let steps = record(&context, &tab, &[json!({"action": "click", "selector": "text=Save"})]).await;
        let renamed = open(&context, &format!("<p>Saved</p><p><button data-testid=save {DONE}>Keep</button>")).await;
        let drift = replay(&context, &renamed, &steps).await.concat();
        assert_eq!(title(&renamed).await, "Keep");
        assert_eq!(drift[0].change.as_deref(), Some("was named \"Save\", is named \"Keep\""));

        // An element without label is found only if nothing around it changed.
        let dots = |classes: &[&str]| {
            let dots = classes.iter().map(|class| {
                format!(
                    "<i class={class} data-did={class} {DONE} style='display:inline-block;width:9px;height:9px'></i>"
                )
            });
            dots.collect::<String>()
        };
        let tab = open(&context, &dots(&["red", "green", "blue"])).await;
        let steps = record(&context, &tab, &[json!({"action": "click", "selector": ".green"})]).await;
        let same = open(&context, &dots(&["red", "green", "blue"])).await;
        assert_eq!(replay(&context, &same, &steps).await.concat(), []);
        refused(&context, &dots(&["green", "red", "blue"]), &steps[0]).await;
        refused(&context, &dots(&["red", "yellow", "blue"]), &steps[0]).await;
    });
}

#[test]
fn frames_shadow_roots_popups_and_dialogs_are_followed() {
    run(async {
        let context = context().await;
        let inner = path("<button onclick=\"top.postMessage('framed', '*')\">Inside</button>").await;
        let popup = path("<title>popup</title><button onclick=\"document.title = 'clicked'\">In popup</button>").await;
        let html = |id: &str, around: &str| {
            format!(
                "<script>onmessage = (e) => document.title += ' ' + e.data</script>{around}<x-a></x-a>\
                 <button id={id} onclick=\"document.title += confirm('Sure?') ? ' yes' : ' no'\">Ask</button>\
                 <a id={id}2 target=_blank href={popup}>More</a><iframe id={id}3 src=OTHER{inner}></iframe><script>\
                 customElements.define('x-a', class extends HTMLElement {{ connectedCallback() {{\
                 this.attachShadow({{mode: 'open'}}).innerHTML = '{around}<button id={id}4>Shade</button>';\
                 this.shadowRoot.querySelector('button').onclick = () => document.title += ' shade' }} }})</script>"
            )
        };
        let tab = open(&context, &html("a", "")).await;
        let recorder = Recorder::new(Some(&context), credentials);
        let mut steps = Vec::new();
        for action in [
            json!({"action": "click", "selector": "text=Inside"}),
            json!({"action": "click", "selector": "#a4"}),
            json!({"action": "handle_dialog", "accept": true}),
            json!({"action": "click", "selector": "#a"}),
            json!({"action": "click", "selector": "#a2"}),
        ] {
            steps.push(recorded(&recorder, &context, &tab, action).await);
        }
        let opened = context.wait_for_tab(crate::support::SOON, |other| other.tab_id != tab.id()).await.unwrap();
        let in_popup = json!({"action": "click", "selector": "role=button[name=\"In popup\"]"});
        steps.push(recorded(&recorder, &context, &opened, in_popup).await);
        let pictures: Vec<Vec<u8>> = steps.iter().filter_map(|step| step.picture.clone()).collect();
        assert!(pictures.len() >= 5 && pictures.iter().all(|jpeg| jpeg.starts_with(b"\xff\xd8")), "{}", pictures.len());
        let steps: Vec<RecordedStep> = steps.into_iter().map(|recorded| recorded.step).collect();
        assert!(steps[0].targets[0].frame_url.is_some() && steps[1].targets[0].frame_url.is_none());
        assert_ne!(steps[5].tab, steps[0].tab);
        context.close_tab(opened.id()).await.unwrap();
        expect_title(&tab, "framed shade yes").await;

        let changed = open(&context, &html("b", "<p>news</p>")).await;
        let drifts = replay(&context, &changed, &steps).await;
        expect_title(&changed, "framed shade yes").await;
        assert!(!drifts[1].is_empty() && !drifts[3].is_empty() && drifts[5].is_empty(), "{drifts:?}");
        let popup = context.tabs().into_iter().find(|tab| tab.opener_id.as_deref() == Some(changed.id())).unwrap();
        expect_title(&context.tab(&popup.tab_id).unwrap(), "clicked").await;
    });
}

#[test]
fn secrets_are_never_stored() {
    run(async {
        let context = context().await;
        let secret = "correct horse 7";
        let html = "<form onsubmit='return false'><label>User <input name=user></label><label>Password <input id=p type=password></label>\
            <button type=button onclick=\"p.type = 'text'\">Show</button></form><output id=o></output>\
            <script>p.oninput = () => o.textContent = p.value</script>";
        let tab = open(&context, html).await;
        let recorder = Recorder::new(Some(&context), credentials);
        let page_url = page("<title>with a token</title>").await;
        let mut done = Vec::new();
        for action in [
            json!({"action": "type_text", "selector": "[name=user]", "text": "ada"}),
            json!({"action": "type_text", "selector": "#p", "text": secret}),
            json!({"action": "press_key", "key": "x"}),
            json!({"action": "press_key", "key": "Tab", "selector": "#p"}),
            json!({"action": "click", "selector": "text=Show"}),
            json!({"action": "type_text", "selector": "#p", "text": secret, "clear": true}),
            json!({"action": "type_text", "selector": "[name=user]", "text": "{{secret:1}}"}),
            json!({"action": "goto", "url": format!("{page_url}?token=tok-123456")}),
        ] {
            done.push(recorded(&recorder, &context, &tab, action).await);
        }
        let kept: Vec<(Value, Vec<u32>)> = done
            .iter()
            .map(|done| {
                let value = ["text", "key", "url"].iter().find_map(|name| done.step.parameters.get(*name)).cloned();
                (value.unwrap_or_default(), done.step.secrets())
            })
            .collect();
        let numbered = |number: u32| (json!(format!("{{{{secret:{number}}}}}")), vec![number]);
        assert_eq!(kept[..4], [(json!("ada"), vec![]), numbered(1), numbered(2), (json!("Tab"), vec![])]);
        // A revealed password is still a secret; a literal placeholder is not.
        assert_eq!(kept[5..7], [numbered(1), numbered(3)]);
        assert_eq!(kept[7].0, format!("{page_url}?token={{{{secret:4}}}}"));
        assert_eq!(done[7].step.url, format!("{page_url}?token=***"));
        let files = serde_json::to_string(&done.iter().map(|done| &done.step).collect::<Vec<_>>()).unwrap();
        for hidden in [secret, "tok-123456", "horse"] {
            assert!(!files.contains(hidden), "{hidden} is in {files}");
        }
        // The page is restored after each picture, and pictures were taken although the page shows the text.
        assert!(done.iter().all(|done| done.picture.is_some()));
        // A secret is typed only on the host that it was recorded for.
        let path = path(html).await;
        for (host, is_done) in [("127.0.0.1", true), ("localhost", false)] {
            let tab = context.open_tab().await.unwrap();
            let url = address(&path).await.replace("127.0.0.1", host);
            act(&tab, json!({"action": "goto", "url": url})).await;
            let again = replay_step(&mut Replay::new(&context), &context, &tab, &done[1].step, 5_000).await;
            let missing = again.map(|_| ()).map_err(|error| error.error.to_string());
            assert_eq!(missing.is_ok(), is_done, "{missing:?}");
            assert!(is_done || missing.is_err_and(|text| text.contains("is not sent to")));
        }
        let parameters = done[1].step.parameters.clone();
        let filled = with_secrets(&parameters, |_| None);
        assert_eq!(filled, parameters);
        let secret = Secret::new(secret.to_owned());
        assert_eq!(with_secrets(&parameters, |number| (number == 1).then_some(&secret))["text"], secret.expose());
    });
}

#[test]
fn failed_actions_are_not_recorded_and_awaited_elements_are_found() {
    run(async {
        let context = context().await;
        let tab = open(&context, "<p id=s>Loading</p><script>setTimeout(() => { s.remove(); document.body.append(Object.assign(document.createElement('h1'), {textContent: 'Ready', id: 'r1'})) }, 300)</script><button disabled>Off</button><button class=t>A</button><button class=t>B</button>").await;
        let recorder = Recorder::new(Some(&context), credentials);
        for (action, code) in [
            (json!({"action": "click", "selector": "text=Off", "timeout_ms": 200}), "not_actionable"),
            (json!({"action": "click", "selector": ".t"}), "ambiguous"),
            (json!({"action": "click", "selector": "@7"}), "stale_ref"),
            (json!({"action": "click", "selector": "p["}), "invalid_action"),
            (json!({"action": "click", "selector": "#no", "timeout_ms": 100}), "not_actionable"),
        ] {
            let request = serde_json::from_value(action.clone()).unwrap();
            let fields = action.as_object().cloned().unwrap();
            let error = recorder.act(&context, &tab, request, fields).await.unwrap_err();
            // The error names the requested selector, as without a recording.
            assert_eq!(error.code(), code, "{error}");
            assert!(error.to_string().contains(action["selector"].as_str().unwrap()), "{error}");
            assert_eq!(try_act(&tab, action).await.unwrap_err().code(), code);
        }
        let steps = record(
            &context,
            &tab,
            &[
                json!({"action": "wait_for_selector", "selector": "#r1"}),
                json!({"action": "wait_for_selector", "selector": "#s", "state": "detached"}),
            ],
        )
        .await;
        let later = open(
            &context,
            "<i></i><script>setTimeout(() => document.body.innerHTML = '<h1 id=x>Ready</h1>', 300)</script>",
        )
        .await;
        let drifts = replay(&context, &later, &steps).await;
        assert_eq!((drifts[0].len(), drifts[1].len()), (1, 0), "{drifts:?}");
        eventually("the page", || (later.info().title.is_empty()).then_some(())).await;
        act(&later, json!({"action": "click", "selector": "#x"})).await;
        refused(&context, "<h2>Ready</h2>", &steps[0]).await;
    });
}
