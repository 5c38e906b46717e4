//! Destination of a request to the proxy.

use http::{Method, Request, Uri};
use url::{Host, Url};

/// Host and port of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) host: Host,
    pub(super) port: u16,
}

/// Parses the target of `CONNECT host:port` or of an absolute `http://` URL.
///
/// # Errors
/// Returns a message if the request is invalid.
pub(super) fn parse_target<B>(request: &Request<B>) -> Result<Target, &'static str> {
    let uri = request.uri();
    if request.method() == Method::CONNECT { parse_connect(uri) } else { parse_absolute(uri) }
}

fn parse_connect(uri: &Uri) -> Result<Target, &'static str> {
    const FORM: &str = "CONNECT requires a host and a port, such as example.com:443";
    let authority = uri.authority().ok_or(FORM)?;
    if authority.as_str().contains('@') || uri.path_and_query().is_some() {
        return Err(FORM);
    }
    // The host must be followed by a colon and digits; a missing or invalid port is an error.
    let port = authority.port_u16().ok_or(FORM)?;
    let host = parse_host(authority.host())?;
    Ok(Target { host, port })
}

fn parse_absolute(uri: &Uri) -> Result<Target, &'static str> {
    match uri.scheme_str() {
        Some("http") => {}
        Some("https") => return Err("https:// URLs require CONNECT"),
        Some(_) => return Err("this proxy supports only HTTP"),
        None => return Err("a proxy request must contain an absolute URL, such as http://example.com/"),
    }
    let host = parse_host(uri.host().unwrap_or_default())?;
    // Both parsers must agree on the host; otherwise, one of them could be deceived.
    let url = Url::parse(&uri.to_string()).map_err(|_| "the URL is not valid")?;
    let port = uri.port_u16().unwrap_or(80);
    let agrees = url.host().is_some_and(|seen| seen.to_owned() == host) && url.port_or_known_default() == Some(port);
    if !agrees {
        return Err("the URL is ambiguous");
    }
    Ok(Target { host, port })
}

fn parse_host(host: &str) -> Result<Host, &'static str> {
    Host::parse(host).map_err(|_| "the host is neither a name nor an IP address")
}

impl Target {
    /// Returns the value of `Host`.
    pub(super) fn authority(&self) -> String {
        if self.port == 80 { self.host.to_string() } else { format!("{}:{}", self.host, self.port) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(method: &str, uri: &str) -> Result<(String, u16), &'static str> {
        let uri: Uri = uri.parse().map_err(|_| "not an address for HTTP")?;
        let request = Request::builder().method(method).uri(uri).body(()).unwrap();
        parse_target(&request).map(|target| (target.host.to_string(), target.port))
    }

    #[test]
    fn both_request_forms_are_parsed() {
        assert_eq!(read("CONNECT", "Example.com:443"), Ok(("example.com".into(), 443)));
        assert_eq!(read("CONNECT", "0x7f.1:443"), Ok(("127.0.0.1".into(), 443)));
        assert_eq!(read("CONNECT", "[::1]:8443"), Ok(("[::1]".into(), 8443)));
        assert_eq!(read("GET", "http://example.com/a?b"), Ok(("example.com".into(), 80)));
        assert_eq!(read("GET", "http://user:x@0177.1:8080/"), Ok(("127.0.0.1".into(), 8080)));
    }

    #[test]
    fn other_request_forms_are_rejected() {
        for (method, uri) in [
            ("CONNECT", "example.com"),
            ("CONNECT", "example.com:"),
            ("CONNECT", "good@127.0.0.1:443"),
            ("CONNECT", "example.com:443/path"),
            ("CONNECT", "[fe80::1%25eth0]:80"),
            ("CONNECT", "http://example.com:80/"),
            ("GET", "/path"),
            ("GET", "https://example.com/"),
            ("GET", "ftp://example.com/"),
            ("GET", "http://good.example\\@127.0.0.1/"),
            ("GET", "http://[fe80::1%25eth0]/"),
            ("GET", "http://example.com:99999/"),
            ("GET", "*"),
        ] {
            assert!(read(method, uri).is_err(), "{method} {uri}");
        }
    }

    proptest! {
        #[test]
        fn any_address_is_parsed_or_rejected(method in "GET|CONNECT", uri in "(http://)?[a-z0-9.@:%\\[\\]/?#x-]{0,24}") {
            if let Ok((host, _)) = read(&method, &uri) {
                prop_assert!(Host::parse(&host).is_ok());
            }
        }
    }
}
