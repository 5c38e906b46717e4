//! What a request to the proxy asks for.

use http::{Method, Request, Uri};
use url::{Host, Url};

/// Where a request leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) host: Host,
    pub(super) port: u16,
}

/// Of `CONNECT host:port`, or of an absolute `http://` address.
///
/// # Errors
/// What is wrong with the request, as a sentence.
pub(super) fn target_of<B>(request: &Request<B>) -> Result<Target, &'static str> {
    let uri = request.uri();
    if request.method() == Method::CONNECT { of_connect(uri) } else { of_absolute(uri) }
}

fn of_connect(uri: &Uri) -> Result<Target, &'static str> {
    const FORM: &str = "CONNECT takes a host and a port, such as example.com:443";
    let authority = uri.authority().ok_or(FORM)?;
    if authority.as_str().contains('@') || uri.path_and_query().is_some() {
        return Err(FORM);
    }
    // What follows the host must be a colon and digits; a port that was left out or is no number is none.
    let port = authority.port_u16().ok_or(FORM)?;
    let host = parse(authority.host())?;
    Ok(Target { host, port })
}

fn of_absolute(uri: &Uri) -> Result<Target, &'static str> {
    match uri.scheme_str() {
        Some("http") => {}
        Some("https") => return Err("addresses that start with https:// are reached with CONNECT"),
        Some(_) => return Err("this proxy speaks HTTP alone"),
        None => return Err("this is a proxy: requests name the whole address, such as http://example.com/"),
    }
    let host = parse(uri.host().unwrap_or_default())?;
    // Both parsers must see the same place, or one of them could be led by the nose.
    let url = Url::parse(&uri.to_string()).map_err(|_| "the address cannot be read")?;
    let port = uri.port_u16().unwrap_or(80);
    let agrees = url.host().is_some_and(|seen| seen.to_owned() == host) && url.port_or_known_default() == Some(port);
    if !agrees {
        return Err("the address can be read in two ways");
    }
    Ok(Target { host, port })
}

fn parse(host: &str) -> Result<Host, &'static str> {
    Host::parse(host).map_err(|_| "the host is neither a name nor an address")
}

impl Target {
    /// The value of `Host`.
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
        target_of(&request).map(|target| (target.host.to_string(), target.port))
    }

    #[test]
    fn reads_both_forms() {
        assert_eq!(read("CONNECT", "Example.com:443"), Ok(("example.com".into(), 443)));
        assert_eq!(read("CONNECT", "0x7f.1:443"), Ok(("127.0.0.1".into(), 443)));
        assert_eq!(read("CONNECT", "[::1]:8443"), Ok(("[::1]".into(), 8443)));
        assert_eq!(read("GET", "http://example.com/a?b"), Ok(("example.com".into(), 80)));
        assert_eq!(read("GET", "http://user:x@0177.1:8080/"), Ok(("127.0.0.1".into(), 8080)));
    }

    #[test]
    fn refuses_what_is_neither() {
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
        fn any_address_is_read_or_refused(method in "GET|CONNECT", uri in "(http://)?[a-z0-9.@:%\\[\\]/?#x-]{0,24}") {
            if let Ok((host, _)) = read(&method, &uri) {
                prop_assert!(Host::parse(&host).is_ok());
            }
        }
    }
}
