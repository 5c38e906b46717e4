//! Permitted addresses of tabs.
//!
//! The rule of `goto` applies to every navigation: links, scripts, popups, the history and Chromium itself. Chromium's
//! internal pages read files and change settings, which web pages cannot.

use url::Url;

use crate::BrowserError;

/// Permitted addresses for error messages.
pub(crate) const PERMITTED: &str = "http, https, data, blob and about:blank";
/// Page that Chromium shows after a failed navigation.
const ERROR_PAGE: &str = "chrome-error://chromewebdata/";

/// Whether `goto` may open an address.
pub(crate) fn is_openable(url: &Url) -> bool {
    match url.scheme() {
        "http" | "https" | "data" => true,
        // A blob has the privileges of the origin in its path.
        "blob" => ["http://", "https://", "null/"].iter().any(|origin| url.path().starts_with(origin)),
        "about" => url.path() == "blank",
        _ => false,
    }
}

/// Whether a tab may show an address: an openable one, Chromium's error page, or no address yet.
pub(crate) fn is_permitted(url: &str) -> bool {
    url.is_empty() || url == ERROR_PAGE || Url::parse(url).is_ok_and(|url| is_openable(&url))
}

/// Returns the error for a tab that navigated to a refused address. It contains only the scheme.
pub(crate) fn refused(url: &str) -> BrowserError {
    let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
    BrowserError::AddressRefused { scheme: crate::selector::shortened(scheme) }
}

#[cfg(test)]
mod chromium_tests;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_web_pages_are_permitted() {
        for url in [
            "",
            "about:blank",
            "about:blank#blocked",
            "blob:http://a.example/1",
            "blob:null/1",
            "chrome-error://chromewebdata/",
            "data:text/html,x",
            "http://a.example/x",
            "https://a.example",
        ] {
            assert!(is_permitted(url), "{url}");
        }
        for url in [
            "about:version",
            "blob:chrome://bookmarks/1",
            "blob:file:///1",
            "chrome-error://other/",
            "chrome-untrusted://print/",
            "chrome://bookmarks/",
            "devtools://devtools/bundled/inspector.html",
            "file:///etc/passwd",
            "filesystem:http://a/temporary/x",
            "javascript:1",
            "not an address",
            "view-source:http://a.example/",
        ] {
            assert!(!is_permitted(url), "{url}");
        }
    }

    #[test]
    fn error_names_the_scheme_and_not_the_address() {
        let error = refused("file:///etc/passwd");
        assert_eq!(error.code(), "address_refused");
        assert!(error.to_string().contains("`file:`") && !error.to_string().contains("passwd"), "{error}");
    }
}
