//! Storage states: saved from one context, restored in another.

use agentd_browser::{Context, OriginStorage, StorageState, StoredItem};
use serde_json::json;

use crate::support::{act, address, context, hash_result, open, page, run};

const PAGE: &str = "<script>document.title = JSON.stringify(Object.entries(localStorage).sort())</script>";

async fn stored(context: &Context, url: &str) -> String {
    let tab = context.open_tab().await.unwrap();
    act(&tab, json!({"action": "goto", "url": url})).await.title
}

#[test]
fn state_is_restored_in_another_context() {
    run(async {
        let first = context().await;
        let tab = first.open_tab().await.unwrap();
        act(&tab, json!({"action": "goto", "url": address("/cookie").await})).await;
        let html = "<script>localStorage.setItem('who', 'ä\"'); localStorage.setItem('n', location.hostname)</script>";
        let url = page(html).await;
        for url in [url.clone(), url.replace("127.0.0.1", "localhost")] {
            act(&tab, json!({"action": "goto", "url": url})).await;
        }
        let state = first.storage_state().await.unwrap().state;
        assert_eq!(first.tabs().len(), 1, "a tab of our own is shown");
        assert_eq!(state.origins.len(), 2);
        let text = serde_json::to_value(&state).unwrap();
        assert_eq!(text["cookies"][0]["httpOnly"], true);
        assert!(
            text["origins"][0]["localStorage"].as_array().unwrap().contains(&json!({"name": "who", "value": "ä\""}))
        );
        assert!(!format!("{state:?}").contains("ä"));
        let read: StorageState = serde_json::from_value(text).unwrap();
        assert_eq!(read, state);

        let second = context().await;
        let tab = second.open_tab().await.unwrap();
        let other = page("<script>localStorage.other = 1; document.cookie = 'other=1'</script>").await;
        act(&tab, json!({"action": "goto", "url": other})).await;
        second.restore_storage_state(&read).await.unwrap();
        let shows = page(PAGE).await;
        assert_eq!(stored(&second, &shows).await, "[[\"n\",\"127.0.0.1\"],[\"who\",\"ä\\\"\"]]");
        assert_eq!(
            stored(&second, &shows.replace("127.0.0.1", "localhost")).await,
            "[[\"n\",\"localhost\"],[\"who\",\"ä\\\"\"]]"
        );
        assert_eq!(stored(&second, &address("/echo-cookie").await).await, "kept=yes");
        // An empty state equals a fresh browser.
        second.restore_storage_state(&StorageState::default()).await.unwrap();
        assert_eq!(stored(&second, &shows).await, "[]");
        assert_eq!(stored(&second, &address("/echo-cookie").await).await, "none");
    });
}

#[test]
fn invalid_state_is_refused_without_changes() {
    run(async {
        let context = context().await;
        let tab = context.open_tab().await.unwrap();
        act(&tab, json!({"action": "goto", "url": address("/cookie").await})).await;
        let item = |value: String| vec![StoredItem { name: "n".to_owned(), value }];
        let origin = |origin: &str, value: String| OriginStorage {
            origin: origin.to_owned(),
            local_storage: item(value),
            ..OriginStorage::default()
        };
        for (origin, code) in [
            (origin("file:///etc", String::new()), "invalid_action"),
            (origin("http://a.example/path", String::new()), "invalid_action"),
            (origin("http://a.example", "x".repeat(9 << 20)), "limit_exceeded"),
        ] {
            let state = StorageState { cookies: Vec::new(), origins: vec![origin] };
            assert_eq!(context.restore_storage_state(&state).await.unwrap_err().code(), code);
        }
        let bad = json!({"cookies": [{"name": "a;b", "value": "", "domain": "a.example"}]});
        let bad: StorageState = serde_json::from_value(bad).unwrap();
        assert_eq!(context.restore_storage_state(&bad).await.unwrap_err().code(), "invalid_action");
        // Values that only the browser can validate are checked before any change.
        for record in [
            json!({"key": 1, "valueEncoded": {"other": 1}}),
            json!({"key": 1, "valueEncoded": {"r": {"p": "(", "f": ""}}}),
            json!({"keyEncoded": {"v": "NaN"}, "value": 1}),
        ] {
            let store = json!({"name": "s", "autoIncrement": false, "records": [record], "indexes": []});
            let database = json!({"name": "d", "version": 1, "stores": [store]});
            let bad: StorageState =
                serde_json::from_value(json!({"origins": [{"origin": "http://a.example", "indexedDB": [database]}]}))
                    .unwrap();
            assert_eq!(context.restore_storage_state(&bad).await.unwrap_err().code(), "invalid_action", "{database}");
        }
        let cookies = context.cookies().await.unwrap();
        assert_eq!((cookies.len(), &*cookies[0].value), (1, "yes"));
        // A late failure restores the previous cookies.
        let twice = json!({"name": "s", "autoIncrement": false, "records": [], "indexes": []});
        let database = json!({"name": "d", "version": 1, "stores": [twice, twice]});
        let cookie = json!({"name": "other", "value": "1", "domain": "a.example"});
        let late = json!({"cookies": [cookie], "origins": [{"origin": "http://a.example", "indexedDB": [database]}]});
        let late: StorageState = serde_json::from_value(late).unwrap();
        assert_eq!(context.restore_storage_state(&late).await.unwrap_err().code(), "invalid_action");
        assert_eq!(context.cookies().await.unwrap(), cookies);
    });
}

/// Fills databases with every serializable kind of value, and one with an unserializable value.
const FILLS: &str = r#"<script>(async () => {
    const opened = (name, version, build) => new Promise((done) => {
        const opening = indexedDB.open(name, version);
        opening.onupgradeneeded = () => build(opening.result);
        opening.onsuccess = () => done(opening.result);
    });
    const filled = (database, store, fill) => new Promise((done) => {
        const transaction = database.transaction(store, 'readwrite');
        transaction.oncomplete = done;
        fill(transaction.objectStore(store));
    });
    const notes = await opened('notes', 7, (it) => {
        it.createObjectStore('keyed', { keyPath: ['who', 'at'] }).createIndex('by tag', 'tags', { multiEntry: true });
        it.createObjectStore('counted', { autoIncrement: true });
    });
    await filled(notes, 'keyed', (store) => store.put({ who: 'ä', at: 1, tags: ['a', 'b'], ['__proto__']: 1 }));
    const all = { list: [1, , 'x'], none: undefined, not: NaN, zero: -0, far: -Infinity, big: 12n, when: new Date(5),
        bad: new Date(NaN), rule: /a"b/gi, map: new Map([['k', new Set([null, true])]]), bytes: new Uint8Array([0, 250]),
        buffer: new ArrayBuffer(2), floats: new Float64Array([0.5]), error: new RangeError('far') };
    all.self = all;
    await filled(notes, 'counted', (store) => { store.add(all); store.add({ plain: [1, { a: null }] }); store.add('t', new Date(9)); });
    await filled(await opened('files', 1, (it) => it.createObjectStore('s')), 's', (store) => store.put(new Blob(['x']), 1));
    await opened('empty', 2, () => {});
    location.hash = 'filled';
})()</script>"#;

/// Returns the contents and the structure of the first database.
const TELLS: &str = r#"<script>(async () => {
    const asked = (request) => new Promise((done) => request.onsuccess = () => done(request.result));
    const names = (await indexedDB.databases()).map(({ name, version }) => name + version).sort();
    const notes = await asked(indexedDB.open('notes'));
    const both = notes.transaction(['keyed', 'counted']);
    const [keyed, counted] = ['keyed', 'counted'].map((name) => both.objectStore(name));
    const index = keyed.index('by tag');
    const found = await asked(index.get('b'));
    const [all, plain, text] = await asked(counted.getAll());
    const next = await asked(notes.transaction('counted', 'readwrite').objectStore('counted').add(0));
    say(JSON.stringify([names, found, keyed.keyPath, index.multiEntry, next, plain, text, all.list, 'none' in all, all.not, Object.is(all.zero, -0),
        all.far, String(all.big), all.when.getTime(), String(all.bad), String(all.rule), [...all.map.get('k')],
        [...all.bytes], all.buffer.byteLength, [...all.floats], all.error.name + all.error.message, all.self === all]));
})()</script>"#;

#[test]
fn state_contains_databases() {
    run(async {
        let first = context().await;
        let tab = open(&first, FILLS).await;
        crate::support::eventually("what is stored", || tab.info().url.ends_with("#filled").then_some(())).await;
        let saved = first.storage_state().await.unwrap();
        let left_out: Vec<_> = saved.left_out.iter().map(|left| &*left.database).collect();
        assert_eq!(left_out, ["files"]);
        let text = serde_json::to_value(&saved.state).unwrap();
        let databases = &text["origins"][0]["indexedDB"];
        let notes = databases.as_array().unwrap().iter().find(|one| one["name"] == "notes").unwrap();
        assert_eq!(notes["stores"][1]["keyPathArray"], json!(["who", "at"]), "{notes:#}");
        assert_eq!(notes["stores"][0]["records"][1], json!({"key": 2, "value": {"plain": [1, {"a": null}]}}));
        assert_eq!(notes["stores"][0]["records"][2]["keyEncoded"], json!({"d": "1970-01-01T00:00:00.009Z"}));
        let read: StorageState = serde_json::from_value(text).unwrap();
        assert_eq!(read, saved.state);
        assert!(!format!("{saved:?}").contains("plain"));

        let second = context().await;
        // Existing data is replaced, even while a page has it open.
        let other =
            format!("<script>{}</script><script>indexedDB.open('other', 1)</script>", crate::support::RESULT_SCRIPT);
        let tab = open(&second, &other).await;
        second.restore_storage_state(&read).await.unwrap();
        let url = page(&format!("<script>{}</script>{TELLS}", crate::support::RESULT_SCRIPT)).await;
        act(&tab, json!({"action": "goto", "url": url})).await;
        let stored: serde_json::Value = serde_json::from_str(&hash_result(&tab).await).unwrap();
        let found = json!({"who": "ä", "at": 1, "tags": ["a", "b"], "__proto__": 1});
        let expected = json!([
            ["empty2", "notes7"], found, ["who", "at"], true, 3, {"plain": [1, {"a": null}]}, "t", [1, null, "x"], true,
            null, true, null, "12", 5, "Invalid Date", "/a\"b/gi", [null, true], [0, 250], 2, [0.5], "RangeErrorfar",
            true
        ]);
        assert_eq!(stored, expected);
        second.restore_storage_state(&StorageState::default()).await.unwrap();
        assert_eq!(second.storage_state().await.unwrap().state.origins.len(), 0);
    });
}
