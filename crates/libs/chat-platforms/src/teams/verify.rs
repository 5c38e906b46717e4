//! Verification of requests
//! (<https://learn.microsoft.com/azure/bot-service/rest-api/bot-framework-rest-connector-authentication>).

use agentd_base::Timestamp;
use http::Method;
use serde_json::Value;
use url::Url;

use super::Teams;
use crate::jwt;
use crate::webhook::{Rejection, WebhookRequest};

const ISSUER: &str = "https://api.botframework.com";
pub(super) const CHANNEL: &str = "msteams";

impl Teams {
    /// Verifies a request and returns its activity.
    pub(super) async fn verify(&self, request: &WebhookRequest, now: Timestamp) -> Result<Value, Rejection> {
        let app_id = self.app_id().ok_or(Rejection::NotSetUp)?;
        if request.method != Method::POST {
            return Err(Rejection::Unverified("the method is not POST"));
        }
        let token = jwt::bearer(request)?;
        let key = self.keys.find(&self.client, &jwt::key_id(token)?, now).await?;
        let claims = jwt::verify(token, &key.decoding, now)?;
        if claims["iss"] != ISSUER {
            return Err(Rejection::Unverified("the token was not issued by the Bot Framework"));
        }
        if claims["aud"] != app_id {
            return Err(Rejection::Unverified("the token was issued for another app"));
        }
        let activity: Value = serde_json::from_slice(&request.body)
            .map_err(|_| Rejection::Malformed("the body is not valid JSON".to_owned()))?;
        let service =
            activity["serviceUrl"].as_str().ok_or(Rejection::Unverified("the activity has no `serviceUrl`"))?;
        if claims["serviceurl"] != service {
            return Err(Rejection::Unverified("the token was issued for another `serviceUrl`"));
        }
        if !Url::parse(service).is_ok_and(|url| url.scheme() == "https") {
            return Err(Rejection::Unverified("the `serviceUrl` is not https"));
        }
        let channel = activity["channelId"].as_str().unwrap_or_default();
        if !key.endorsements.iter().any(|endorsed| endorsed == channel) {
            return Err(Rejection::Unverified("the key of the token is not endorsed for the channel"));
        }
        Ok(activity)
    }
}
