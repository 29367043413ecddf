//! Requests for objects that do not exist, are not the caller's, are already taken or oddly named: the
//! contract's response, and nothing is written.

use evenkeel_exchange::routes;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::request::{self, Aim};
use super::world::{CALLERS, Caller, HOME, OUTSIDERS, ROOT, World};

const AIM: Aim = Aim { org: HOME, name: "private" };

fn caller(login: &'static str) -> Caller {
    Caller { title: login, login: Some(login) }
}

#[tokio::test]
async fn what_belongs_to_nothing_is_not_found() {
    let mut world = World::new().await;
    let parents = [
        ("/nodes/n1", "/nodes/nowhere"),
        ("/agbots/bot", "/agbots/nowhere"),
        ("/services/private.svc_1.0.0_amd64", "/services/nowhere_1.0.0_amd64"),
        ("/patterns/private", "/patterns/nowhere"),
        ("/users/olga", "/users/nobody"),
        ("/hagroups/grp", "/hagroups/nowhere"),
    ];
    for endpoint in routes::all() {
        let path = request::path(&world, &endpoint, endpoint.paths[0], AIM);
        for (there, nowhere) in parents {
            let of_parent = format!("{there}/");
            if !path.contains(&of_parent) {
                continue;
            }
            let absent = path.replace(&of_parent, &format!("{nowhere}/"));
            let body = request::body(&endpoint, AIM);
            let (status, response) = world.call(ROOT, &endpoint.method, &absent, body.as_ref()).await;
            let is_expected = match endpoint.operation {
                // Deleting a message that is gone is not a mistake; a search names its pattern in a rule;
                // messages need a sender.
                "delete_node_message" | "delete_agbot_message" => status == StatusCode::NO_CONTENT,
                "search_nodes_by_pattern"
                | "create_node_message"
                | "create_agbot_message"
                | "change_service_config_state" => status == StatusCode::BAD_REQUEST,
                "create_served_pattern" | "create_served_policy" => status == StatusCode::FORBIDDEN,
                _ => status == StatusCode::NOT_FOUND,
            };
            assert!(is_expected, "{} {absent}: {status} {response:?}", endpoint.method);
        }
    }
    world.must_be_untouched("a write to what is not there").await;
}

#[tokio::test]
async fn writes_without_the_right_change_nothing() {
    let mut world = World::new().await;
    let nobody = CALLERS[CALLERS.len() - 1];
    let outsiders = OUTSIDERS.into_iter().chain([nobody, caller("acme/nobody")]);
    // Requests that every caller may make.
    let open = ["list_my_organizations", "create_node_message", "create_agbot_message"];
    for outsider in outsiders {
        for endpoint in routes::all() {
            let asks = endpoint.method == Method::GET || open.contains(&endpoint.operation);
            if asks
                || !endpoint.paths[0].contains("{organization}")
                || endpoint.paths[0].ends_with("AgentFileVersion")
            {
                continue;
            }
            let path = request::path(&world, &endpoint, endpoint.paths[0], AIM);
            let body = request::body(&endpoint, AIM);
            let (status, response) = world.call(outsider, &endpoint.method, &path, body.as_ref()).await;
            let is_refused =
                matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND);
            assert!(is_refused, "{} {path} as {}: {status} {response:?}", endpoint.method, outsider.title);
        }
        world.must_be_untouched(&format!("a write by {}", outsider.title)).await;
    }
}

#[tokio::test]
async fn names_that_are_taken_are_refused() {
    let mut world = World::new().await;
    let node = json!({"token": "t", "name": "n", "pattern": "", "publicKey": ""});
    let agbot = json!({"token": "t", "name": "n", "publicKey": ""});
    let user = json!({"password": "p", "email": "e"});
    let of = |operation: &str| request::body_of(operation, AIM);
    let served_pattern = json!({"patternOrgid": "acme", "pattern": "private", "nodeOrgid": "acme"});
    let served_policy = json!({"businessPolOrgid": "acme", "businessPol": "pol", "nodeOrgid": "acme"});
    let put = Method::PUT;
    let post = Method::POST;
    let organization = of("create_organization");
    for (method, path, body, expected) in [
        (&post, "/orgs/acme", organization, 409),
        (&post, "/orgs/acme/services", request::service("private", "l", false), 403),
        (&post, "/orgs/acme/patterns/private", of("create_pattern"), 403),
        (&post, "/orgs/acme/business/policies/pol", of("create_deployment_policy"), 403),
        (&post, "/orgs/acme/managementpolicies/pol", of("create_management_policy"), 403),
        (&post, "/orgs/acme/agbots/bot/patterns", served_pattern, 409),
        (&post, "/orgs/acme/agbots/bot/businesspols", served_policy, 409),
        (&post, "/orgs/acme/hagroups/grp", json!({}), 409),
        (&post, "/orgs/acme/hagroups/fresh", json!({"members": ["n2", "n1"]}), 409),
        (&post, "/orgs/acme/hagroups/grp/nodes/n1", Value::Null, 409),
        (&post, "/orgs/acme/users/olga", user.clone(), 400),
        (&put, "/orgs/acme/nodes/olga", node.clone(), 409),
        (&put, "/orgs/acme/nodes/bot", node, 409),
        (&put, "/orgs/acme/agbots/n1", agbot.clone(), 409),
        (&put, "/orgs/acme/agbots/olga", agbot, 409),
        (&post, "/orgs/acme/users/n1", user.clone(), 409),
        (&post, "/orgs/acme/users/bot", user, 409),
    ] {
        let body = (!body.is_null()).then_some(body);
        let (status, response) = world.call(ROOT, method, path, body.as_ref()).await;
        assert_eq!(status.as_u16(), expected, "{method} {path}: {response:?}");
    }
    world.must_be_untouched("a name that is taken").await;
}

#[tokio::test]
async fn services_of_a_pattern_are_checked_however_it_is_written() {
    let mut world = World::new().await;
    let service = |versions: Value| json!([{"serviceUrl": "public.svc", "serviceOrgid": HOME, "serviceArch": "amd64", "serviceVersions": versions}]);
    let unsigned = json!([{"version": "1.0.0", "deployment_overrides": "{}"}]);
    for versions in
        [Value::Null, json!([]), json!([{"version": "1.0.x"}]), json!([{"version": "9.9.9"}]), unsigned]
    {
        let services = service(versions);
        let whole = json!({"label": "l", "services": services});
        for (method, path, body) in [
            (Method::POST, "/orgs/acme/patterns/fresh", &whole),
            (Method::PUT, "/orgs/acme/patterns/private", &whole),
            (Method::PATCH, "/orgs/acme/patterns/private", &json!({"services": services})),
        ] {
            let (status, response) = world.call(ROOT, &method, path, Some(body)).await;
            assert_eq!(status, StatusCode::BAD_REQUEST, "{method} {services}: {response:?}");
        }
        // Members that accompany another attribute are validated, too.
        if services[0]["serviceVersions"] != json!([{"version": "9.9.9"}]) {
            let both = json!({"label": "other", "services": services});
            let (status, response) =
                world.call(ROOT, &Method::PATCH, "/orgs/acme/patterns/private", Some(&both)).await;
            assert_eq!(status, StatusCode::BAD_REQUEST, "{services}: {response:?}");
        }
    }
    world.must_be_untouched("a pattern with a wrong service").await;
}

/// Ids as they stand in a path, and what they mean.
const ODD_IDS: [(&str, &str); 9] = [
    ("a%2Fb", "a/b"),
    ("..%2F..%2Fetc", "../../etc"),
    ("%0A%1B%5B2J%7F", "\n\u{1b}[2J\u{7f}"),
    ("x'%3B%20DROP%20TABLE%20node%3B--", "x'; DROP TABLE node;--"),
    ("%25%5F%25", "%_%"),
    ("%22%3E%3Cscript%3E", "\"><script>"),
    ("%E2%80%AE%F0%9F%9A%80", "\u{202e}\u{1f680}"),
    ("%7B%24%7D", "{$}"),
    ("%20", " "),
];

#[tokio::test]
async fn odd_ids_are_plain_ids() {
    let mut world = World::new().await;
    for (written, meant) in ODD_IDS {
        let path = format!("/orgs/acme/nodes/{written}");
        let (status, _) = world.call(ROOT, &Method::GET, &path, None).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{meant:?} is not there");
        let node = json!({"token": "t", "name": meant, "pattern": "", "publicKey": "k"});
        let (status, response) = world.call(ROOT, &Method::PUT, &path, Some(&node)).await;
        assert_eq!(status, StatusCode::CREATED, "{meant:?}: {response:?}");
        let (status, response) = world.call(ROOT, &Method::GET, &path, None).await;
        assert_eq!(status, StatusCode::OK, "{meant:?}");
        let response: Value = serde_json::from_slice(&response).expect("JSON");
        let names: Vec<&String> = response["nodes"].as_object().expect("nodes").keys().collect();
        assert_eq!(names, [&format!("acme/{meant}")]);
        // The others are where they were: the id is not a pattern, a statement or a path.
        for (other, status) in [("n1", StatusCode::OK), ("nothing", StatusCode::NOT_FOUND)] {
            let path = format!("/orgs/acme/nodes/{other}");
            assert_eq!(
                world.call(ROOT, &Method::GET, &path, None).await.0,
                status,
                "{other} beside {meant:?}"
            );
        }
        let (status, _) = world.call(ROOT, &Method::DELETE, &path, None).await;
        assert_eq!(status, StatusCode::NO_CONTENT, "{meant:?}");
    }
    world.must_be_untouched("a node with an odd id that came and went").await;
}

#[tokio::test]
async fn impossible_ids_are_refused_everywhere() {
    let mut world = World::new().await;
    let long = "a".repeat(1_025);
    for endpoint in routes::all().into_iter().filter(|endpoint| endpoint.paths[0].contains('{')) {
        let template = endpoint.paths[0];
        for impossible in ["a%00b", "%FF%FE", "%C0%AF", long.as_str()] {
            let path: String = template
                .split('/')
                .map(|segment| if segment.starts_with('{') { impossible } else { segment })
                .collect::<Vec<_>>()
                .join("/");
            let body = request::body(&endpoint, AIM);
            let (status, response) = world.call(ROOT, &endpoint.method, &path, body.as_ref()).await;
            assert_eq!(
                status,
                StatusCode::BAD_REQUEST,
                "{} {template} {impossible:.20}: {response:?}",
                endpoint.method
            );
        }
    }
    world.must_be_untouched("an impossible id").await;
}
