//! Guard that keeps the inner HTTP client from connecting to forbidden IP literals, even if a library uses it without a
//! check. The client resolves names with our resolver but connects to literals directly; however, it asks for the proxy
//! of each connection. A forbidden literal is assigned a proxy whose name our resolver recognizes and rejects with the
//! actual reason.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use url::{Host, Url};

use crate::{NetPolicy, Trust};

/// Suffix below `.invalid` (RFC 2606), where no name can exist.
const SUFFIX: &str = ".refused-literal.invalid";

/// Returns a pseudo proxy that permitted URLs do not use.
pub(crate) fn guard(policy: Arc<NetPolicy>, trust: Trust) -> reqwest::Proxy {
    reqwest::Proxy::custom(move |url: &Url| {
        let literal: IpAddr = match url.host()? {
            Host::Domain(_) => return None,
            Host::Ipv4(address) => address.into(),
            Host::Ipv6(address) => address.into(),
        };
        policy
            .check_address(&literal.to_string(), literal, trust)
            .is_err()
            .then(|| format!("http://{}", encode(literal)))
    })
}

/// Encodes the literal as one label: its bits in hex.
fn encode(literal: IpAddr) -> String {
    let bits = match literal {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    };
    format!("x{bits:032x}{SUFFIX}")
}

/// Decodes the literal from a host name created by [`guard`].
pub(crate) fn decode(host: &str) -> Option<IpAddr> {
    let bits = host.strip_suffix(SUFFIX)?.strip_prefix('x')?;
    let address = Ipv6Addr::from_bits(u128::from_str_radix(bits, 16).ok()?);
    Some(IpAddr::V6(address).to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_literals_are_decoded() {
        for text in ["127.0.0.1", "169.254.169.254", "::1", "fd00:ec2::254"] {
            let literal: IpAddr = text.parse().unwrap();
            assert_eq!(decode(&encode(literal)), Some(literal));
        }
        assert_eq!(decode("refused-literal.invalid"), None);
        assert_eq!(decode("example.com"), None);
    }
}
