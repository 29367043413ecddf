//! Reading `healthPolicy`, with every rule that does not depend on other documents.
//!
//! Source: orchestration C2 (the right-hand column of the table), C6.

use serde_json::{Map, Value};

use super::{
    ActionKind, Detection, DetectionMode, DetectionType, Executor, Expected, FencedResource, HealthPolicy,
    PeerOptions, PollOptions, PollUrl, Ratio, Recovery, RecoveryAction, RecoveryConditional, TemplateValues,
    WorkflowType,
};
use crate::object::{Members, MembersError, Object};

/// Longest time that a member may name, in seconds.
const MAX_SECONDS: u64 = 604_800;
/// Most attempts of one check.
const MAX_RETRIES: u64 = 100;
/// Longest time of one attempt, in seconds.
const MAX_TIMEOUT: u64 = 300;
/// Most recoveries at once.
const MAX_PARALLELISM: u64 = 1_000_000;
/// Most actions.
const MAX_ACTIONS: usize = 20;
/// Most parameters of an action, and their longest text in bytes.
const MAX_PARAMETERS: usize = 50;
const MAX_PARAMETER_BYTES: usize = 4096;

const ROOT: Members = members(&["version", "enabled", "detection", "recovery"]);
const DETECTION: Members = members(&[
    "interval",
    "node_update_timeout",
    "recovery_conditional",
    "detection_modes",
    "type",
    "options",
]);
const MODE: Members = members(&["type", "options"]);
const OPTIONS: Members = members(&[
    "poll_url",
    "poll_url_ssl_verify",
    "poll_url_conn_error_as_unhealthy",
    "poll_url_healthy_response",
    "poll_url_retry_limit",
    "poll_url_retry_interval",
    "poll_url_timeout",
    "executor",
]);
const PEER_OPTIONS: Members = members(&["port"]);
const RECOVERY: Members = members(&[
    "actions",
    "fencing",
    "node_delete_timeout",
    "node_force_recreate",
    "action_timeout",
    "parallelism",
    "maxUnhealthyRatio",
]);
const ACTION: Members = members(&["name", "type", "params"]);

/// The object that a health policy is attached to.
///
/// # Source
/// Orchestration C1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// A deployment policy: the members are instances.
    Workload,
    /// An HA group: the members are nodes.
    Group,
}

const fn members(known: &'static [&'static str]) -> Members {
    Members { known, unsupported: &[] }
}

type Read<T> = Result<T, MembersError>;

/// Opens an object. An error about a misspelled member includes a suggestion.
fn open(path: String, value: Value, known: &Members) -> Read<Object> {
    let unknown = value.as_object().and_then(|members| {
        let unknown = |name: &&String| !known.known.contains(&name.as_str());
        let name = members.keys().find(unknown)?;
        Some((name.clone(), known.nearest(name)?))
    });
    match unknown {
        Some((name, near)) => Err(MembersError {
            path: format!("{path}.{name}"),
            rule: format!("is not known; did you mean {near}"),
        }),
        None => Object::open(path, value, known),
    }
}

impl HealthPolicy {
    /// Reads a document; `path` leads to it.
    ///
    /// # Errors
    /// The first member that breaks a rule, with its path.
    pub fn read(path: &str, document: Value, target: Target) -> Read<Self> {
        let mut root = open(path.to_owned(), document, &ROOT)?;
        check_version(&mut root)?;
        let enabled = root.boolean("enabled")?.unwrap_or(true);
        let Some(detection) = root.take("detection") else {
            return Err(root.broken("detection", "must be an object"));
        };
        let detection_path = format!("{path}.detection");
        let detection = without_form_of_1_0(&detection_path, detection)?;
        let detection = read_detection(open(detection_path, detection, &DETECTION)?)?;
        let recovery = root.take("recovery").unwrap_or_else(|| Value::Object(Map::new()));
        let recovery = open(format!("{path}.recovery"), recovery, &RECOVERY)?;
        let recovery =
            read_recovery(recovery, detection.node_update_timeout, target, &format!("{path}.recovery"))?;
        Ok(Self { version: "1.2", enabled, detection, recovery })
    }
}

impl RecoveryAction {
    /// Reads the action that a user has chosen for a recovery of `target`, with its parameters.
    ///
    /// # Errors
    /// The member `operation` or `operation_params` that breaks a rule.
    pub fn read_operation(name: &str, params: Option<Value>, target: Target) -> Read<Self> {
        let given = params.filter(|params| !params.is_null()).unwrap_or_else(|| Value::Object(Map::new()));
        let document = serde_json::json!({"name": name, "params": given});
        let action = open(String::new(), document, &ACTION)?;
        let renamed = |error: MembersError| MembersError {
            path: error.path.replacen("name", "operation", 1).replacen("params", "operation_params", 1),
            ..error
        };
        read_action(action, target).map_err(renamed)
    }
}

/// Moves the members that documents of version 1.0 have under `options`, next to the single `type`, to their place in later versions.
fn without_form_of_1_0(path: &str, mut detection: Value) -> Read<Value> {
    let Some(members) = detection.as_object_mut().filter(|members| members.contains_key("type")) else {
        return Ok(detection);
    };
    for name in ["interval", "node_update_timeout"] {
        let options = members.get_mut("options").and_then(Value::as_object_mut);
        let Some(value) = options.and_then(|options| options.remove(name)) else { continue };
        if members.contains_key(name) {
            let rule = format!("must not be combined with {path}.{name}");
            return Err(MembersError { path: format!("{path}.options.{name}"), rule });
        }
        members.insert(name.to_owned(), value);
    }
    Ok(detection)
}

fn check_version(root: &mut Object) -> Read<()> {
    let version = match root.take("version") {
        None => return Ok(()),
        Some(Value::String(text)) => text,
        Some(other) => other.to_string(),
    };
    match ["1.0", "1.1", "1.2"].contains(&version.as_str()) {
        true => Ok(()),
        false => Err(root.broken("version", "must be 1.0, 1.1 or 1.2")),
    }
}

fn read_detection(mut detection: Object) -> Read<Detection> {
    let conditional = detection.word(
        "recovery_conditional",
        &[
            ("ANY_FAILED", Some(RecoveryConditional::AnyFailed)),
            ("ALL_FAILED", Some(RecoveryConditional::AllFailed)),
        ],
    )?;
    Ok(Detection {
        interval: detection.number("interval", 1..=MAX_SECONDS)?.unwrap_or(60),
        node_update_timeout: detection.number("node_update_timeout", 0..=MAX_SECONDS)?.unwrap_or(300),
        recovery_conditional: conditional.unwrap_or_default(),
        detection_modes: modes(&mut detection)?,
    })
}

/// Reads the list of modes; in the format of version 1.0 there is a single mode next to the other members.
fn modes(detection: &mut Object) -> Read<Vec<DetectionMode>> {
    let is_single = detection.has("type") || detection.has("options");
    let list = match detection.take("detection_modes") {
        Some(_) if is_single => {
            return Err(detection.broken("detection_modes", "must not be combined with type or options"));
        }
        Some(Value::Array(list)) if !list.is_empty() && list.len() <= DetectionType::ALL.len() => list,
        Some(_) | None if !is_single => {
            let rule = format!("must be a list of 1 to {} modes", DetectionType::ALL.len());
            return Err(detection.broken("detection_modes", &rule));
        }
        _ => {
            let members = ["type", "options"].map(|name| Some((name.to_owned(), detection.take(name)?)));
            vec![Value::Object(members.into_iter().flatten().collect())]
        }
    };
    let mut modes: Vec<DetectionMode> = Vec::new();
    for (number, mode) in list.into_iter().enumerate() {
        let path = detection.path_of(&format!("detection_modes[{number}]"));
        let mode = read_mode(open(path, mode, &MODE)?)?;
        if modes.iter().any(|one| one.kind == mode.kind) {
            let rule = format!("must not hold {} twice", mode.kind.word());
            return Err(detection.broken("detection_modes", &rule));
        }
        modes.push(mode);
    }
    let alone = modes.iter().find(|mode| !mode.kind.is_polling()).filter(|_| modes.len() > 1);
    match alone {
        Some(mode) => {
            Err(detection.broken("detection_modes", &format!("must hold {} alone", mode.kind.word())))
        }
        None => Ok(modes),
    }
}

fn read_mode(mut mode: Object) -> Read<DetectionMode> {
    let words = DetectionType::ALL.map(|(word, kind)| (word, Some(kind)));
    let kind = mode.word("type", &words)?;
    let kind = kind.ok_or_else(|| {
        let words = DetectionType::ALL.map(|(word, _)| word).join(", ");
        mode.broken("type", &format!("must be one of {words}"))
    })?;
    let is_empty = |options: &Value| options.as_object().is_some_and(Map::is_empty);
    let path = mode.path_of("options");
    let given = mode.take("options").filter(|options| !is_empty(options));
    let without = DetectionMode { kind, options: None, peer_options: None };
    match given {
        None if kind == DetectionType::NodeStatusPollUrl => {
            Err(mode.broken("options", "must hold poll_url and poll_url_healthy_response"))
        }
        None => Ok(without),
        Some(options) if kind == DetectionType::NodeStatusPollUrl => {
            Ok(DetectionMode { options: Some(read_options(open(path, options, &OPTIONS)?)?), ..without })
        }
        Some(options) if kind.is_of_peers() => read_peer_options(&path, options, without),
        Some(_) => Err(mode.broken("options", "need a type that polls something")),
    }
}

/// Reads what peers examine: a port, or a URL with the options of `NODE_STATUS_POLL_URL`. Without options it is the
/// port that the service publishes.
fn read_peer_options(path: &str, options: Value, without: DetectionMode) -> Read<DetectionMode> {
    if options.get("poll_url").is_none() {
        let mut options = open(path.to_owned(), options, &PEER_OPTIONS)?;
        let port = options.number("port", 1..=u64::from(u16::MAX))?;
        let port = port.ok_or_else(|| options.broken("port", "or poll_url must be given"))?;
        return Ok(DetectionMode { peer_options: Some(PeerOptions { port }), ..without });
    }
    let options = open(path.to_owned(), options, &OPTIONS)?;
    let executor = format!("{path}.executor");
    let read = read_options(options)?;
    if read.executor == Executor::Hub {
        let rule = format!("must not be hub: {} is what peers see", without.kind.word());
        return Err(MembersError { path: executor, rule });
    }
    Ok(DetectionMode { options: Some(read), ..without })
}

fn read_options(mut options: Object) -> Read<PollOptions> {
    let required = |options: &mut Object, name: &str| {
        let text = options.text(name, MAX_PARAMETER_BYTES)?;
        text.ok_or_else(|| options.broken(name, "is required"))
    };
    let url = required(&mut options, "poll_url")?;
    let poll_url = PollUrl::parse(&url).map_err(|rule| options.broken("poll_url", &rule))?;
    let expected = required(&mut options, "poll_url_healthy_response")?;
    let expected =
        Expected::parse(&expected).map_err(|rule| options.broken("poll_url_healthy_response", &rule))?;
    let executor =
        options.word("executor", &[("agent", Some(Executor::Agent)), ("hub", Some(Executor::Hub))])?;
    Ok(PollOptions {
        poll_url,
        poll_url_ssl_verify: options.boolean("poll_url_ssl_verify")?.unwrap_or(true),
        poll_url_conn_error_as_unhealthy: options
            .boolean("poll_url_conn_error_as_unhealthy")?
            .unwrap_or(true),
        poll_url_healthy_response: expected,
        poll_url_retry_limit: options.number("poll_url_retry_limit", 0..=MAX_RETRIES)?.unwrap_or(3),
        poll_url_retry_interval: options.number("poll_url_retry_interval", 1..=3600)?.unwrap_or(3),
        poll_url_timeout: options.number("poll_url_timeout", 1..=MAX_TIMEOUT)?.unwrap_or(5),
        executor: executor.unwrap_or_default(),
    })
}

fn read_recovery(
    mut recovery: Object,
    node_update_timeout: u64,
    target: Target,
    path: &str,
) -> Read<Recovery> {
    let default_timeout = node_update_timeout.max(1);
    Ok(Recovery {
        actions: actions(&mut recovery, target, path)?,
        fencing: fencing(&mut recovery)?,
        node_delete_timeout: recovery.number("node_delete_timeout", 0..=MAX_SECONDS)?.unwrap_or(20),
        node_force_recreate: recovery.boolean("node_force_recreate")?.unwrap_or(false),
        action_timeout: recovery.number("action_timeout", 1..=MAX_SECONDS)?.unwrap_or(default_timeout),
        parallelism: recovery.number("parallelism", 1..=MAX_PARALLELISM)?,
        max_unhealthy_ratio: recovery.quantity("maxUnhealthyRatio", 1.0)?.map_or(Ratio::HALF, Ratio::nearest),
    })
}

fn fencing(recovery: &mut Object) -> Read<Vec<FencedResource>> {
    const MEMBER: &str = "fencing";
    let Some(names) = recovery.names(MEMBER, 0..=3, "resources")? else { return Ok(Vec::new()) };
    names
        .iter()
        .map(|name| match name.as_str() {
            "COMPUTE" => Ok(FencedResource::Compute),
            "STORAGE" | "NETWORK" => Err(recovery.broken(MEMBER, &format!("{name} is not supported"))),
            _ => Err(recovery.broken(MEMBER, "must hold COMPUTE")),
        })
        .collect()
}

fn actions(recovery: &mut Object, target: Target, path: &str) -> Read<Vec<RecoveryAction>> {
    const MEMBER: &str = "actions";
    let list = match recovery.take(MEMBER) {
        None => return Ok(vec![RecoveryAction::new(ActionKind::Recreate)]),
        Some(Value::Array(list)) if !list.is_empty() && list.len() <= MAX_ACTIONS => list,
        Some(_) => {
            return Err(recovery.broken(MEMBER, &format!("must be a list of 1 to {MAX_ACTIONS} actions")));
        }
    };
    let mut actions: Vec<RecoveryAction> = Vec::new();
    for (number, action) in list.into_iter().enumerate() {
        let action = read_action(open(format!("{path}.{MEMBER}[{number}]"), action, &ACTION)?, target)?;
        if actions.iter().any(|one| one.name == action.name) {
            return Err(recovery.broken(MEMBER, &format!("must not hold {} twice", action.name)));
        }
        actions.push(action);
    }
    Ok(actions)
}

fn read_action(mut action: Object, target: Target) -> Read<RecoveryAction> {
    let workflow = action.word(
        "type",
        &[("WORKFLOW", Some(WorkflowType::Workflow)), ("MISTRAL_WORKFLOW", Some(WorkflowType::Workflow))],
    )?;
    let name = action.text("name", 128)?.filter(|name| !name.is_empty());
    let Some(name) = name else { return Err(action.broken("name", "is required")) };
    let params = match action.take("params") {
        None => Map::new(),
        Some(Value::Object(params)) if params.len() <= MAX_PARAMETERS => params,
        Some(_) => {
            return Err(
                action.broken("params", &format!("must be an object of at most {MAX_PARAMETERS} members"))
            );
        }
    };
    if Value::Object(params.clone()).to_string().len() > MAX_PARAMETER_BYTES {
        return Err(action.broken("params", &format!("must not be longer than {MAX_PARAMETER_BYTES} bytes")));
    }
    let params = match workflow {
        Some(_) => workflow_params(&action, params)?,
        None => built_in_params(&action, &name, params, target)?,
    };
    Ok(RecoveryAction { name, workflow, params })
}

fn workflow_params(action: &Object, params: Map<String, Value>) -> Read<Map<String, Value>> {
    let url = params.get("url").and_then(Value::as_str).unwrap_or_default();
    if !(url.starts_with("http://") || url.starts_with("https://")) {
        return Err(action.broken("params.url", "must begin with http:// or https://"));
    }
    let timeout = params.get("timeout").filter(|value| !value.is_null());
    if timeout.is_some_and(|value| value.as_u64().is_none_or(|secs| !(1..=MAX_SECONDS).contains(&secs))) {
        let rule = format!("must be an integer from 1 to {MAX_SECONDS}");
        return Err(action.broken("params.timeout", &rule));
    }
    let replaced = TemplateValues::default().replace_in(&params);
    replaced.map_err(|(path, rule)| action.broken(&format!("params.{path}"), &rule))?;
    Ok(params)
}

fn built_in_params(
    action: &Object,
    name: &str,
    params: Map<String, Value>,
    target: Target,
) -> Read<Map<String, Value>> {
    let Some((_, kind)) = ActionKind::BUILT_IN.iter().find(|(word, _)| *word == name) else {
        let words = ActionKind::BUILT_IN.map(|(word, _)| word).join(", ");
        return Err(action.broken("name", &format!("must be one of {words} unless the type is WORKFLOW")));
    };
    let is_of_nodes = matches!(kind, ActionKind::Recreate | ActionKind::Reboot);
    if target == Target::Group && !is_of_nodes {
        return Err(action.broken("name", &format!("must not be {name}: it needs a deployment policy")));
    }
    let known: &[&str] = match (kind, target) {
        (ActionKind::Reboot, Target::Group) => &["type", "scope"],
        (ActionKind::Reboot, Target::Workload) => &["type"],
        _ => &[],
    };
    if let Some(unknown) = params.keys().find(|param| !known.contains(&param.as_str())) {
        return Err(action.broken(&format!("params.{unknown}"), "is not known"));
    }
    let mut read = Map::new();
    for (param, words, default) in [("type", ["SOFT", "HARD"], "HARD"), ("scope", ["agent", "host"], "agent")]
    {
        if !known.contains(&param) {
            continue;
        }
        let given = params.get(param).filter(|value| !value.is_null());
        let word = match given.map(|value| value.as_str().unwrap_or_default()) {
            None => default,
            Some(given) => *words.iter().find(|word| word.eq_ignore_ascii_case(given)).ok_or_else(|| {
                action.broken(&format!("params.{param}"), &format!("must be {}", words.join(" or ")))
            })?,
        };
        read.insert(param.to_owned(), word.into());
    }
    Ok(read)
}
