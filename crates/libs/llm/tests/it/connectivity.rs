//! The test of a provider's address and key.

use agentd_base::Secret;
use agentd_llm::{ModelErrorCode, Vendor, VendorBackend};
use agentd_testing_llm::{FakeVendor, Script};

use crate::support::{KEY, all_text, backend, client};

#[tokio::test]
async fn a_good_key_lists_the_models_that_generate_text() {
    for vendor in Vendor::ALL {
        let fake = FakeVendor::start_with_key(vendor, Script::queue([]), KEY).await.unwrap();
        let report = backend(&fake, vendor).test().await.unwrap();
        assert_eq!(report.models, ["fake-model"], "{vendor}");
    }
}

#[tokio::test]
async fn a_wrong_key_is_found_out_even_where_the_list_is_public() {
    for vendor in Vendor::ALL {
        let fake = FakeVendor::start_with_key(vendor, Script::queue([]), KEY).await.unwrap();
        let wrong = Secret::new("sk-wrong-9Zk1".to_owned());
        let backend = VendorBackend::new(vendor, client(), Some(fake.base_url()), Some(wrong));
        let error = backend.test().await.unwrap_err();
        assert_eq!(error.code, ModelErrorCode::Auth, "{vendor}: {error}");
        assert!(!all_text(&error).contains("sk-wrong-9Zk1"), "{vendor}");
    }
}

#[tokio::test]
async fn a_wrong_address_says_so() {
    let fake = FakeVendor::start(Vendor::Openai, Script::queue([])).await.unwrap();
    let mut url = fake.base_url();
    url.set_path("");
    let error = VendorBackend::new(Vendor::Openai, client(), Some(url), None).test().await.unwrap_err();
    assert!(error.message.contains("base_url"), "{error}");
}
