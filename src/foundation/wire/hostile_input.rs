//! Properties of all code that parses foreign input: no input causes a panic, and no altered envelope opens with another message.

use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{
    agreement::{
        envelope,
        keys::{PrivateKey, PublicKey},
        message::{Body, Header, Message},
    },
    base64_text, signature,
};

static KEY: LazyLock<PrivateKey> = LazyLock::new(|| PrivateKey::generate(&mut rand::rng(), 2048).unwrap());

static SEALED: LazyLock<String> = LazyLock::new(|| {
    envelope::seal(b"a message", &KEY, &KEY.public_key().unwrap(), &mut rand::rng()).unwrap()
});

/// Objects with the protocol's own field names and values of every kind.
fn near_message() -> impl Strategy<Value = String> {
    let names = prop::sample::select(vec![
        "type",
        "TYPE",
        "protocol",
        "version",
        "agreementId",
        "tsandcs",
        "consumerId",
        "decision",
        "deviceId",
        "reason",
        "exists",
        "updateType",
        "metadata",
        "accepted",
        "meter_reading",
        "other",
    ]);
    let values = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(|value| json!(value)),
        any::<i64>().prop_map(|value| json!(value)),
        any::<f64>().prop_map(|value| json!(value)),
        prop::sample::select(vec!["proposal", "reply", "cancel", "basicagreementupdate", "Basic", ""])
            .prop_map(|value| json!(value)),
        ".*".prop_map(|value| json!(value)),
        Just(json!([{"a": []}])),
    ];
    prop::collection::vec((names, values), 0..12).prop_map(|members| {
        let members: Vec<String> =
            members.iter().map(|(name, value): &(&str, Value)| format!("{}:{value}", json!(name))).collect();
        format!("{{{}}}", members.join(","))
    })
}

proptest! {
    #[test]
    fn no_text_makes_the_message_reader_panic(text in ".*") {
        let _judged = (Header::parse(&text), Message::parse(&text));
    }

    #[test]
    fn whatever_is_accepted_survives_writing_and_reading(text in near_message()) {
        if let Ok(message) = Message::parse(&text) {
            prop_assert_eq!(Message::parse(&message.to_json()), Ok(message));
        }
    }

    #[test]
    fn agreement_ids_and_texts_survive_whatever_they_hold(id in ".+", terms in ".+", other in ".+") {
        let body = Body::Proposal { terms, producer_policy: other.clone(), consumer_id: other };
        let message = Message::new(id, body);
        prop_assert_eq!(Message::parse(&message.to_json()), Ok(message));
    }

    #[test]
    fn escapes_in_any_order_are_read_without_panic(parts in prop::collection::vec(
        prop::sample::select(vec!["\\u", "\\", "d83d", "\\ud83d", "\\ude00", "\"", "x", "é", "{", "}"]), 0..20)) {
        let _judged = Message::parse(&parts.concat());
    }

    #[test]
    fn no_text_makes_the_key_readers_panic(text in ".*", label in "[A-Z ]{0,20}", bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let pem = format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", base64_text::encode(&bytes));
        let _judged = (PrivateKey::from_pem(&text).is_ok(), PrivateKey::from_pem(&pem).is_ok());
        let _public = (PublicKey::from_base64(&text), PublicKey::from_spki_der(&bytes));
        prop_assert!(signature::verify("text", &text, &[text.as_str(), &pem], 0).is_none());
    }
}

proptest! {
    // Each case costs an operation with a private key.
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn an_altered_envelope_never_opens_to_another_message(at in any::<prop::sample::Index>(), change in 1u8..) {
        let mut bytes = base64_text::decode(&SEALED).unwrap();
        let at = at.index(bytes.len());
        bytes[at] ^= change;
        let sender = KEY.public_key().unwrap();
        let opened = envelope::open(&base64_text::encode(&bytes), &KEY, sender.spki_der(), &mut rand::rng());
        // Letter case of a field name and unused bits of a last base64 letter mean nothing, so it may still open.
        prop_assert!(opened.is_err() || opened.as_deref() == Ok(b"a message"), "byte {}", at);
    }

    #[test]
    fn no_text_makes_the_envelope_reader_panic(text in ".*", bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let _judged = envelope::open(&text, &KEY, &bytes, &mut rand::rng());
        let parts = json!({"wrappedMessage": base64_text::encode(&bytes), "symmetricValues": base64_text::encode(&bytes)});
        let sealed = base64_text::encode(parts.to_string().as_bytes());
        prop_assert!(envelope::open(&sealed, &KEY, &bytes, &mut rand::rng()).is_err());
    }
}
