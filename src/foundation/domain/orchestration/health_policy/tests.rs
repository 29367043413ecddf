use serde_json::{Value, json};

use super::*;

fn read(document: Value) -> Result<HealthPolicy, String> {
    read_for(document, Target::Workload)
}

fn read_for(document: Value, target: Target) -> Result<HealthPolicy, String> {
    HealthPolicy::read("healthPolicy", document, target).map_err(|error| error.to_string())
}

fn polling() -> Value {
    json!({"detection": {"detection_modes": [{"type": "NODE_STATUS_POLLING"}]}})
}

fn url(options: &Value) -> Value {
    let mut all = json!({"poll_url": "http://{nodename}:8080/s", "poll_url_healthy_response": "ok"});
    all.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
    json!({"detection": {"detection_modes": [{"type": "NODE_STATUS_POLL_URL", "options": all}]}})
}

/// C2-S1: what is left out has its default.
#[test]
fn document_is_returned_with_all_defaults() {
    let shown = json!(read(url(&json!({}))).unwrap());
    assert_eq!(
        shown,
        json!({
            "version": "1.2", "enabled": true,
            "detection": {
                "interval": 60, "node_update_timeout": 300, "recovery_conditional": "ANY_FAILED",
                "detection_modes": [{"type": "NODE_STATUS_POLL_URL", "options": {
                    "poll_url": "http://{nodename}:8080/s", "poll_url_ssl_verify": true,
                    "poll_url_conn_error_as_unhealthy": true, "poll_url_healthy_response": "ok",
                    "poll_url_retry_limit": 3, "poll_url_retry_interval": 3, "poll_url_timeout": 5, "executor": "agent"}}]},
            "recovery": {
                "actions": [{"name": "RECREATE"}], "fencing": [], "node_delete_timeout": 20,
                "node_force_recreate": false, "action_timeout": 300, "maxUnhealthyRatio": 0.5}})
    );
    assert_eq!(json!(read(shown.clone()).unwrap()), shown, "it reads back as the same value");
}

/// C2-S2: the organization sets the least interval of modes that poll.
#[test]
fn members_are_not_polled_more_often_than_the_organization_allows() {
    let mut document = polling();
    document["detection"]["interval"] = json!(30);
    let policy = read(document).unwrap();
    assert!(policy.check_interval(30).is_ok());
    assert_eq!(
        policy.check_interval(60).unwrap_err().to_string(),
        "orchestration.healthPolicy.detection.interval must be at least 60, healthCheckIntervalMinSeconds of the \
         organization"
    );
    let events = read(json!({"detection": {"interval": 1, "type": "LIFECYCLE_EVENTS"}})).unwrap();
    assert!(events.check_interval(60).is_ok(), "events are not polled");
}

/// C2-S3: the form of version 1.0.
#[test]
fn single_mode_is_read_as_a_list() {
    for version in [json!("1.0"), json!("1.1"), json!(1.1), json!("1.2"), Value::Null] {
        let policy = read(json!({"version": version, "detection": {"type": "LIFECYCLE_EVENTS"}})).unwrap();
        assert_eq!(json!(policy.detection.detection_modes), json!([{"type": "LIFECYCLE_EVENTS"}]));
        assert_eq!(policy.version, "1.2");
    }
}

/// Documents of version 1.0 have the interval under the options of the single mode.
#[test]
fn options_of_version_1_0_are_read() {
    let options = json!({"interval": 90, "node_update_timeout": 30, "poll_url": "http://{nodename}/h", "poll_url_healthy_response": "ok"});
    let document = |kind: &str, options: &Value| json!({"version": 1.0, "detection": {"type": kind, "options": options}});
    let policy = read(document("NODE_STATUS_POLL_URL", &options)).unwrap();
    assert_eq!((policy.detection.interval, policy.detection.node_update_timeout), (90, 30));
    assert!(policy.poll_options().is_some());
    let policy = read(document("NODE_STATUS_POLLING", &json!({"interval": 75}))).unwrap();
    assert_eq!(policy.detection.interval, 75);
    let both =
        json!({"detection": {"type": "NODE_STATUS_POLLING", "interval": 60, "options": {"interval": 60}}});
    let refused = read(both).unwrap_err();
    let expected = ".detection.options.interval must not be combined with";
    assert!(refused.contains(expected), "{refused}");
    let later = json!({"detection": {"detection_modes": [{"type": "NODE_STATUS_POLLING", "options": {"interval": 60}}]}});
    assert!(read(later).is_err());
}

/// A URL that no client could ever request is rejected on write.
#[test]
fn url_that_cannot_be_requested_is_refused() {
    for broken in [
        "http://{nodename}:99999/h",
        "http://{nodename}:0/h",
        "http://{nodename}:http/h",
        "http://1.2.3.4.5/h",
        "http://[::1/h",
        "http://[{nodeip}]/h",
        "http://exa%mple/h",
        "http://{nodename}:{nodename}/h",
        "http://a^b/h",
    ] {
        let refused = read(url(&json!({"poll_url": broken}))).unwrap_err();
        assert!(refused.contains(".options.poll_url must "), "{broken}: {refused}");
    }
    for good in [
        "http://{nodename}/h?a=b%20c#d",
        "https://{nodename}.example:8443/h",
        "http://{nodeip}:80/h",
        "http://[::1]:80/",
        "http://localhost/h/{nodename}",
    ] {
        assert!(read(url(&json!({"poll_url": good}))).is_ok(), "{good}");
    }
}

/// C2-S4, C2-S5, C6-S6, C1-S3 and the other rules.
#[test]
fn document_that_breaks_a_rule_is_refused_with_the_member_and_the_rule() {
    let modes = |modes: Value| json!({"detection": {"detection_modes": modes}});
    let with = |recovery: Value| {
        let mut document = polling();
        document["recovery"] = recovery;
        document
    };
    let kind = |word: &str| json!({"type": word});
    for (document, expected) in [
        (
            modes(json!([kind("LIFECYCLE_EVENTS"), kind("NODE_STATUS_POLLING")])),
            ".detection.detection_modes must hold LIFECYCLE_EVENTS alone",
        ),
        (
            modes(json!([kind("NODE_STATUS_POLLING"), kind("NODE_STATUS_POLLING")])),
            ".detection.detection_modes must not hold NODE_STATUS_POLLING twice",
        ),
        (
            url(&json!({"poll_url_conn_error_as_unhealty": true})),
            ".detection.detection_modes[0].options.poll_url_conn_error_as_unhealty is not known; did you mean \
             poll_url_conn_error_as_unhealthy",
        ),
        (
            url(&json!({"poll_url": "http://{foo}/"})),
            ".detection.detection_modes[0].options.poll_url must not contain {foo}: only {nodename} and {nodeip} are \
             replaced",
        ),
        (
            url(&json!({"poll_url": "ftp://n/"})),
            ".detection.detection_modes[0].options.poll_url must begin with http:// or https://",
        ),
        (
            url(&json!({"poll_url": "http://user@n/"})),
            ".detection.detection_modes[0].options.poll_url must not contain a user name or password",
        ),
        (
            url(&json!({"poll_url_healthy_response": "re:("})),
            ".detection.detection_modes[0].options.poll_url_healthy_response is not a regular expression: unclosed group",
        ),
        (
            url(&json!({"poll_url_retry_interval": 0})),
            ".detection.detection_modes[0].options.poll_url_retry_interval must be an integer from 1 to 3600",
        ),
        (modes(json!([])), ".detection.detection_modes must be a list of 1 to 6 modes"),
        (json!({"detection": {}}), ".detection.detection_modes must be a list of 1 to 6 modes"),
        (
            json!({"detection": {"type": "LIFECYCLE_EVENTS", "detection_modes": []}}),
            ".detection.detection_modes must not be combined with type or options",
        ),
        (with(json!({"fencing": ["STORAGE"]})), ".recovery.fencing STORAGE is not supported"),
        (
            with(json!({"actions": [{"name": "RECREATE"}, {"name": "RECREATE"}]})),
            ".recovery.actions must not hold RECREATE twice",
        ),
        (with(json!({"actions": []})), ".recovery.actions must be a list of 1 to 20 actions"),
        (
            with(json!({"actions": [{"name": "evacuate"}]})),
            ".recovery.actions[0].name must be one of RECREATE, REBOOT, REBUILD, START, UNPAUSE, MIGRATE unless the \
             type is WORKFLOW",
        ),
        (
            with(json!({"actions": [{"name": "REBOOT", "params": {"type": "cold"}}]})),
            ".recovery.actions[0].params.type must be SOFT or HARD",
        ),
        (
            with(json!({"actions": [{"name": "w", "type": "WORKFLOW"}]})),
            ".recovery.actions[0].params.url must begin with http:// or https://",
        ),
        (
            with(
                json!({"actions": [{"name": "w", "type": "WORKFLOW", "params": {"url": "http://h/", "id": "{{ node.token }}"}}]}),
            ),
            ".recovery.actions[0].params.id must not contain {{ node.token }}: known are node.physicalid, node.name, \
             instance.taskId, instance.agreementId",
        ),
        (json!({"version": "2.0"}), ".version must be 1.0, 1.1 or 1.2"),
    ] {
        assert_eq!(read(document.clone()).unwrap_err(), format!("healthPolicy{expected}"), "{document}");
    }
}

/// C3: peers connect to a port, or poll a URL.
#[test]
fn peers_examine_a_port_or_a_url() {
    let mode = |options: Value| {
        let document = json!({"detection": {"type": "LB_STATUS_POLLING", "options": options}});
        read(document).map(|policy| json!(policy.detection.detection_modes[0]))
    };
    assert_eq!(mode(json!({})).unwrap(), json!({"type": "LB_STATUS_POLLING"}));
    let of_port = mode(json!({"port": 8080})).unwrap();
    assert_eq!(of_port, json!({"type": "LB_STATUS_POLLING", "options": {"port": 8080}}));
    let of_url = mode(json!({"poll_url": "http://{nodeip}/h", "poll_url_healthy_response": "ok"})).unwrap();
    assert_eq!(of_url["options"]["poll_url_retry_limit"], 3, "{of_url}");
}

/// C3: the options of a mode are those of its kind.
#[test]
fn mode_refuses_options_of_another_kind() {
    let modes = |modes: Value| json!({"detection": {"detection_modes": modes}});
    for (document, expected) in [
        (
            modes(json!([{"type": "LB_STATUS_POLLING", "options": {"port": 0}}])),
            ".detection.detection_modes[0].options.port must be an integer from 1 to 65535",
        ),
        (
            modes(json!([{"type": "LB_STATUS_EVENTS", "options": {"poll_url": "http://{nodeip}/",
                "poll_url_healthy_response": "ok", "executor": "hub"}}])),
            ".detection.detection_modes[0].options.executor must not be hub: LB_STATUS_EVENTS is what peers see",
        ),
        (
            modes(json!([{"type": "HYPERVISOR_STATUS_POLLING", "options": {"port": 80}}])),
            ".detection.detection_modes[0].options need a type that polls something",
        ),
    ] {
        assert_eq!(read(document.clone()).unwrap_err(), format!("healthPolicy{expected}"), "{document}");
    }
}

/// C1-S3: some actions need an instance.
#[test]
fn group_refuses_actions_on_instances() {
    let mut document = polling();
    document["recovery"] = json!({"actions": [{"name": "REBUILD"}]});
    assert!(read(document.clone()).is_ok());
    assert_eq!(
        read_for(document, Target::Group).unwrap_err(),
        "healthPolicy.recovery.actions[0].name must not be REBUILD: it needs a deployment policy"
    );
}

/// C6-S6.
#[test]
fn actions_are_different_and_have_their_defaults() {
    let mut document = polling();
    document["recovery"] = json!({"actions": [
        {"name": "REBOOT", "params": {"type": "soft"}}, {"name": "RECREATE"},
        {"name": "w", "type": "MISTRAL_WORKFLOW", "params": {"url": "http://h/"}}]});
    let policy = read(document).unwrap();
    assert_eq!(
        json!(policy.recovery.actions),
        json!([{"name": "REBOOT", "params": {"type": "SOFT"}}, {"name": "RECREATE"},
            {"name": "w", "type": "WORKFLOW", "params": {"url": "http://h/"}}])
    );
    let kinds: Vec<ActionKind> = policy.recovery.actions.iter().map(RecoveryAction::kind).collect();
    assert_eq!(kinds, [ActionKind::Reboot, ActionKind::Recreate, ActionKind::Workflow]);
    assert!(!policy.recovery.actions[0].is_hard() && !policy.recovery.has_default_actions());
}

/// C4-S4: parameters of a URL.
#[test]
fn parameters_stand_for_the_node() {
    let url = PollUrl::parse("http://{nodename}/h?ip={nodeip}").unwrap();
    assert_eq!(url.expand("edge-7", "10.0.0.7"), "http://edge-7/h?ip=10.0.0.7");
    assert_eq!(url.expand("edge-7", "fe80::1"), "http://edge-7/h?ip=[fe80::1]");
    assert!(url.needs_address());
}

/// C4.3: a text, or a match of a regular expression.
#[test]
fn body_is_healthy_when_it_contains_what_is_expected() {
    assert!(Expected::parse("all good").unwrap().is_in("it is all good here"));
    assert!(!Expected::parse("all good").unwrap().is_in("starting"));
    let expression = Expected::parse(r#"re:"status":\s*"(ok|fine)""#).unwrap();
    assert!(expression.is_in(r#"{"status": "fine"}"#) && !expression.is_in(r#"{"status": "bad"}"#));
    let huge = format!("re:{}", "(a{1000}){1000}");
    assert!(Expected::parse(&huge).unwrap_err().starts_with("is not a regular expression"));
}
