use serde_json::json;

use super::*;

fn list(value: Value) -> PropertyList {
    serde_json::from_value(value).unwrap()
}

#[test]
fn properties_are_written_as_they_were_read() {
    let text = r#"[{"name":"site","value":"north","type":"string"},{"name":"n","value":5}]"#;
    let properties: PropertyList = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&properties).unwrap(), text);
    assert!(list(Value::Null).is_empty());
    assert_eq!(list(json!([{"name": "a", "type": null}]))[0], Property::new("a", Value::Null));
}

#[test]
fn values_fit_their_declared_types() {
    let valid = [
        (json!(true), "boolean"),
        (json!(5), "int"),
        (json!(5.0), "int"),
        (json!(-9_223_372_036_854_775_808_i64), "int"),
        (json!(5.5), "float"),
        (json!(5), "float"),
        (json!("x"), "string"),
        (json!(""), "string"),
        (json!("1.2.3"), "version"),
        (json!("a,b"), "list of strings"),
        (json!(1), ""),
        (json!("x"), ""),
        (json!(false), ""),
    ];
    for (value, declared) in valid {
        let property = Property::typed("p", value, declared.into());
        assert_eq!(property.validate(), Ok(()), "{property:?}");
    }
    let wrong = [
        (json!(true), "string"),
        (json!(5.5), "int"),
        (json!(1e30), "int"),
        (json!(9_223_372_036_854_775_808_u64), "int"),
        (json!(5), "string"),
        (json!("5"), "int"),
        (json!("1.2.3-rc1"), "version"),
        (json!("true"), "boolean"),
        (json!(["a"]), "list of strings"),
        (json!({}), ""),
    ];
    for (value, declared) in wrong {
        let property = Property::typed("p", value, declared.into());
        assert!(matches!(property.validate(), Err(PropertyError::WrongValue { .. })), "{property:?}");
    }
    let unknown = Property::typed("p", "x", "String".into()).validate();
    assert_eq!(unknown, Err(PropertyError::UnknownType { name: "p".into(), declared: "String".into() }));
    assert!(matches!(Property::new("", 1).validate(), Err(PropertyError::Incomplete { .. })));
    assert!(matches!(Property::new("p", Value::Null).validate(), Err(PropertyError::Incomplete { .. })));
}

#[test]
fn equal_properties_agree_in_type_and_value() {
    let typed = |value: Value, declared: &str| Property::typed("p", value, declared.into());
    assert!(typed(json!(1), "int").is_same(&typed(json!(1.0), "")));
    assert!(!typed(json!(1), "int").is_same(&typed(json!(1), "float")));
    assert!(typed(json!("a,b"), "list of strings").is_same(&typed(json!("b,a,b"), "")));
    assert!(!typed(json!("a,b"), "").is_same(&typed(json!("b,a"), "")));
    assert!(!typed(json!("1"), "").is_same(&typed(json!(1), "")));
    assert!(!typed(json!(null), "").is_same(&typed(json!(null), "")));
}

#[test]
fn merging_keeps_the_first_unless_replacing() {
    let base = list(json!([{"name": "a", "value": 1}, {"name": "b", "value": 2}]));
    let addition = list(json!([{"name": "b", "value": 3}, {"name": "c", "value": 4}, {"name": "d"}]));
    let mut kept = base.clone();
    kept.merge(&addition, false);
    assert_eq!(
        kept,
        list(json!([{"name": "a", "value": 1}, {"name": "b", "value": 2}, {"name": "c", "value": 4}]))
    );
    let mut replaced = base.clone();
    replaced.merge(&addition, true);
    assert_eq!(replaced.get("b").unwrap().value, 3);
    assert!(!replaced.has("d"), "an invalid property is left out");
    assert_eq!(kept.add(Property::new("a", 1)), Err(PropertyError::Duplicate { name: "a".into() }));
}

#[test]
fn conflicting_values_are_named_unless_they_are_capacity() {
    let left = list(json!([{"name": builtin::CPU, "value": 4}, {"name": "a", "value": 1}]));
    let right = list(json!([{"name": builtin::CPU, "value": 8}, {"name": "b", "value": 1}]));
    assert_eq!(left.conflict_with(&right, false), Some(builtin::CPU));
    assert_eq!(left.conflict_with(&right, true), None);
    assert_eq!(left.conflict_with(&list(json!([{"name": "a", "value": 2}])), true), Some("a"));
}

#[test]
fn words_true_and_false_become_booleans() {
    let name = builtin::ALLOW_PRIVILEGED;
    let mut properties = list(json!([{"name": name, "value": "true", "type": "string"}]));
    assert!(!properties.allows_privileged());
    properties.normalize_allow_privileged().unwrap();
    assert_eq!(properties, list(json!([{"name": name, "value": true}])));
    assert!(properties.allows_privileged());
    let mut wrong = list(json!([{"name": name, "value": 1}]));
    assert_eq!(wrong.normalize_allow_privileged(), Err(PropertyError::NotABoolean { name: name.into() }));
}

#[test]
fn membership_of_a_group_comes_from_the_hub_alone() {
    let mut properties = list(json!([{"name": builtin::HA_GROUP, "value": "forged"}]));
    properties.set_ha_group(Some("line-3"));
    assert_eq!(properties, list(json!([{"name": builtin::HA_GROUP, "value": "line-3"}])));
    properties.set_ha_group(None);
    assert!(properties.is_empty());
}

#[test]
fn builtin_names_are_distinguished() {
    assert!(builtin::is_node_property(builtin::ARCH) && builtin::is_read_only(builtin::ARCH));
    assert!(
        builtin::is_node_property(builtin::ALLOW_PRIVILEGED)
            && !builtin::is_read_only(builtin::ALLOW_PRIVILEGED)
    );
    assert!(!builtin::is_node_property(builtin::SERVICE_URL));
    assert!(!builtin::is_node_property(builtin::HA_GROUP));
}

#[test]
fn long_lists_are_refused_and_still_merge_in_bounded_time() {
    let many =
        |first: usize| (first..first + 50_000).map(|number| Property::new(format!("p{number}"), number));
    let (left, right): (PropertyList, PropertyList) = (many(0).collect(), many(25_000).collect());
    assert_eq!(left.validate(), Err(PropertyError::TooMany { count: 50_000 }));
    let (done, waiting) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut merged = left.clone();
        merged.merge(&right, true);
        done.send((merged.len(), merged.is_same(&left), left.conflict_with(&right, false).is_none()))
    });
    let results =
        waiting.recv_timeout(std::time::Duration::from_secs(20)).expect("merging takes nearly linear time");
    assert_eq!(results, (75_000, false, true));
}

#[test]
fn numbers_are_read_to_the_last_bit() {
    let read: f64 = serde_json::from_str("1.1598229240196939e+238").unwrap();
    assert_eq!(read, "1.1598229240196939e+238".parse::<f64>().unwrap());
    let text = r#"[{"name":"n","value":0.30000000000000004}]"#;
    let properties: PropertyList = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&properties).unwrap(), text);
}
