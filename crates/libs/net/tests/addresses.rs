//! Table of addresses and bypass attempts, and the effect of the owner's two lists. URLs are parsed as in production.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod table;

use agentd_net::{AddressClass, GuardedClient, HostPattern, NetError, NetPolicy, PolicyHandle, Trust};
use table::rows::{Kind, ROWS};
use url::Url;

fn check(policy: &NetPolicy, url: &str, trust: Trust) -> Result<(), NetError> {
    policy.check_url(&Url::parse(url).unwrap(), trust)
}

fn policy(allowed: &[&str], blocked: &[&str]) -> NetPolicy {
    let parse = |list: &[&str]| list.iter().map(|text| text.parse::<HostPattern>().unwrap()).collect();
    NetPolicy { allowed_hosts: parse(allowed), blocked_hosts: parse(blocked) }
}

#[tokio::test]
async fn table_verdicts_match_for_client_and_proxy() {
    let folder = tempfile::tempdir().unwrap();
    let outcomes = table::run(folder.path()).await.unwrap();
    let misses: Vec<String> = outcomes
        .iter()
        .filter(|outcome| outcome.is_miss())
        .map(|outcome| {
            let (row, trust) = (outcome.row, outcome.trust);
            format!(
                "{:?} ({}) as {trust:?}, {}: expected {}, got {}",
                row.url, row.why, outcome.through, outcome.expected, outcome.got
            )
        })
        .collect();
    assert!(misses.is_empty(), "{misses:#?}");
    assert!(ROWS.len() >= 90);
}

#[test]
fn refusal_names_the_address_class() {
    for row in ROWS.iter().filter(|row| row.answers.is_empty()) {
        let Kind::Leads(class) = row.kind else { continue };
        match check(&NetPolicy::default(), row.url, Trust::Untrusted) {
            Ok(()) => assert_eq!(class, AddressClass::Public, "{}", row.url),
            Err(NetError::Refused { class: found, .. }) => assert_eq!(found, class, "{}", row.url),
            Err(other) => panic!("{}: {other}", row.url),
        }
    }
}

#[test]
fn allowed_hosts_permit_their_addresses() {
    let named = policy(&["169.254.169.254", "10.0.0.0/8", "::1", "metadata.google.internal"], &[]);
    for url in
        ["http://169.254.169.254/", "http://[::ffff:10.2.3.4]/", "http://[::1]/", "http://metadata.google.internal/"]
    {
        assert!(check(&named, url, Trust::Untrusted).is_ok(), "{url}");
    }
    for url in ["http://169.254.169.253/", "http://127.0.0.1/", "http://192.168.0.1/"] {
        assert!(check(&named, url, Trust::Untrusted).is_err(), "{url}");
    }
    let everything = policy(&["0.0.0.0/0", "::/0"], &[]);
    assert!(check(&everything, "http://0.0.0.0/", Trust::Owner).is_err(), "naming cannot make it an address");
}

#[test]
fn wildcard_permits_private_addresses_but_not_metadata() {
    let wild = policy(&["*.corp.example"], &[]);
    let to = |address: &str| wild.check_address("wiki.corp.example", address.parse().unwrap(), Trust::Untrusted);
    assert!(to("10.0.0.5").is_ok());
    assert!(to("169.254.169.254").is_err());
    assert!(wild.check_address("corp.example", "10.0.0.5".parse().unwrap(), Trust::Untrusted).is_err());
}

#[test]
fn metadata_services_require_their_exact_address_or_name() {
    let imds = "169.254.169.254".parse().unwrap();
    let reaches = |allowed: &str, host: &str| policy(&[allowed], &[]).check_address(host, imds, Trust::Owner).is_ok();
    assert!(reaches("169.254.169.254", "169.254.169.254"));
    assert!(reaches("169.254.169.254/32", "any.example"));
    assert!(reaches("metadata.google.internal", "metadata.google.internal"));
    assert!(!reaches("0.0.0.0/0", "169.254.169.254"), "everything is not a name for it");
    assert!(!reaches("169.254.0.0/16", "169.254.169.254"));
    assert!(!reaches("partner.example", "partner.example"), "a trusted name must not lead there");
    let wide = policy(&["fd00::/8"], &[]);
    assert!(check(&wide, "http://[fd00::1]/", Trust::Untrusted).is_ok());
    assert!(check(&wide, "http://[fd00:ec2::254]/", Trust::Untrusted).is_err());
    let link_local = policy(&["169.254.0.0/16"], &[]);
    assert!(check(&link_local, "http://169.254.7.7/", Trust::Owner).is_ok());
    assert!(check(&policy(&["0.0.0.0/0"], &[]), "http://169.254.7.7/", Trust::Owner).is_err());
}

#[test]
fn blocked_range_applies_to_embedded_addresses() {
    let blocked = policy(&["64:ff9b::/96"], &["1.1.1.1"]);
    for url in [
        "http://1.1.1.1/",
        "http://[::ffff:1.1.1.1]/",
        "http://[64:ff9b::1.1.1.1]/",
        "http://[64:ff9b:1::1.1.1.1]/",
        "http://[2002:101:101::1]/",
        "http://[2606:4700::5efe:101:101]/",
    ] {
        assert!(matches!(check(&blocked, url, Trust::Owner), Err(NetError::Blocked { .. })), "{url}");
    }
}

#[test]
fn allowed_host_may_use_any_port() {
    let named = policy(&["mail.example", "10.0.0.0/8"], &[]);
    assert!(check(&named, "http://mail.example:25/", Trust::Untrusted).is_ok());
    assert!(check(&named, "http://10.1.1.1:6000/", Trust::Untrusted).is_ok());
    let error = check(&named, "http://other.example:25/", Trust::Untrusted).unwrap_err();
    assert!(error.is_refusal() && error.to_string().contains("security.allowed_hosts"), "{error}");
    assert!(matches!(check(&named, "http://mail.example:0/", Trust::Owner), Err(NetError::Port { .. })));
}

#[test]
fn blocked_hosts_take_precedence() {
    let both = policy(&["10.0.0.5", "api.example"], &["10.0.0.0/8", "*.example", "1.1.1.1"]);
    for url in ["http://10.0.0.5/", "http://API.example./", "https://1.1.1.1/", "http://[::ffff:1.1.1.1]/"] {
        assert!(matches!(check(&both, url, Trust::Owner), Err(NetError::Blocked { .. })), "{url}");
    }
}

#[test]
fn refusal_contains_only_host_and_remedy() {
    let error = check(&NetPolicy::default(), "http://10.0.0.5/secret?key=abc", Trust::Untrusted).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("10.0.0.5") && text.contains("security.allowed_hosts"), "{text}");
    assert!(!text.contains("secret") && !text.contains("abc"), "{text}");
}

#[test]
fn request_is_checked_before_it_is_built() {
    let client = GuardedClient::new(PolicyHandle::default(), Trust::Untrusted);
    let url = Url::parse("http://127.1/").unwrap();
    assert!(client.request(http::Method::GET, url).unwrap_err().is_refusal());
}
