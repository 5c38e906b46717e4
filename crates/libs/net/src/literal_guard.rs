//! Keeps the HTTP client underneath from connecting to IP literals that the policy refuses, even
//! where a library uses it without asking first. The client resolves names through us, but dials
//! literals itself; what it does ask for each connection is which proxy to take. A refused literal
//! is sent to a proxy whose name our resolver recognizes and refuses with the true reason.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use url::{Host, Url};

use crate::{NetPolicy, Trust};

/// Below `.invalid` (RFC 2606), where no name can ever exist.
const SUFFIX: &str = ".refused-literal.invalid";

/// A "proxy" that permitted URLs do not take.
pub(crate) fn guard(policy: Arc<NetPolicy>, trust: Trust) -> reqwest::Proxy {
    reqwest::Proxy::custom(move |url: &Url| {
        let literal: IpAddr = match url.host()? {
            Host::Domain(_) => return None,
            Host::Ipv4(address) => address.into(),
            Host::Ipv6(address) => address.into(),
        };
        policy.check_address(&literal.to_string(), literal, trust).is_err().then(|| format!("http://{}", wrap(literal)))
    })
}

/// The literal as one label: its bits in hex.
fn wrap(literal: IpAddr) -> String {
    let bits = match literal {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    };
    format!("x{bits:032x}{SUFFIX}")
}

/// The literal that `host` stands for, if it came from [`guard`].
pub(crate) fn unwrap(host: &str) -> Option<IpAddr> {
    let bits = host.strip_suffix(SUFFIX)?.strip_prefix('x')?;
    let address = Ipv6Addr::from_bits(u128::from_str_radix(bits, 16).ok()?);
    Some(IpAddr::V6(address).to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrapped_comes_out_again() {
        for text in ["127.0.0.1", "169.254.169.254", "::1", "fd00:ec2::254"] {
            let literal: IpAddr = text.parse().unwrap();
            assert_eq!(unwrap(&wrap(literal)), Some(literal));
        }
        assert_eq!(unwrap("refused-literal.invalid"), None);
        assert_eq!(unwrap("example.com"), None);
    }
}
