//! Access control: every operation of the router by every kind of caller, compared with a readable table.
//!
//! `UPDATE_GOLDEN=1 cargo test --test it access` rewrites the table; a reviewer judges the difference.

use std::fmt::Write as _;
use std::path::Path;

use evenkeel_api::Operation;
use evenkeel_exchange::operation::Operation as ExchangeOperation;
use evenkeel_exchange::routes;
use http::{Method, StatusCode};

use super::request::{Aim, body, path};
use super::world::{CALLERS, HOME, SHARED, World};

const HEADER: &str = "\
Who may do what with the exchange and the agbot: the right that each operation asks for, as its row says, and the status that each kind
of caller gets.

Organization `acme` holds one of everything; `owner` (an ordinary user) made it. Columns:
  root    the root user
  hub     an administrator of the hub (organization `root`)
  admin   an administrator of `acme`
  owner   the ordinary user of `acme` who owns what is asked for (of users: is it)
  user    another ordinary user of `acme`
  viewer  a viewer of `acme`
  deploy  a deployer of `acme`, for the policies `pol`, which `owner` made, and `fre*`
  node    a node of `acme`, the one that is asked for
  node2   another node of `acme`
  agbot   an agbot of `acme`, the one that is asked for; an administrator approved it
  agbot2  an agbot of `acme` that `owner` made and no administrator approved
  multi   an agbot of the shared organization `IBM`, which serves every organization
  abroad  an administrator of another organization
  nobody  no credentials
Rows:
  home    the resource of `acme`; a service or pattern is private
  public  the same, but the service or pattern is public
  shared  the resource of organization `IBM`, private

2xx done, 400 allowed but against a rule of the operation (who sends messages, which users a hub administrator makes),
401 no credentials, 403 not allowed, 404 not there or not to be known of. A user who asks for a user that it may not
see, or for a private service of a colleague, gets 404. A login that asks the agbot as another node gets 400.
";

/// Operations with rules besides access: who sends a message, what users a hub administrator makes, and where root has its user.
const REFUSED_BY_RULE: &[&str] =
    &["create_node_message", "create_agbot_message", "create_user", "replace_user", "get_own_user"];

/// A row of the table: what is asked for.
struct Line {
    title: &'static str,
    aim: Aim,
}

const HOME_LINE: Line = Line { title: "home", aim: Aim { org: HOME, name: "private" } };
const PUBLIC_LINE: Line = Line { title: "public", aim: Aim { org: HOME, name: "public" } };
const SHARED_LINE: Line = Line { title: "shared", aim: Aim { org: SHARED, name: "private" } };

#[tokio::test]
async fn every_operation_responds_to_every_caller_as_in_the_table() {
    let mut world = World::new().await;
    let mut table = HEADER.to_owned();
    let mut endpoints: Vec<Operation> = routes::all().iter().map(ExchangeOperation::described).collect();
    endpoints.sort_by_key(|endpoint| (endpoint.tag, endpoint.paths[0], position(&endpoint.method)));
    let mut tag = "";
    for endpoint in &endpoints {
        if endpoint.tag != tag {
            tag = endpoint.tag;
            write_title(&mut table, tag);
        }
        for line in lines(endpoint) {
            let template = endpoint.paths[0];
            let statuses = walk(&mut world, endpoint, template, line.aim).await;
            write_line(&mut table, endpoint, line, &statuses);
            for alias in &endpoint.paths[1..] {
                let others = walk(&mut world, endpoint, alias, line.aim).await;
                assert_eq!(others, statuses, "{alias} is not as strict as {template}");
            }
        }
    }
    write_agbot(&mut world, &mut table).await;
    compare("access.txt", &table);
}

/// The operations of the agbot; those that take claims come last, because a claim that is there changes what others get.
async fn write_agbot(world: &mut World, table: &mut String) {
    let agbot = world.start_agbot().await;
    let mut endpoints = evenkeel_agbot_api::part().operations;
    let takes_claim = |endpoint: &Operation| endpoint.operation.starts_with("ask_for_");
    endpoints.sort_by_key(|endpoint| (takes_claim(endpoint), endpoint.paths[0], position(&endpoint.method)));
    write_title(table, "API of the agbot");
    for endpoint in &endpoints {
        for line in lines(endpoint) {
            let path = path(world, endpoint, endpoint.paths[0], line.aim);
            let statuses = ask_all(world, endpoint, &path, line.aim).await;
            write_line(table, endpoint, line, &statuses);
        }
    }
    drop(agbot);
}

/// The statuses that all callers get, without undoing anything.
async fn ask_all(world: &World, endpoint: &Operation, path: &str, aim: Aim) -> Vec<StatusCode> {
    let body = body(endpoint, aim);
    let mut statuses = Vec::new();
    for caller in CALLERS {
        let (status, response) = world.call(caller, &endpoint.method, path, body.as_ref()).await;
        let is_explained = status != StatusCode::BAD_REQUEST || endpoint.operation.starts_with("ask_for_");
        assert!(is_explained, "{} {path} as {}: {response:?}", endpoint.method, caller.title);
        assert!(!status.is_server_error(), "{} {path} as {}: {response:?}", endpoint.method, caller.title);
        statuses.push(status);
    }
    statuses
}

/// Reads come first.
fn position(method: &Method) -> usize {
    [Method::GET, Method::POST, Method::PUT, Method::PATCH]
        .iter()
        .position(|other| other == method)
        .unwrap_or(4)
}

fn lines(endpoint: &Operation) -> Vec<&'static Line> {
    let path = endpoint.paths[0];
    let mut lines = vec![&HOME_LINE];
    if ["{service}", "{pattern}"].iter().any(|name| path.contains(name))
        && !endpoint.operation.starts_with("create_p")
    {
        lines.push(&PUBLIC_LINE);
    }
    let is_shared = path.contains("{organization}") && !path.ends_with("AgentFileVersion");
    let is_read = endpoint.method == Method::GET || endpoint.operation == "poll_changes";
    if is_shared && is_read {
        lines.push(&SHARED_LINE);
    }
    lines
}

/// The statuses that all callers get. The effects of a successful write are undone before the next one.
async fn walk(world: &mut World, endpoint: &Operation, template: &str, aim: Aim) -> Vec<StatusCode> {
    let mut statuses = Vec::new();
    let path = path(world, endpoint, template, aim);
    let body = body(endpoint, aim);
    for caller in CALLERS {
        let (status, response) = world.call(caller, &endpoint.method, &path, body.as_ref()).await;
        let is_explained = status != StatusCode::BAD_REQUEST || REFUSED_BY_RULE.contains(&endpoint.operation);
        assert!(is_explained, "{} {path} as {}: {response:?}", endpoint.method, caller.title);
        assert!(!status.is_server_error(), "{} {path} as {}: {response:?}", endpoint.method, caller.title);
        if endpoint.method != Method::GET && status.is_success() {
            world.restore().await;
        }
        statuses.push(status);
    }
    statuses
}

fn write_title(table: &mut String, tag: &str) {
    let columns: String = CALLERS.iter().map(|caller| format!("{:>7}", caller.title)).collect();
    let _ = writeln!(table, "\n{:<87} {:<23} {columns}", tag, "right");
}

fn write_line(table: &mut String, endpoint: &Operation, line: &Line, statuses: &[StatusCode]) {
    let columns: String = statuses.iter().map(|status| format!("{:>7}", status.as_u16())).collect();
    let _ = writeln!(
        table,
        "{:<6} {:<72} {:<7} {:<23} {columns}",
        endpoint.method.as_str(),
        endpoint.paths[0],
        line.title,
        endpoint.access.name()
    );
}

/// Compares with the committed table, or writes it.
fn compare(name: &str, found: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&file, found).expect("the golden file is writable");
        return;
    }
    let committed = std::fs::read_to_string(&file).unwrap_or_default();
    let differences: Vec<String> = difference(&committed, found);
    assert!(differences.is_empty(), "tests/golden/{name} says otherwise:\n{}", differences.join("\n"));
}

fn difference(committed: &str, found: &str) -> Vec<String> {
    let gone = committed
        .lines()
        .filter(|line| !found.lines().any(|other| other == *line))
        .map(|line| format!("- {line}"));
    let new = found
        .lines()
        .filter(|line| !committed.lines().any(|other| other == *line))
        .map(|line| format!("+ {line}"));
    let mut lines: Vec<String> = gone.chain(new).collect();
    if lines.is_empty() && committed != found {
        lines.push("the order of the lines".to_owned());
    }
    lines
}
