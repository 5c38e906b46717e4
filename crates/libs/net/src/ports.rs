//! Ports that other protocols own. Whoever steers an HTTP client there can make it speak to a mail
//! or chat server by what it puts into the request.

/// The list of the Fetch standard (<https://fetch.spec.whatwg.org/#port-blocking>), in order.
const OTHER_PROTOCOLS: [u16; 83] = [
    0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109,
    110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531,
    532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060,
    5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
];

pub(crate) fn belongs_to_another_protocol(port: u16) -> bool {
    OTHER_PROTOCOLS.binary_search(&port).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_in_order() {
        assert!(OTHER_PROTOCOLS.is_sorted());
        assert!(belongs_to_another_protocol(25) && belongs_to_another_protocol(10080));
        assert!([80, 443, 3000, 8080, 8443].into_iter().all(|port| !belongs_to_another_protocol(port)));
    }
}
