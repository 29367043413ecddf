use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{MemberError, from_text, plain_value, read_naming, to_text};

#[derive(Debug, PartialEq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Sample {
    some_name: String,
    some_count: i64,
    some_list: Vec<String>,
    inner: Option<Box<Sample>>,
}

#[test]
fn names_match_without_regard_to_case_and_the_last_one_counts() {
    let read: Sample =
        from_text(r#"{"SOMENAME":"a","someName":"b","other":[1],"Inner":{"SomeCount":2}}"#).unwrap();
    assert_eq!(read.some_name, "b");
    assert_eq!(read.inner.unwrap().some_count, 2);
}

#[test]
fn null_reads_as_the_empty_value_everywhere() {
    let text = r#"{"someName":null,"someCount":null,"someList":["a",null],"inner":null}"#;
    let read: Sample = from_text(text).unwrap();
    assert_eq!(read, Sample { some_list: vec!["a".into(), String::new()], ..Sample::default() });
    assert_eq!(from_text::<Sample>("null").unwrap(), Sample::default());
}

#[test]
fn wrong_kinds_broken_text_and_deep_nesting_are_refused() {
    for text in [r#"{"someName":1}"#, r#"{"someCount":1.5}"#, r#"{"someList":"a"}"#, "{", "[]", "{} {}"] {
        assert!(from_text::<Sample>(text).is_err(), "{text}");
    }
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(from_text::<Value>(&deep).is_err());
}

#[test]
fn members_that_a_structure_does_not_have_and_values_of_the_wrong_kind_are_named_by_their_paths() {
    let read = read_naming::<Sample>(
        &json!({"SOMENAME": "a", "odd": 1, "inner": {"inner": {"more": {}, "somelist": [], "ineer": 1}}}),
    );
    let read = read.unwrap();
    assert_eq!(read.value.some_name, "a");
    let unknown: Vec<(&str, Option<&str>)> =
        read.unknown.iter().map(|one| (one.path.as_str(), one.meant)).collect();
    assert_eq!(unknown, [("odd", None), ("inner.inner.more", None), ("inner.inner.ineer", Some("inner"))]);
    let failure = |value: Value| read_naming::<Sample>(&value).unwrap_err();
    assert_eq!(failure(json!({"inner": {"someList": ["a", 5]}})).path, "inner.someList[1]");
    let MemberError { path, reason } = failure(json!([1]));
    assert_eq!((path.as_str(), reason.contains("sequence")), ("", true), "{reason}");
}

struct Plain(Value);

impl Serialize for Plain {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        plain_value(&self.0, serializer)
    }
}

#[test]
fn numbers_have_the_spelling_of_the_reference() {
    let cases = [
        (json!(5.0), "5"),
        (json!(19.75), "19.75"),
        (json!(-0.0), "-0"),
        (json!(1e20), "100000000000000000000"),
        (json!(1e21), "1e+21"),
        (json!(1.5e-7), "1.5e-7"),
        (json!(0.000_001), "0.000001"),
        (json!(9_007_199_254_740_993_u64), "9007199254740992"),
        (json!(u64::MAX), "18446744073709552000"),
    ];
    for (value, text) in cases {
        assert_eq!(to_text(&Plain(value)), text);
    }
}

#[test]
fn markup_is_escaped_and_members_are_sorted() {
    let value = json!({"b": "<&>\u{2028}\u{8}\u{1}é", "a": [true, null]});
    assert_eq!(to_text(&Plain(value)), r#"{"a":[true,null],"b":"\u003c\u0026\u003e\u2028\b\u0001é"}"#);
}
