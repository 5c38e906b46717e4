//! The table of addresses and tricks: what each URL is, and who may reach it under the default
//! policy. URLs pass the same parser as in production.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use agentd_net::{AddressClass, GuardedClient, HostPattern, NetError, NetPolicy, PolicyHandle, Trust};
use url::Url;

/// (URL, class of its host).
const TABLE: &[(&str, AddressClass)] = {
    use AddressClass::{LinkLocal, Loopback, Metadata, Private, Public, Unreachable};
    &[
        // Public, and the neighbours of special blocks.
        ("http://1.1.1.1/", Public),
        ("http://9.255.255.255/", Public),
        ("http://11.0.0.0/", Public),
        ("http://100.63.255.255/", Public),
        ("http://100.128.0.0/", Public),
        ("http://126.255.255.255/", Public),
        ("http://128.0.0.1/", Public),
        ("http://169.253.255.255/", Public),
        ("http://169.255.0.0/", Public),
        ("http://172.15.255.255/", Public),
        ("http://172.32.0.0/", Public),
        ("http://192.0.1.1/", Public),
        ("http://192.167.255.255/", Public),
        ("http://192.169.0.0/", Public),
        ("http://198.17.255.255/", Public),
        ("http://198.20.0.0/", Public),
        ("http://223.255.255.255/", Public),
        ("http://[2606:4700:4700::1111]/", Public),
        ("http://[2001:4860:4860::8888]/", Public),
        // Private.
        ("http://10.0.0.1/", Private),
        ("http://172.16.0.1/", Private),
        ("http://172.31.255.255/", Private),
        ("http://192.168.1.1/", Private),
        ("http://100.64.0.1/", Private),
        ("http://100.127.255.255/", Private),
        ("http://192.0.0.8/", Private),
        ("http://198.18.0.1/", Private),
        ("http://198.19.255.255/", Private),
        ("http://[fc00::1]/", Private),
        ("http://[fdff:ffff::1]/", Private),
        ("http://[fec0::1]/", Private),
        ("http://[2001:2::1]/", Private),
        // Loopback in every notation.
        ("http://127.0.0.1/", Loopback),
        ("http://127.255.255.254/", Loopback),
        ("http://127.1/", Loopback),
        ("http://127.0.1/", Loopback),
        ("http://2130706433/", Loopback),
        ("http://0x7f000001/", Loopback),
        ("http://0x7f.1/", Loopback),
        ("http://0177.0.0.1/", Loopback),
        ("http://017700000001/", Loopback),
        ("http://127.0.0.1./", Loopback),
        ("http://%31%32%37.0.0.1/", Loopback),
        ("http://１２７.０.０.１/", Loopback),
        ("http://127。0。0。1/", Loopback),
        ("http://user:pass@127.0.0.1:8080/", Loopback),
        ("http://1.1.1.1@127.0.0.1/", Loopback),
        ("http://[::1]/", Loopback),
        ("http://[0:0:0:0:0:0:0:1]/", Loopback),
        ("http://[::ffff:127.0.0.1]/", Loopback),
        ("http://[::ffff:7f00:1]/", Loopback),
        ("http://[::127.0.0.1]/", Loopback),
        ("http://[::ffff:0:127.0.0.1]/", Loopback),
        ("http://[64:ff9b::127.0.0.1]/", Loopback),
        ("http://[2002:7f00:1::]/", Loopback),
        // IPv6 that carries something else.
        ("http://[64:ff9b::8.8.8.8]/", Public),
        ("http://[64:ff9b::10.0.0.1]/", Private),
        ("http://[64:ff9b:1::8.8.8.8]/", Public),
        ("http://[64:ff9b:1::192.168.0.1]/", Private),
        ("http://[64:ff9b:1:a9fe:a9:fe00::]/", Metadata),
        ("http://[2002:808:808::1]/", Public),
        ("http://[2002:a00:1::1]/", Private),
        ("http://[2001:0:808:808:0:0:f7f7:f7f7]/", Public),
        ("http://[2001:0:808:808:0:0:80ff:fffe]/", Loopback),
        ("http://[2001:0:a00:1:0:0:f7f7:f7f7]/", Private),
        ("http://[::ffff:169.254.169.254]/", Metadata),
        // Link-local and metadata.
        ("http://169.254.1.1/", LinkLocal),
        ("http://169.254.170.2/", LinkLocal),
        ("http://[fe80::1]/", LinkLocal),
        ("http://[febf::1]/", LinkLocal),
        ("http://169.254.169.254/latest/meta-data/", Metadata),
        ("http://2852039166/", Metadata),
        ("http://0xa9fea9fe/", Metadata),
        ("http://0251.0376.0251.0376/", Metadata),
        ("http://169.254.43518/", Metadata),
        ("http://100.100.100.200/", Metadata),
        ("http://168.63.129.16/", Metadata),
        ("http://[fd00:ec2::254]/", Metadata),
        ("http://[fd20:ce::254]/", Metadata),
        ("http://metadata.google.internal/", Metadata),
        ("http://METADATA.GOOGLE.INTERNAL./", Metadata),
        ("http://metadata/", Metadata),
        ("http://instance-data.ec2.internal/", Metadata),
        // Nothing can be there.
        ("http://0/", Unreachable),
        ("http://0.0.0.0/", Unreachable),
        ("http://0.1.2.3/", Unreachable),
        ("http://[::]/", Unreachable),
        ("http://[::ffff:0.0.0.0]/", Unreachable),
        ("http://192.0.2.1/", Unreachable),
        ("http://198.51.100.1/", Unreachable),
        ("http://203.0.113.1/", Unreachable),
        ("http://192.88.99.1/", Unreachable),
        ("http://224.0.0.1/", Unreachable),
        ("http://240.0.0.1/", Unreachable),
        ("http://255.255.255.255/", Unreachable),
        ("http://[ff02::1]/", Unreachable),
        ("http://[2001:db8::1]/", Unreachable),
        ("http://[3fff::1]/", Unreachable),
        ("http://[100::1]/", Unreachable),
        ("http://[4000::1]/", Unreachable),
    ]
};

fn check(policy: &NetPolicy, url: &str, trust: Trust) -> Result<(), NetError> {
    policy.check_url(&Url::parse(url).unwrap(), trust)
}

fn policy(allowed: &[&str], blocked: &[&str]) -> NetPolicy {
    let parse = |list: &[&str]| list.iter().map(|text| text.parse::<HostPattern>().unwrap()).collect();
    NetPolicy { allowed_hosts: parse(allowed), blocked_hosts: parse(blocked) }
}

#[test]
fn default_policy() {
    let policy = NetPolicy::default();
    for &(url, class) in TABLE {
        for (trust, reachable) in [
            (Trust::Steered, class == AddressClass::Public),
            (Trust::Owner, matches!(class, AddressClass::Public | AddressClass::Private | AddressClass::Loopback)),
        ] {
            match check(&policy, url, trust) {
                Ok(()) => assert!(reachable, "{url} must be refused to {trust:?}"),
                Err(NetError::Refused { class: found, .. }) => {
                    assert!(!reachable, "{url} must be open to {trust:?}");
                    assert_eq!(found, class, "{url}");
                }
                Err(other) => panic!("{url}: {other}"),
            }
        }
    }
    assert!(TABLE.len() >= 60);
}

#[test]
fn only_http_is_spoken() {
    for url in ["ftp://1.1.1.1/", "file:///etc/passwd", "gopher://127.0.0.1/", "data:text/plain,x", "unix:/run/x"] {
        assert!(matches!(check(&NetPolicy::default(), url, Trust::Owner), Err(NetError::Scheme { .. })), "{url}");
    }
}

#[test]
fn allowed_hosts_open_what_they_name() {
    let named = policy(&["169.254.169.254", "10.0.0.0/8", "::1", "metadata.google.internal"], &[]);
    for url in
        ["http://169.254.169.254/", "http://[::ffff:10.2.3.4]/", "http://[::1]/", "http://metadata.google.internal/"]
    {
        assert!(check(&named, url, Trust::Steered).is_ok(), "{url}");
    }
    for url in ["http://169.254.169.253/", "http://127.0.0.1/", "http://192.168.0.1/"] {
        assert!(check(&named, url, Trust::Steered).is_err(), "{url}");
    }
    let everything = policy(&["0.0.0.0/0", "::/0"], &[]);
    assert!(check(&everything, "http://0.0.0.0/", Trust::Owner).is_err(), "naming cannot make it an address");
}

#[test]
fn a_wildcard_opens_private_addresses_but_no_metadata() {
    let wild = policy(&["*.corp.example"], &[]);
    let to = |address: &str| wild.check_address("wiki.corp.example", address.parse().unwrap(), Trust::Steered);
    assert!(to("10.0.0.5").is_ok());
    assert!(to("169.254.169.254").is_err());
    assert!(wild.check_address("corp.example", "10.0.0.5".parse().unwrap(), Trust::Steered).is_err());
}

#[test]
fn blocked_hosts_win() {
    let both = policy(&["10.0.0.5", "api.example"], &["10.0.0.0/8", "*.example", "1.1.1.1"]);
    for url in ["http://10.0.0.5/", "http://API.example./", "https://1.1.1.1/", "http://[::ffff:1.1.1.1]/"] {
        assert!(matches!(check(&both, url, Trust::Owner), Err(NetError::Blocked { .. })), "{url}");
    }
}

#[test]
fn a_refusal_says_host_and_remedy_and_nothing_more() {
    let error = check(&NetPolicy::default(), "http://10.0.0.5/secret?key=abc", Trust::Steered).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("10.0.0.5") && text.contains("security.allowed_hosts"), "{text}");
    assert!(!text.contains("secret") && !text.contains("abc"), "{text}");
}

#[test]
fn a_client_checks_before_it_builds_anything() {
    let client = GuardedClient::new(PolicyHandle::default(), Trust::Steered);
    let url = Url::parse("http://127.1/").unwrap();
    assert!(client.request(http::Method::GET, url).unwrap_err().is_refusal());
}
