//! What of `orchestration` is taken and what is refused in which words.

use serde_json::json;

use super::*;

fn read(value: Value) -> Result<Orchestration, String> {
    Orchestration::try_from(value).map_err(|error| error.to_string())
}

#[test]
fn what_is_written_is_what_was_read() {
    let whole = json!({
        "version": 1, "mode": "global", "orchestrate": "ha",
        "scope": {"type": "hagroups", "haGroups": ["g1", "o/g2"]},
        "update": {"parallelism": 0, "delaySeconds": 3, "order": "start-first", "monitorSeconds": 5,
                   "maxFailureRatio": 0.25, "failureAction": "continue", "startTimeoutSeconds": 600},
        "ha": {"minRunning": 2, "offlinePeerPolicy": "proceed"},
    });
    for value in [whole, json!({}), json!({"scope": {"type": "eligible"}, "update": {}, "ha": {}})] {
        assert_eq!(serde_json::to_value(read(value.clone()).unwrap()).unwrap(), value);
    }
    assert_eq!(read(json!({"mode": null, "ha": null})).unwrap(), Orchestration::default());
}

#[test]
fn refusal_names_the_member_and_the_rule() {
    for (value, expected) in [
        (json!([]), "orchestration must be an object"),
        (json!({"version": 2}), "orchestration.version must be 1"),
        (json!({"mode": "flex"}), "orchestration.mode flex is not supported"),
        (json!({"mode": "gobal"}), "orchestration.mode must be global or failover"),
        (
            json!({"mode": "failover", "scope": {"type": "hagroups", "haGroups": ["g"]}}),
            "orchestration.orchestrate must be ha with the mode failover: its default, no, is not supported",
        ),
        (
            json!({"mode": "failover", "orchestrate": "ha"}),
            "orchestration.scope must be of the type hagroups with the mode failover",
        ),
        (
            json!({"mode": "failover", "orchestrate": "ha", "scope": {"type": "hagroups", "haGroups": ["g"]},
                   "update": {"order": "start-first"}}),
            "orchestration.update.order must be stop-first with the mode failover",
        ),
        (json!({"orchestrate": "start"}), "orchestration.orchestrate start is not supported"),
        (json!({"replicas": 3}), "orchestration.replicas is not supported"),
        (json!({"updates": {}}), "orchestration.updates is not known; update was probably meant"),
        (json!({"colour": 1}), "orchestration.colour is not known"),
        (json!({"update": 3}), "orchestration.update must be an object"),
        (
            json!({"update": {"delaySecond": 3}}),
            "orchestration.update.delaySecond is not known; delaySeconds was probably meant",
        ),
        (
            json!({"update": {"delaySeconds": 1.5}}),
            "orchestration.update.delaySeconds must be an integer from 0 to 604800",
        ),
        (
            json!({"update": {"parallelism": -1}}),
            "orchestration.update.parallelism must be an integer from 0 to 100000",
        ),
        (
            json!({"update": {"startTimeoutSeconds": 0}}),
            "orchestration.update.startTimeoutSeconds must be an integer from 1 to 604800",
        ),
        (
            json!({"update": {"order": "both"}}),
            "orchestration.update.order must be stop-first or start-first",
        ),
        (
            json!({"update": {"maxFailureRatio": 1.01}}),
            "orchestration.update.maxFailureRatio must be a number from 0 to 1",
        ),
        (json!({"ha": {"minRunning": 0}}), "orchestration.ha.minRunning must be an integer from 1 to 100000"),
        (
            json!({"ha": {"offlinePeerPolicy": true}}),
            "orchestration.ha.offlinePeerPolicy must be wait or proceed",
        ),
    ] {
        assert_eq!(read(value.clone()).unwrap_err(), expected, "{value}");
    }
}

#[test]
fn scope_names_groups_exactly_when_its_type_says_so() {
    for (value, expected) in [
        (json!({"type": "nodes", "nodes": ["n"]}), "orchestration.scope.nodes is not supported"),
        (json!({"type": "nodes"}), "orchestration.scope.type nodes is not supported"),
        (json!({"haGroups": ["g"]}), "orchestration.scope.haGroups needs the type hagroups"),
        (json!({"type": "hagroups"}), "orchestration.scope.haGroups must be a list of names of HA groups"),
        (
            json!({"type": "hagroups", "haGroups": []}),
            "orchestration.scope.haGroups must hold 1 to 1000 names",
        ),
        (
            json!({"type": "hagroups", "haGroups": ["a", "b", "a"]}),
            "orchestration.scope.haGroups must not hold a name twice",
        ),
        (
            json!({"type": "hagroups", "haGroups": ["a", "*"]}),
            "orchestration.scope.haGroups must hold * alone",
        ),
        (
            json!({"type": "hagroups", "haGroups": [""]}),
            "orchestration.scope.haGroups must hold names of 1 to 512 bytes",
        ),
    ] {
        assert_eq!(read(json!({"scope": value})).unwrap_err(), expected, "{value}");
    }
}
