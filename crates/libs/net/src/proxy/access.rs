//! Client authentication: by file mode on a socket file, by credential on a port.

use agentd_base::Secret;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use http::header::PROXY_AUTHORIZATION;
use subtle::ConstantTimeEq;

pub(super) const USER: &str = "agentd";

/// Required value of `Proxy-Authorization`; `None` on a socket file.
pub(super) struct Access(Option<Secret>);

impl Access {
    pub(super) fn new(password: Option<Secret>) -> Self {
        Self(
            password.map(|password| {
                Secret::new(format!("Basic {}", STANDARD.encode(format!("{USER}:{}", password.expose()))))
            }),
        )
    }

    pub(super) fn permits(&self, headers: &HeaderMap) -> bool {
        let Some(expected) = &self.0 else { return true };
        headers
            .get(PROXY_AUTHORIZATION)
            .is_some_and(|given| given.as_bytes().ct_eq(expected.expose().as_bytes()).into())
    }
}
