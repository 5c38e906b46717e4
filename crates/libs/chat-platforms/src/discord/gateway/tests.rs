use std::time::Duration;

use serde_json::json;

#[test]
fn session_wait_is_at_most_a_day() {
    for (limit, wait) in [
        (json!({"reset_after": 14_400_000}), Duration::from_secs(14_400)),
        (json!({"reset_after": u64::MAX}), Duration::from_secs(86_400)),
        (json!({}), Duration::from_secs(60)),
    ] {
        assert_eq!(super::session_wait(&limit), wait, "{limit}");
    }
}
