//! Services that others need: versions, order, sharing, end.

use serde_json::json;

use super::*;
use crate::step::{ContainerState, Event, Failures, Observation, RunState};

const NOW: u64 = 1_800_000_000;

fn need(url: &str, range: &str) -> RequiredService {
    serde_json::from_value(json!({"url": url, "org": "acme", "versionRange": range, "arch": "amd64"}))
        .unwrap()
}

/// Url, version, and dependencies: urls with version ranges.
type Known<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)]);

fn definitions(list: &[Known<'_>]) -> Definitions {
    let mut all = Definitions::new();
    for (url, version, needs) in list {
        let needs: Vec<_> = needs.iter().map(|(url, range)| need(url, range)).collect();
        let service = ServiceResponse {
            url: (*url).to_owned(),
            version: (*version).to_owned(),
            arch: "amd64".to_owned(),
            required_services: json!(needs),
            ..ServiceResponse::default()
        };
        let id = ServiceId::new("acme", &format!("{url}_{version}_amd64"));
        all.entry(ServiceKey::new("acme", url)).or_default().push((id, service));
    }
    all
}

fn order(needs: &[(&str, &str)], list: &[Known<'_>]) -> Result<Vec<String>, String> {
    let needs: Vec<_> = needs.iter().map(|(url, range)| need(url, range)).collect();
    let definitions = definitions(list);
    let order = in_order(&needs, "amd64", &definitions)?;
    Ok(order.into_iter().map(|(id, _)| id.as_str().trim_end_matches("_amd64").to_owned()).collect())
}

#[test]
fn what_is_needed_starts_before_what_needs_it_in_the_highest_version_of_the_range() {
    let list: &[Known<'_>] = &[
        ("db", "1.0.0", &[]),
        ("db", "1.9.0", &[]),
        ("db", "2.0.0", &[]),
        ("api", "1.0.0", &[("db", "[1.0.0,2.0.0)")]),
    ];
    let found = order(&[("api", "1.0.0"), ("db", "[1.0.0,2.0.0)")], list);
    assert_eq!(found, Ok(vec!["acme/db_1.9.0".to_owned(), "acme/api_1.0.0".to_owned()]));
    assert_eq!(order(&[("db", "")], list), Ok(vec!["acme/db_2.0.0".to_owned()]));
}

#[test]
fn what_is_missing_or_needs_itself_is_refused_by_name() {
    let missing = order(&[("db", "[3.0.0,INFINITY)")], &[("db", "1.0.0", &[])]).unwrap_err();
    assert!(missing.contains("acme/db [3.0.0,INFINITY)"), "{missing}");
    let circle =
        order(&[("a", "")], &[("a", "1.0.0", &[("b", "")]), ("b", "1.0.0", &[("a", "")])]).unwrap_err();
    assert!(circle.contains("needs itself"), "{circle}");
    let names: Vec<String> = (0..=MOST_DEPENDENCIES).map(|number| format!("s{number}")).collect();
    let needs: Vec<_> = names.iter().map(|name| (name.as_str(), "")).collect();
    let list: Vec<Known<'_>> = names.iter().map(|name| (name.as_str(), "1.0.0", [].as_slice())).collect();
    assert!(order(&needs, &list).unwrap_err().contains("more than"));
}

fn dependency(url: &str, version: &str, is_shared: bool) -> Dependency {
    Dependency {
        service: WorkloadName {
            url: url.to_owned(),
            org: "acme".to_owned(),
            version: version.to_owned(),
            arch: "amd64".to_owned(),
        },
        is_shared,
        ..Dependency::default()
    }
}

#[test]
fn keys_are_usable_names_and_never_those_of_another() {
    let wild = dependency("https://x/../ü?a=b", "1.0.0", false);
    let key = wild.key("a1");
    assert!(key.chars().all(|letter| letter.is_ascii_alphanumeric() || "_.-".contains(letter)), "{key}");
    assert!(key.len() < 128);
    assert_ne!(key, wild.key("a2"));
    let shared = dependency("db", "1.0.0", true);
    assert_eq!(shared.key("a1"), shared.key("a2"));
    assert_ne!(shared.key("a1"), dependency("db", "1.0.1", true).key("a1"));
}

fn agreement(id: &str, url: &str, dependencies: Vec<Dependency>) -> Agreement {
    Agreement {
        id: id.to_owned(),
        workload: dependency(url, "1.0.0", false).service,
        dependencies,
        accepted_at: Some(NOW),
        created_at: NOW,
        timeout_secs: 1_000,
        ..Agreement::default()
    }
}

fn observed(key: &str, state: RunState) -> Event {
    let container = ContainerState {
        name: "c".to_owned(),
        image: String::new(),
        created_at: 0,
        state,
        failures: Failures::default(),
    };
    Event::Observed { key: key.to_owned(), observation: Observation { containers: vec![container] } }
}

fn state_of(agreements: Vec<Agreement>) -> State {
    let mut state = State::default();
    state.agreements.extend(agreements.into_iter().map(|agreement| (agreement.id.clone(), agreement)));
    state.apply(Event::Tick, NOW);
    state
}

fn run(state: &mut State, key: &str) {
    assert!(state.plan().contains(&Command::StartDependency { key: key.to_owned() }), "{:?}", state.plan());
    state.apply(Event::DependencyStarted { key: key.to_owned() }, NOW);
    state.apply(observed(key, RunState::Running), NOW);
}

#[test]
fn service_starts_after_all_that_it_needs_and_these_go_after_it() {
    let (db, api) = (dependency("db", "1.0.0", false), dependency("api", "1.0.0", false));
    let (db_key, api_key) = (db.key("a1"), api.key("a1"));
    let mut state = state_of(vec![agreement("a1", "web", vec![db, api])]);
    assert_eq!(state.plan(), [Command::StartDependency { key: db_key.clone() }], "one after the other");
    run(&mut state, &db_key);
    run(&mut state, &api_key);
    assert_eq!(state.plan(), [Command::Start { agreement: "a1".to_owned() }]);
    state.apply(Event::Started { agreement: "a1".to_owned() }, NOW);
    state.apply(observed("a1", RunState::Running), NOW);
    let status = state.status();
    let listed: Vec<_> = status
        .services
        .iter()
        .map(|one| (one.agreement_id.as_deref().unwrap(), one.service_url.as_deref().unwrap()))
        .collect();
    assert_eq!(listed.len(), 3);
    assert!(listed.contains(&("a1", "web")) && listed.contains(&("", "db")) && listed.contains(&("", "api")));

    state.apply(Event::CancelRequested { agreement: None, reason: 105 }, NOW);
    assert_eq!(
        state.plan(),
        [Command::Stop { agreement: "a1".to_owned() }],
        "it needs them until it is gone"
    );
    state.apply(Event::Stopped { agreement: "a1".to_owned() }, NOW);
    let stops = [&api_key, &db_key].map(|key| Command::StopDependency { key: key.clone() });
    assert!(stops.iter().all(|stop| state.plan().contains(stop)));
    assert!(!state.is_stopped());
    for key in [db_key, api_key] {
        state.apply(Event::DependencyStopped { key }, NOW);
    }
    assert!(state.is_stopped() && state.status().services.is_empty());
}

#[test]
fn shared_dependency_runs_once_until_its_last_dependent_ends() {
    let shared = dependency("db", "1.0.0", true);
    let key = shared.key("");
    let agreements =
        vec![agreement("a1", "web", vec![shared.clone()]), agreement("a2", "shop", vec![shared.clone()])];
    let mut state = state_of(agreements);
    assert_eq!(state.instances.len(), 1);
    run(&mut state, &key);
    for id in ["a1", "a2"] {
        state.apply(Event::Started { agreement: id.to_owned() }, NOW);
    }
    state.apply(Event::CancelRequested { agreement: Some("a1".to_owned()), reason: 105 }, NOW);
    state.apply(Event::Stopped { agreement: "a1".to_owned() }, NOW);
    assert!(state.plan().is_empty(), "the other one needs it still: {:?}", state.plan());
    state.apply(Event::CancelRequested { agreement: Some("a2".to_owned()), reason: 105 }, NOW);
    state.apply(Event::Stopped { agreement: "a2".to_owned() }, NOW);
    assert_eq!(state.plan(), [Command::StopDependency { key }]);
}

#[test]
fn another_version_of_a_dependency_waits_until_the_older_one_is_gone() {
    let (old, new) = (dependency("db", "1.0.0", true), dependency("db", "2.0.0", true));
    let mut state = state_of(vec![agreement("a1", "web", vec![old.clone()])]);
    run(&mut state, &old.key(""));
    state.apply(Event::Started { agreement: "a1".to_owned() }, NOW);
    state.apply(Event::CancelRequested { agreement: None, reason: 204 }, NOW);
    state.agreements.insert("a2".to_owned(), agreement("a2", "web", vec![new.clone()]));
    state.apply(Event::Tick, NOW);
    let start = Command::StartDependency { key: new.key("") };
    assert!(!state.plan().contains(&start), "the older service still runs");
    state.apply(Event::Stopped { agreement: "a1".to_owned() }, NOW);
    assert!(!state.plan().contains(&start), "what it needed still runs");
    state.apply(Event::DependencyStopped { key: old.key("") }, NOW);
    assert!(state.plan().contains(&start));
}

#[test]
fn dependency_that_cannot_run_ends_what_needs_it_with_the_codes_of_the_contract() {
    let db = dependency("db", "1.0.0", false);
    let key = db.key("a1");
    let mut state = state_of(vec![agreement("a1", "web", vec![db.clone()])]);
    state.apply(Event::DependencyFailed { key: key.clone(), reason: 117, error: "no image".to_owned() }, NOW);
    assert_eq!(state.agreements["a1"].ending.map(|ending| ending.reason), Some(117));
    assert_eq!(state.errors[0].code, "error_start_dependent_service");

    let mut state = state_of(vec![agreement("a1", "web", vec![db])]);
    run(&mut state, &key);
    state.apply(observed(&key, RunState::Exited), NOW + 10);
    state.apply(Event::Tick, NOW + 40);
    assert!(state.agreements["a1"].is_live(), "it may come back");
    state.apply(Event::Tick, NOW + 10 + crate::step::DOWN_LIMIT_SECS);
    assert_eq!(state.agreements["a1"].ending.map(|ending| ending.reason), Some(108));
}

#[test]
fn instances_survive_in_the_journal() {
    let shared = dependency("db", "1.0.0", true);
    let mut state = state_of(vec![agreement("a1", "web", vec![shared.clone()])]);
    run(&mut state, &shared.key(""));
    let again: State = serde_json::from_str(&serde_json::to_string(&state).unwrap()).unwrap();
    assert_eq!(again.instances, state.instances);
    assert!(again.is_needed(&shared.key("")));
    // A journal of an older agent has none.
    let older: State = serde_json::from_str("{}").unwrap();
    assert!(older.instances.is_empty());
}
