//! Test vectors: tokens and keys created with the Python packages PyJWT 2.15.1 and cryptography 50.0.2.

use agentd_base::Timestamp;
use serde_json::{Value, json};

use crate::jwt;
use crate::keys::read_keys;
use crate::webhook::Rejection;

/// Modulus of the signing key, whose exponent is 65537.
const MODULUS: &str = "\
     tRiV_0og6M-xMIZfZwyxhRuVaT9q-g_hlRrqUAVhLtox7Op3vGljMhza7_YMkGXxhTnhCEPVBJdg2FoKZYGDQ-OnULntyjF9eS7-\
     IR3t0mrmFu0_kpVi5dgNKaUR4vxpZXhWZpuJbeLrxeRLoS4j9U6e50AN9sE03cdeO5kJ39ePntzcof1olKSC8OYgeX4fVYluSD6l\
     Ypq7ik3RzgQdFgkZQ_o4hiXkLHeHUPj7Hw8rpBAcqKtu9vZFqvHEU3eW_BuRv-Oh9bWnf3Qmcs0Cd-k5v3Xl8J4Xl1fYNO0rSgl3\
     YfoofuqvA619mC-69xp4zpQh3DdpzAMCRmscmPcLhw\
     ";
/// Self-signed certificate of the key, in DER as base64.
const CERTIFICATE: &str = "\
     MIIC5zCCAc+gAwIBAgIJANjC8AqrvM3RMA0GCSqGSIb3DQEBCwUAMCoxKDAmBgNVBAMMH2NoYXRAc3lzdGVtLmdzZXJ2aWNlYWNj\
     b3VudC5jb20wHhcNMjYwMTAxMDAwMDAwWhcNMjcwMTAxMDAwMDAwWjAqMSgwJgYDVQQDDB9jaGF0QHN5c3RlbS5nc2VydmljZWFj\
     Y291bnQuY29tMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAtRiV/0og6M+xMIZfZwyxhRuVaT9q+g/hlRrqUAVhLtox\
     7Op3vGljMhza7/YMkGXxhTnhCEPVBJdg2FoKZYGDQ+OnULntyjF9eS7+IR3t0mrmFu0/kpVi5dgNKaUR4vxpZXhWZpuJbeLrxeRL\
     oS4j9U6e50AN9sE03cdeO5kJ39ePntzcof1olKSC8OYgeX4fVYluSD6lYpq7ik3RzgQdFgkZQ/o4hiXkLHeHUPj7Hw8rpBAcqKtu\
     9vZFqvHEU3eW/BuRv+Oh9bWnf3Qmcs0Cd+k5v3Xl8J4Xl1fYNO0rSgl3YfoofuqvA619mC+69xp4zpQh3DdpzAMCRmscmPcLhwID\
     AQABoxAwDjAMBgNVHRMBAf8EAjAAMA0GCSqGSIb3DQEBCwUAA4IBAQBMvW5RkhfoNcr0ObAVxzXeorkPIj7yniahA/Gh0gTYbioa\
     pkfM0tXrcL30EK+AeimR7YO5G3tV98rU0v/AmEow8VS3HFajCadkaCffYDjQo8ndizfVmBoI9fZmc+THUKhM+W7TXVh9AEer+Q9w\
     BfQz0THthAKUIFwxN6XnBpHwrFdU9XRVUHc0CQ3fZ1HPFw5zOJQfkIrBy8fNqOXIHEypO+6oGsTJZtGetHKJ+Bjg65Wbvn6LCMN1\
     YC/zXCvnw7esc+nMBHoN8Q+P3zdgJbqFdLyFgjZjgzuw8WfAa+CKVYTl5rE4NilpfirjqMGSQcsJfi0WYZpKmuPWncTZ4Hnx\
     ";
/// Token valid from 1795615200 to 1795618800.
const RS256: &str = "\
     eyJhbGciOiJSUzI1NiIsImtpZCI6InZlY3RvciIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJjaGF0QHN5c3RlbS5nc2VydmljZWFjY29\
     1bnQuY29tIiwiYXVkIjoiMTIzNDU2Nzg5MCIsImlhdCI6MTc5NTYxNTIwMCwiZXhwIjoxNzk1NjE4ODAwfQ.pDgLXqgXDF8POhbw\
     xoBlS8stRFZL_ETLYircSim0Pjrzf1JFvA5L9TvFPn_pEpOnHkdlsfbPaldFPJeBrzY-qPBNGGmNJcw487eW8RmOIQ5UqarIunQg\
     jQuvQxHPnLSldJ3WCB-U78HPvaNJJuKK1wZsL8aDhvTMf9J2Xoo0zpsXUuW1kbl98kfRUCyq6rxQrktIFHaXoTg9eG0X86vq3Mwk\
     b1EgvV8RiGuNhd3kHyBb5BvwYjX0OeI0fNN0e5rHTS3MvNbTsoLszNIrLgipBkJf733x98DIGiVg8mALhj4YLFrNHjydYKP_H0uc\
     kPGNJIAfQvN9rwq5hBkaoqcSAA\
     ";
/// Same claims with other algorithms.
const RS512: &str = "\
     eyJhbGciOiJSUzUxMiIsImtpZCI6InZlY3RvciIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJjaGF0QHN5c3RlbS5nc2VydmljZWFjY29\
     1bnQuY29tIiwiYXVkIjoiMTIzNDU2Nzg5MCIsImlhdCI6MTc5NTYxNTIwMCwiZXhwIjoxNzk1NjE4ODAwfQ.blW1oD9FpmpNRrcP\
     F1wFk39G97VgwsOs7wc9P595vivL4c57uF-mr51oakAmkJaoj9sl9a3nDurALK50u6NsvXvQ7yHqUPsndITWI7DfIeLCtyaJvTp6\
     es1wgQ4bSoP0OVWwWoqci07w_DNEz6VgRBDEWUzyNo5u8hm5f_tv-K0HBPmJcRfCSyusjK6khGZoCAzbc_SUSa6P_gQo1DX3U-W5\
     oTCY3WAxv6O2erPpj228O3mm2zNFr5ppp4rjoplIA9-HhhZMoRnKWIf0QZP9McDdj6GvRJrSiF4z66Ye_6QzjfM0jlmfhzvuTHR4\
     wtK9JFzQrT9HaAlR5NM_Tz1S_Q\
     ";
const PS256: &str = "\
     eyJhbGciOiJQUzI1NiIsImtpZCI6InZlY3RvciIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJjaGF0QHN5c3RlbS5nc2VydmljZWFjY29\
     1bnQuY29tIiwiYXVkIjoiMTIzNDU2Nzg5MCIsImlhdCI6MTc5NTYxNTIwMCwiZXhwIjoxNzk1NjE4ODAwfQ.c0WWK0a5_CfSx3EK\
     1nYjyxK5e80NCPyTirP8o3AbdG21nqJRzwWavJF3p0dOwbRLaCIjbCuBEUHFB1Am8Z3sbuMiMvPgFqE2yzkmxjQ5H0sn-fjMvnwh\
     37zvpnGgE-6o-y5GApUraCWbJfQqMVe0T0OSDTOxrNP-DJsmqJxm-f79UPcA2ZKiRy3BsPgskKeDyQf5AsfS5TZm9X_lbw4INGtG\
     gtLgNY-9exSs_GbwsRU4FUvoL0DHOld00V12bVz15uhugzLHwtkYkAQEAAOb_6G2eA53JfwqKyBTtzj-h9SRTFRrMSEyEssyhWcv\
     7L4ZpQduPbZ_gDeIDJKVKZPTTg\
     ";
/// Signed with the public key as HMAC secret.
const HS256: &str = "\
     eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6InZlY3RvciJ9.eyJpc3MiOiJjaGF0QHN5c3RlbS5nc2VydmljZWFjY29\
     1bnQuY29tIiwiYXVkIjoiMTIzNDU2Nzg5MCIsImlhdCI6MTc5NTYxNTIwMCwiZXhwIjoxNzk1NjE4ODAwfQ.TneyDrToCFyKNiop\
     MRPENMX1hneb4a_cIqGg91RkUQc\
     ";
/// Unsigned.
const NONE: &str = "\
     eyJhbGciOiJub25lIiwia2lkIjoidmVjdG9yIiwidHlwIjoiSldUIn0.eyJpc3MiOiJjaGF0QHN5c3RlbS5nc2VydmljZWFjY291\
     bnQuY29tIiwiYXVkIjoiMTIzNDU2Nzg5MCIsImlhdCI6MTc5NTYxNTIwMCwiZXhwIjoxNzk1NjE4ODAwfQ.\
     ";

const NOW: Timestamp = Timestamp::from_micros(1_795_615_200_000_000);

fn verify(document: &Value, token: &str, now: Timestamp) -> Result<Value, Rejection> {
    let keys = read_keys(document);
    jwt::verify(token, &keys[&jwt::key_id(token)?].decoding, now)
}

fn documents() -> [Value; 2] {
    let certificate = format!("-----BEGIN CERTIFICATE-----\n{CERTIFICATE}\n-----END CERTIFICATE-----\n");
    [json!({"keys": [{"kty": "RSA", "kid": "vector", "n": MODULUS, "e": "AQAB"}]}), json!({"vector": certificate})]
}

#[test]
fn token_of_another_library_is_valid_in_its_period() {
    for document in documents() {
        assert_eq!(verify(&document, RS256, NOW).unwrap()["aud"], "1234567890");
        let at = |seconds: i64| Timestamp::from_micros((1_795_618_800 + seconds) * 1_000_000);
        assert!(verify(&document, RS256, at(300)).is_ok(), "within the leeway");
        assert_eq!(verify(&document, RS256, at(301)), Err(Rejection::Unverified("the token has expired")));
    }
}

#[test]
fn other_algorithms_are_rejected() {
    for token in [RS512, PS256, HS256, NONE] {
        for document in documents() {
            assert!(matches!(verify(&document, token, NOW), Err(Rejection::Unverified(_))), "{token}");
        }
        let keys = read_keys(&documents()[0]);
        assert!(jwt::verify(token, &keys["vector"].decoding, NOW).is_err(), "not even past the look at its head");
    }
}

#[test]
fn modified_token_is_rejected() {
    let [document, _] = documents();
    let (head, rest) = RS256.split_once('.').unwrap();
    let (claims, signature) = rest.split_once('.').unwrap();
    let other = format!("{}A", &claims[..claims.len() - 1]);
    for token in [format!("{head}.{other}.{signature}"), format!("{head}.{claims}."), format!("{head}.{claims}")] {
        assert!(matches!(verify(&document, &token, NOW), Err(Rejection::Unverified(_))), "{token}");
    }
}
