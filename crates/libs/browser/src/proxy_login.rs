//! Gives Chromium the credential of its proxy, which its arguments cannot carry.
//!
//! Chromium keeps a credential that a proxy accepted for as long as a context lives. So one request
//! to a name that exists nowhere is sent in each new context, and only that one is intercepted:
//! interception of every request would slow every page down.

use std::time::Duration;

use agentd_base::Secret;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;

use crate::BrowserError;
use crate::cdp::{Connection, Heard};
use crate::tab::Tab;

const URL: &str = "http://proxy-credential.invalid/";
const LIMIT: Duration = Duration::from_secs(20);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Paused {
    request_id: String,
}

pub(crate) async fn log_in(
    tab: &Tab,
    connection: &Connection,
    (user, password): &(String, Secret),
) -> Result<(), BrowserError> {
    let session = tab.main_session();
    let mut events = connection.subscribe(Some(session.clone()), &["Fetch.requestPaused", "Fetch.authRequired"], 64);
    let enable = json!({"handleAuthRequests": true, "patterns": [{"urlPattern": "http://proxy-credential.invalid/*"}]});
    connection.call::<IgnoredAny>(Some(&session), "Fetch.enable", enable, LIMIT).await?;
    // From a blank page, so that nothing of the answer is shown or loaded.
    let expression = format!("fetch({URL:?}, {{mode: 'no-cors'}}).then(() => 0, () => 0)");
    let parameters = json!({"expression": expression, "awaitPromise": true});
    let request = async {
        let answer = connection.call::<IgnoredAny>(Some(&session), "Runtime.evaluate", parameters, LIMIT).await;
        // Whatever the proxy says of that name, it has seen the credential.
        answer.map(|_| ()).map_err(BrowserError::from)
    };
    let answer = async {
        let mut was_asked = false;
        while let Some(heard) = events.next().await {
            let event = match heard {
                Heard::Event(event) => event,
                Heard::Lost(count) => {
                    return Err(BrowserError::Protocol(format!("{count} requests to the proxy were not seen")));
                }
            };
            let Some(Paused { request_id }) = event.read() else { continue };
            let (method, parameters) = if &*event.method == "Fetch.authRequired" {
                if was_asked {
                    return Err(BrowserError::Unavailable("the proxy refuses its credential".to_owned()));
                }
                was_asked = true;
                let response =
                    json!({"response": "ProvideCredentials", "username": user, "password": password.expose()});
                ("Fetch.continueWithAuth", json!({"requestId": request_id, "authChallengeResponse": response}))
            } else {
                ("Fetch.continueRequest", json!({"requestId": request_id}))
            };
            connection.call::<IgnoredAny>(Some(&session), method, parameters, LIMIT).await?;
        }
        Err(BrowserError::Ended("its connection has ended".into()))
    };
    tokio::select! {
        done = request => done,
        failed = answer => failed,
    }
}
