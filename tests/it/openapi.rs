//! The document of the API: what is committed is what the code makes, and it says everything a caller needs.

use std::collections::BTreeSet;

use evenkeel_api::{Content, Examples, Operation, Part};
use serde_json::Value;

use crate::support::wait::must;
use crate::support::{Program, Scratch};

const COMMITTED: &str = include_str!("../../openapi/exchange.json");

fn parts() -> [Part; 2] {
    [evenkeel_exchange::openapi::part(), evenkeel_agbot_api::part()]
}

fn examples() -> Examples {
    let texts: Vec<&str> = parts().iter().flat_map(|part| part.examples).copied().collect();
    must(Examples::parse(&texts), "the examples")
}

fn operations() -> Vec<Operation> {
    parts().into_iter().flat_map(|part| part.operations).collect()
}

/// Every operation of the committed document, with its method and path.
fn documented() -> Vec<(String, Value)> {
    let document: Value = must(serde_json::from_str(COMMITTED), "the document");
    let paths = document["paths"].as_object().cloned().unwrap_or_default();
    let each = |(path, item): (String, Value)| {
        let methods = item.as_object().cloned().unwrap_or_default();
        methods.into_iter().map(move |(method, operation)| (format!("{method} {path}"), operation))
    };
    paths.into_iter().flat_map(each).collect()
}

#[tokio::test]
async fn committed_document_is_what_the_program_prints() {
    let scratch = Scratch::new();
    let mut program = Program::start(&scratch, &["openapi"], None);
    assert_eq!(program.wait().await, 0, "{}", program.errors());
    assert!(
        program.output() == COMMITTED,
        "openapi/exchange.json is not up to date: evenkeel openapi > openapi/exchange.json"
    );
}

#[test]
fn examples_of_requests_are_read_by_the_handlers() {
    let examples = examples();
    for operation in operations() {
        if matches!(operation.request, Content::None | Content::Text(_)) {
            continue;
        }
        let found = examples.of(&operation.request);
        assert!(!found.is_empty(), "{} has no kind of body", operation.operation);
        for (name, example) in found {
            let example = example.unwrap_or_else(|| panic!("{name} has no example"));
            let outcome = operation.request.check(&example.to_string());
            assert_eq!(outcome, Some(Ok(())), "the example of {name} for {}", operation.operation);
        }
    }
}

#[test]
fn every_success_documents_its_body_with_an_example() {
    let examples = examples();
    for operation in operations() {
        let successes =
            || operation.responses.iter().filter(|response| (200..300).contains(&response.status));
        assert_eq!(successes().count(), 1, "{} succeeds in one way", operation.operation);
        for response in successes() {
            assert_eq!(response.status == 204, response.content.is_none(), "{}", operation.operation);
            for (name, example) in examples.of(&response.content) {
                assert!(example.is_some(), "{name}, a response of {}, has no example", operation.operation);
            }
        }
    }
}

#[test]
fn every_example_is_shown() {
    let operations = operations();
    let contents = operations
        .iter()
        .flat_map(|one| one.responses.iter().map(|response| &response.content).chain([&one.request]));
    let examples = examples();
    let shown: BTreeSet<String> =
        contents.flat_map(|content| examples.of(content)).map(|(name, _)| name).collect();
    for name in examples.names() {
        assert!(shown.contains(name), "nothing shows the example of {name}");
    }
}

#[test]
fn every_path_parameter_is_described() {
    for (title, operation) in documented() {
        let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
        let in_path = |parameter: &&Value| parameter["in"] == "path";
        assert_eq!(parameters.iter().filter(in_path).count(), title.matches('{').count(), "{title}");
        for parameter in &parameters {
            let name = &parameter["name"];
            assert!(parameter["description"].is_string(), "{title}: {name} is not described");
            assert!(parameter["schema"].is_object(), "{title}: {name} has no schema");
            if parameter["in"] == "path" {
                assert!(!parameter["example"].is_null(), "{title}: {name} has no example");
            }
        }
    }
}

#[test]
fn names_of_operations_are_unique_and_credentials_are_documented() {
    let mut names = BTreeSet::new();
    for (title, operation) in documented() {
        let name = operation["operationId"].as_str().unwrap_or_default().to_owned();
        assert!(names.insert(name), "{title} shares its name with another operation");
        assert!(operation["summary"].as_str().is_some_and(|summary| !summary.is_empty()), "{title}");
        let is_open = operation["security"].as_array().is_some_and(Vec::is_empty);
        assert_eq!(is_open, operation["responses"]["401"].is_null(), "{title}");
    }
}

#[test]
fn whole_contract_is_there() {
    let all: BTreeSet<String> = documented().into_iter().map(|(title, _)| title).collect();
    // 154 routes and 36 aliases of the contract; the event stream, the audit record and actions in it, the orchestration of nodes, the documents of
    // groups with and without prefix, the management status of groups, the tasks of nodes, what nodes report, the settings of
    // organizations, the health and commands of tasks, the approvals and fencing numbers of agbots, departures of nodes, and the revisions of
    // nine kinds of documents with the other path of policies, and the approvals of plans are ours.
    let of_exchange: usize =
        evenkeel_exchange::routes::all().iter().map(|one| one.whole_paths().count()).sum();
    assert_eq!(of_exchange, 154 + 36 + 1 + 3 + 8 + 2 * 5 + 1 + 4 + 2 + 3 + 3 + 8 + 2 + 2 * (9 + 1) + 7);
    let operations = operations();
    let mut expected: usize = 0;
    for operation in &operations {
        for path in operation.whole_paths() {
            expected += 1;
            let title = format!("{} {path}", operation.method.as_str().to_ascii_lowercase());
            assert!(all.contains(&title), "{title} is not in the document");
        }
    }
    assert_eq!(all.len(), expected);
}
