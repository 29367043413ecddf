use proptest::prelude::*;

use super::*;

fn version(text: &str) -> Version {
    Version::parse(text).unwrap()
}

fn range(text: &str) -> VersionRange {
    VersionRange::parse(text).unwrap()
}

#[test]
fn missing_groups_are_padded_and_leading_zeros_kept() {
    let cases =
        [("1", "1.0.0"), ("1.2", "1.2.0"), ("01.2", "01.2.0"), ("1-rc", "1.0.0-rc"), ("1.0.0-", "1.0.0")];
    for (text, normal) in cases {
        assert_eq!(version(text).as_str(), normal);
    }
    assert_eq!(version("1.2-a-b").prerelease(), "a-b");
    assert!(version(INFINITY).is_infinity());
}

#[test]
fn texts_that_are_no_versions_are_refused() {
    for text in
        ["", ".1", "1.", "1..2", "1.0.0.0", "v1", "1.a", " 1", "1.0.0-é", "INFINITY-", "infinity", "-1", "١"]
    {
        assert!(!is_version(text), "{text}");
        assert!(Version::parse(text).is_err(), "{text}");
    }
}

#[test]
fn property_of_type_version_is_held_to_a_stricter_rule() {
    for text in ["0", "1.2", "1.2.3", "10.0.0", "INFINITY"] {
        assert!(is_property_version(text), "{text}");
    }
    for text in ["", "01.2", "1.2.3-rc1", "1.2.3.4", "1.", "00"] {
        assert!(!is_property_version(text), "{text}");
    }
}

#[test]
fn versions_order_as_in_semantic_versioning() {
    let ascending = [
        "0",
        "1.0.0--1",
        "1.0.0-1",
        "1.0.0-alpha",
        "1.0.0-alpha.1",
        "1.0.0-alpha.beta",
        "1.0.0-beta.2",
        "1.0.0-beta.11",
        "1.0.0-rc.1",
        "1",
        "1.0.1",
        "1.2",
        "1.10",
        "2",
        "INFINITY",
    ];
    for pair in ascending.windows(2) {
        assert!(version(pair[0]) < version(pair[1]), "{pair:?}");
    }
    assert_eq!(version("1.02.0"), version("1.2"));
}

#[test]
fn number_too_large_to_count_is_the_largest_one() {
    assert_eq!(version("99999999999999999999.0.0"), version("9223372036854775807.0.0"));
    assert!(version("1.0.0-99999999999999999999") > version("1.0.0-5"));
}

#[test]
fn single_version_means_everything_from_it_on() {
    assert_eq!(range("1.2").to_string(), "[1.2.0,INFINITY)");
    assert!(range("1.0.0").contains(&version("99.0.0")));
    assert!(range("1.0.0").contains(&version("1")));
    assert!(!range("1.0.0").contains(&version("1.0.0-rc1")));
}

#[test]
fn brackets_decide_about_the_ends() {
    assert!(range("[1.2,1.2]").contains(&version("1.2.0")));
    assert!(!range("(1.2,1.3]").contains(&version("1.2")));
    assert!(!range("[1.0.0,2.0.0)").contains(&version("2")));
    assert!(range("[1.0.0,2.0.0)").contains(&version("2.0.0-rc1")));
    assert!(
        range("[1.0.0,2.0.0)").contains(&version("02.0.0")),
        "an end that is only equal in meaning is inside"
    );
}

#[test]
fn range_upside_down_is_valid_and_holds_nothing() {
    let empty = range("[2.0.0,1.0.0]");
    assert!(!empty.contains(&version("1.5")));
    assert!(empty.intersect(&range("1.0.0")).is_none());
}

#[test]
fn texts_that_are_no_ranges_are_refused() {
    let texts = [
        "",
        "[",
        "(",
        "]",
        "[]",
        "[,]",
        "[1]",
        "1,2",
        "[1,2",
        "1,2]",
        "[1, 2]",
        "[1,2,3]",
        "[1,2)x",
        "[a,2)",
        "é",
        "[1,é",
        "[1.0.0,\t2.0.0)",
    ];
    for text in texts {
        assert!(VersionRange::parse(text).is_err(), "{text}");
    }
}

#[test]
fn intersection_takes_the_higher_start_and_the_lower_end() {
    let cases = [
        ("[1,3)", "[2,4)", Some("[2.0.0,3.0.0)")),
        ("[1,3)", "(1,3]", Some("(1.0.0,3.0.0)")),
        ("1", "2", Some("[2.0.0,INFINITY)")),
        ("[1,2]", "[2,3]", Some("[2.0.0,2.0.0]")),
        ("[1,2)", "[2,3]", Some("[2.0.0,2.0.0)")),
        ("[1,2)", "(2,3]", None),
        ("[1,2)", "[3,4)", None),
    ];
    for (left, right, expected) in cases {
        let common = range(left).intersect(&range(right)).map(|common| common.to_string());
        assert_eq!(common.as_deref(), expected, "{left} and {right}");
    }
}

#[test]
fn ceiling_stays_above_the_start() {
    let start = range("[1.0.0,2.0.0)");
    assert_eq!(start.with_ceiling("1.5", true).unwrap().to_string(), "[1.0.0,1.5.0]");
    assert_eq!(start.with_ceiling("1", true).unwrap().to_string(), "[1.0.0,1.0.0]");
    assert_eq!(start.with_ceiling(INFINITY, true).unwrap().to_string(), "[1.0.0,INFINITY)");
    assert!(matches!(start.with_ceiling("1", false), Err(VersionError::CeilingBelowStart { .. })));
    assert!(matches!(start.with_ceiling("0.9", true), Err(VersionError::CeilingBelowStart { .. })));
    assert!(matches!(start.with_ceiling("x", true), Err(VersionError::NotAVersion { .. })));
}

#[test]
fn range_expression_is_recognized_by_one_bracket() {
    for text in ["[1.0.0,2.0.0)", "[1,INFINITY]", "x1.0.0,2.0.0]", "[1.0.0,2.0.0x"] {
        assert!(is_range_expression(text), "{text}");
    }
    for text in ["", "1.0.0", "1.0.0,2.0.0", "[1.0.0]", "[1.0.0,", "[,]", "é1.0.0,2.0.0]", "[1.0.0,2.0.0é"]
    {
        assert!(!is_range_expression(text), "{text}");
    }
}

fn any_version() -> impl Strategy<Value = String> {
    prop_oneof![
        "[0-9]{1,3}(\\.[0-9]{1,3}){0,2}",
        "[0-9]{1,2}(\\.[0-9]{1,2}){0,2}-[0-9a-b.-]{0,6}",
        Just(INFINITY.to_owned()),
    ]
}

fn any_range() -> impl Strategy<Value = String> {
    ("[\\[(]", any_version(), any_version(), "[\\])]")
        .prop_map(|(left, start, end, right)| format!("{left}{start},{end}{right}"))
}

proptest! {
    #[test]
    fn no_text_makes_the_parsers_panic(text in "\\PC*", other in "[\\[(]?[0-9.,A-Z\\-]{0,12}[\\])]?") {
        for text in [&text, &other] {
            let _ = (is_version(text), is_property_version(text), is_range_expression(text));
            if let Ok(range) = VersionRange::parse(text) {
                prop_assert!(is_version(range.start().as_str()));
            }
        }
    }

    #[test]
    fn the_normal_form_reads_as_itself(text in any_version()) {
        let version = version(&text);
        let again = Version::parse(version.as_str()).unwrap();
        prop_assert_eq!(again.as_str(), version.as_str());
        prop_assert_eq!(again, version);
    }

    #[test]
    fn versions_are_totally_ordered(left in any_version(), middle in any_version(), right in any_version()) {
        let (left, middle, right) = (version(&left), version(&middle), version(&right));
        prop_assert_eq!(left.cmp(&middle), middle.cmp(&left).reverse());
        if left <= middle && middle <= right {
            prop_assert!(left <= right);
        }
    }

    #[test]
    fn a_printed_range_reads_as_itself(text in any_range(), version in any_version()) {
        let range = range(&text);
        let again = VersionRange::parse(&range.to_string()).unwrap();
        prop_assert_eq!(&again, &range);
        let version = Version::parse(&version).unwrap();
        prop_assert_eq!(again.contains(&version), range.contains(&version));
    }

    #[test]
    fn an_intersection_is_symmetric_and_holds_what_both_hold(
        left in any_range(), right in any_range(), version in "[0-9]{1,2}\\.[1-9]\\.[1-9]",
    ) {
        let (left, right) = (range(&left), range(&right));
        let common = left.intersect(&right);
        prop_assert_eq!(&common, &right.intersect(&left));
        let version = Version::parse(&version).unwrap();
        // Ends of equal value but different spelling make membership depend on the spelling, so only clear cases are compared.
        let is_an_end = [&left, &right].iter().any(|range| *range.start() == version || *range.end() == version);
        if !is_an_end {
            let is_in_common = common.is_some_and(|common| common.contains(&version));
            prop_assert_eq!(is_in_common, left.contains(&version) && right.contains(&version));
        }
    }

    #[test]
    fn a_lower_ceiling_only_takes_away(text in any_range(), ceiling in any_version(), version in any_version()) {
        let (range, version) = (range(&text), Version::parse(&version).unwrap());
        if let Ok(lower) = range.with_ceiling(&ceiling, false) {
            let is_lower = lower.end() < range.end();
            prop_assert!(!is_lower || !lower.contains(&version) || range.contains(&version));
        }
    }
}
