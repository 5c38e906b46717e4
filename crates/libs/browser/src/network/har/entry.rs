//! HAR entry and its JSON representation.

use std::sync::Arc;

use serde_json::{Value, json};
use url::Url;

use super::body::{Body, MAX_BODY_BYTES};
use super::events::{self, HeaderMap, Response};
use super::timings::timings;
use crate::network::events::{self as network, RequestId};
use crate::network::truncate;

pub(super) const MAX_URL_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) request_id: RequestId,
    page: Option<usize>,
    method: String,
    url: String,
    kind: String,
    pub(super) started: f64,
    pub(super) wall: f64,
    pub(super) request_headers: HeaderMap,
    /// Headers as actually sent, including cookies.
    pub(super) sent_headers: Option<HeaderMap>,
    post: Option<Post>,
    /// Whether Chromium reports the actual headers.
    pub(super) has_extra: Option<bool>,
    response: Option<Response>,
    pub(super) received_headers: Option<HeaderMap>,
    redirected_to: Option<String>,
    answered: Option<f64>,
    ended: Option<f64>,
    /// Size of the decoded body.
    pub(super) data_bytes: u64,
    /// Size as received, including headers.
    pub(super) encoded_bytes: Option<u64>,
    error: Option<String>,
    pub(super) is_mocked: bool,
    pub(super) body: Option<Body>,
    pub(super) messages: Messages,
}

#[derive(Debug)]
struct Post {
    mime_type: String,
    text: Option<String>,
}

/// WebSocket message.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) kind: &'static str,
    /// Seconds since the Unix epoch.
    pub(super) wall: f64,
    /// 1 for text, 2 for binary data in base64.
    pub(super) opcode: u64,
    pub(super) data: String,
}

/// Messages of one WebSocket.
#[derive(Debug, Default)]
pub(super) struct Messages {
    pub(super) kept: Vec<Message>,
    pub(super) left_out: u64,
}

impl Entry {
    pub(super) fn new(
        request_id: RequestId,
        method: &str,
        url: &str,
        kind: &str,
        (started, wall): (f64, f64),
        page: Option<usize>,
    ) -> Self {
        Self {
            request_id: Arc::clone(&request_id),
            page,
            method: truncate(method, 50),
            url: truncate(url, MAX_URL_BYTES),
            kind: truncate(kind, 30).to_ascii_lowercase(),
            started,
            wall,
            request_headers: HeaderMap::new(),
            sent_headers: None,
            post: None,
            has_extra: None,
            response: None,
            received_headers: None,
            redirected_to: None,
            answered: None,
            ended: None,
            data_bytes: 0,
            encoded_bytes: None,
            error: None,
            is_mocked: false,
            body: None,
            messages: Messages::default(),
        }
    }

    pub(super) fn set_post(&mut self, text: Option<String>, has_some: bool, headers: &HeaderMap) {
        if has_some || text.is_some() {
            let mime_type = header(headers, "content-type").unwrap_or("application/octet-stream").to_owned();
            self.post = Some(Post { mime_type, text: text.filter(|text| text.len() <= MAX_BODY_BYTES) });
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let post = self.post.as_ref().and_then(|post| post.text.as_ref()).map_or(0, String::len);
        self.url.len() + post + events::bytes_of(&self.request_headers)
    }

    /// Whether it has neither a response nor an end.
    pub(super) fn is_open(&self) -> bool {
        self.ended.is_none() && self.response.is_none()
    }

    pub(super) fn answer(&mut self, response: Response, timestamp: f64) {
        (self.response, self.answered) = (Some(response), Some(timestamp));
    }

    pub(super) fn redirected(&mut self, response: Response, has_extra: bool, to: String, timestamp: f64) {
        self.has_extra = Some(has_extra);
        self.encoded_bytes = Some(network::bytes(response.encoded_data_length));
        self.redirected_to = Some(to);
        self.answer(response, timestamp);
        self.end(timestamp);
    }

    pub(super) fn end(&mut self, timestamp: f64) {
        self.ended.get_or_insert(timestamp);
    }

    pub(super) fn fail(&mut self, timestamp: f64, reason: String) {
        self.end(timestamp);
        self.error = Some(reason);
    }

    /// Whether its response body is text.
    pub(super) fn has_text(&self) -> bool {
        let Some(response) = &self.response else { return false };
        let mime = response.mime_type.to_ascii_lowercase();
        let is_text = mime.starts_with("text/")
            || ["json", "xml", "javascript", "ecmascript", "x-www-form-urlencoded"]
                .iter()
                .any(|kind| mime.contains(kind));
        is_text && self.method != "HEAD" && !matches!(response.status, 204 | 304)
    }

    pub(super) fn json(&self) -> Value {
        let timing = self.response.as_ref().and_then(|response| response.timing.as_ref());
        let (timings, time) = timings(self.started, timing, self.ended.or(self.answered));
        let mut entry = json!({
            "startedDateTime": rfc3339(self.wall),
            "time": time,
            "request": self.request(),
            "response": self.response(),
            "cache": {},
            "timings": timings,
            "_resourceType": self.kind,
        });
        if let Some(page) = self.page {
            entry["pageref"] = page_id(page).into();
        }
        if let Some(address) = self.response.as_ref().and_then(|response| response.remote_ip_address.as_ref()) {
            entry["serverIPAddress"] = address.trim_matches(['[', ']']).into();
        }
        if self.is_mocked {
            entry["_mocked"] = true.into();
        }
        if self.kind == "websocket" {
            entry["_webSocketMessages"] = self.messages.kept.iter().map(Message::json).collect();
        }
        let left_out = self.left_out();
        if !left_out.is_empty() {
            entry["comment"] = format!("omitted: {}", left_out.join(", ")).into();
        }
        if let Some(error) = &self.error {
            entry["_error"] = error.as_str().into();
        }
        entry
    }

    /// Lists omitted parts other than the body.
    fn left_out(&self) -> Vec<String> {
        let is_dropped = |headers: &Option<HeaderMap>| headers.as_ref().is_some_and(HeaderMap::is_empty);
        let is_stripped = self.response.as_ref().is_some_and(|response| response.is_stripped);
        let has_no_headers = is_stripped || is_dropped(&self.sent_headers) || is_dropped(&self.received_headers);
        let headers = has_no_headers.then(|| "headers".to_owned());
        let messages = self.messages.left_out;
        let messages = (messages > 0).then(|| format!("{messages} messages"));
        headers.into_iter().chain(messages).collect()
    }

    fn request(&self) -> Value {
        let headers = self.sent_headers.as_ref().unwrap_or(&self.request_headers);
        let query = Url::parse(&self.url).map(|url| {
            url.query_pairs().map(|(name, value)| json!({"name": name, "value": value})).collect::<Vec<_>>()
        });
        let mut request = json!({
            "method": self.method,
            "url": self.url,
            "httpVersion": self.http_version(),
            "cookies": header(headers, "cookie").map(request_cookies).unwrap_or_default(),
            "headers": header_list(headers),
            "queryString": query.unwrap_or_default(),
            "headersSize": -1,
            "bodySize": self.post.as_ref().map_or(0, |post| number(post.text.as_ref().map(|text| text.len() as u64))),
        });
        if let Some(post) = &self.post {
            request["postData"] = json!({"mimeType": post.mime_type, "text": post.text.as_deref().unwrap_or_default()});
            if post.text.is_none() {
                request["postData"]["comment"] = "omitted: the body is not text or is too long".into();
            }
        }
        request
    }

    fn response(&self) -> Value {
        let empty = HeaderMap::new();
        let response = self.response.as_ref();
        let headers = self.received_headers.as_ref().or(response.map(|response| &response.headers)).unwrap_or(&empty);
        let mime_type = response.map(|response| response.mime_type.as_str()).filter(|mime| !mime.is_empty());
        let mut content = json!({"size": self.data_bytes, "mimeType": mime_type.unwrap_or("x-unknown")});
        match &self.body {
            Some(Body::Text(text)) => {
                content["text"] = text.as_str().into();
                content["size"] = self.data_bytes.max(text.len() as u64).into();
            }
            Some(Body::Base64(text)) => {
                content["text"] = text.as_str().into();
                content["encoding"] = "base64".into();
            }
            Some(Body::Omitted(why)) => content["comment"] = why.as_str().into(),
            None => {}
        }
        json!({
            "status": response.map_or(0, |response| response.status),
            "statusText": response.map(|response| response.status_text.as_str()).unwrap_or_default(),
            "httpVersion": self.http_version(),
            "cookies": header(headers, "set-cookie").map(response_cookies).unwrap_or_default(),
            "headers": header_list(headers),
            "content": content,
            "redirectURL": self.redirected_to.as_deref().unwrap_or_default(),
            "headersSize": -1,
            "bodySize": -1,
            "_transferSize": number(self.encoded_bytes),
        })
    }

    fn http_version(&self) -> String {
        match self.response.as_ref().and_then(|response| response.protocol.as_deref()) {
            Some("h2") => "HTTP/2".to_owned(),
            Some("h3") => "HTTP/3".to_owned(),
            Some(protocol) => protocol.to_ascii_uppercase(),
            None => "HTTP/1.1".to_owned(),
        }
    }
}

impl Message {
    fn json(&self) -> Value {
        json!({"type": self.kind, "time": self.wall, "opcode": self.opcode, "data": self.data})
    }
}

pub(super) fn rfc3339(wall_seconds: f64) -> String {
    network::time(wall_seconds).to_string()
}

pub(super) fn page_id(index: usize) -> String {
    format!("page_{}", index + 1)
}

fn number(count: Option<u64>) -> i64 {
    count.and_then(|count| i64::try_from(count).ok()).unwrap_or(-1)
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

/// Lists headers; multiple values of one name are separated by line breaks.
fn header_list(headers: &HeaderMap) -> Vec<Value> {
    let lines = headers.iter().flat_map(|(name, values)| values.split('\n').map(move |value| (name, value)));
    lines.map(|(name, value)| json!({"name": name, "value": value})).collect()
}

fn name_and_value(text: &str) -> (&str, &str) {
    let (name, value) = text.split_once('=').unwrap_or(("", text));
    (name.trim(), value.trim())
}

fn request_cookies(line: &str) -> Vec<Value> {
    let cookies = line.split(';').map(name_and_value);
    cookies.map(|(name, value)| json!({"name": name, "value": value})).collect()
}

fn response_cookies(lines: &str) -> Vec<Value> {
    let cookies = lines.split('\n').map(|line| {
        let mut parts = line.split(';');
        let (name, value) = name_and_value(parts.next().unwrap_or_default());
        let mut cookie = json!({"name": name, "value": value, "httpOnly": false, "secure": false});
        for part in parts {
            let (attribute, value) = part.split_once('=').unwrap_or((part, ""));
            match attribute.trim().to_ascii_lowercase().as_str() {
                "path" => cookie["path"] = value.trim().into(),
                "domain" => cookie["domain"] = value.trim().into(),
                "httponly" => cookie["httpOnly"] = true.into(),
                "secure" => cookie["secure"] = true.into(),
                _ => {}
            }
        }
        cookie
    });
    cookies.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_are_parsed_from_headers() {
        assert_eq!(
            request_cookies("a=1; b=x=y"),
            [json!({"name": "a", "value": "1"}), json!({"name": "b", "value": "x=y"})]
        );
        let cookies = response_cookies("a=1; Path=/x; HttpOnly\nb=2; secure; Domain=a.example; Max-Age=3");
        assert_eq!(cookies[0], json!({"name": "a", "value": "1", "path": "/x", "httpOnly": true, "secure": false}));
        assert_eq!(
            cookies[1],
            json!({"name": "b", "value": "2", "domain": "a.example", "httpOnly": false, "secure": true})
        );
    }
}
