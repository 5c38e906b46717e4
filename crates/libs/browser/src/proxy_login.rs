//! Proxy authentication, whose credential cannot be passed in Chromium's arguments.
//!
//! Chromium caches a credential that a proxy accepted for the lifetime of a context. Each new context therefore sends
//! one request to a name that does not exist. Only this request is intercepted, since intercepting all would slow down
//! every page.

use std::time::Duration;

use agentd_base::Secret;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;

use crate::BrowserError;
use crate::cdp::{Connection, Delivery};
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
    // From a blank page, so that the response is neither shown nor loaded.
    let expression = format!("fetch({URL:?}, {{mode: 'no-cors'}}).then(() => 0, () => 0)");
    let parameters = json!({"expression": expression, "awaitPromise": true});
    let request = async {
        let answer = connection.call::<IgnoredAny>(Some(&session), "Runtime.evaluate", parameters, LIMIT).await;
        // The outcome of the request is irrelevant: the proxy has seen the credential.
        answer.map(|_| ()).map_err(BrowserError::from)
    };
    let answer = async {
        let mut was_challenged = false;
        while let Some(delivery) = events.next().await {
            let event = match delivery {
                Delivery::Event(event) => event,
                Delivery::Lagged(count) => {
                    return Err(BrowserError::Protocol(format!("{count} requests to the proxy were not received")));
                }
            };
            let Some(Paused { request_id }) = event.read() else { continue };
            let (method, parameters) = if &*event.method == "Fetch.authRequired" {
                if was_challenged {
                    return Err(BrowserError::Unavailable("the proxy rejected its credentials".to_owned()));
                }
                was_challenged = true;
                let response =
                    json!({"response": "ProvideCredentials", "username": user, "password": password.expose()});
                ("Fetch.continueWithAuth", json!({"requestId": request_id, "authChallengeResponse": response}))
            } else {
                ("Fetch.continueRequest", json!({"requestId": request_id}))
            };
            connection.call::<IgnoredAny>(Some(&session), method, parameters, LIMIT).await?;
        }
        Err(BrowserError::Ended("its connection was closed".into()))
    };
    tokio::select! {
        done = request => done,
        failed = answer => failed,
    }
}
