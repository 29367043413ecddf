//! The agbot's own API: permission for agent upgrades, what it has agreed to, who holds claims, why (not), and
//! what administrators may do about rollouts and claims.
//!
//! Source: requirements 004 ("Agbot APIs"); agbot 3.3, 4.1; orchestration E5.5.

mod action_notes;
mod action_request;
mod actions;
mod administer;
mod agreements;
mod approved_plan;
mod attention;
mod audit;
mod blocklist;
mod caller;
mod common_causes;
mod event_stream;
mod explain;
mod fence;
mod fleet;
mod freshness;
mod health;
mod health_evaluation;
mod history;
mod kept;
mod known_properties;
mod lasting;
mod list_page;
mod list_reads;
mod login;
mod login_guard;
mod orchestration;
mod parameters;
mod path;
mod permission;
mod pipeline;
mod plan;
mod plan_approval;
mod plan_stops;
mod planned_write;
mod registration;
mod rollout_detail;
mod rollouts;
mod saved_views;
mod secrets;
mod status;
mod stop;
mod turns;
mod upgrade;
mod workload_events;

use std::sync::{Arc, OnceLock};

use axum::Router;
use evenkeel_agbot::{Agbot, Context};
use evenkeel_api::{Endpoint, Part, delete, get, post, put};
use evenkeel_wire::exchange::utility::ApiResponse;

pub use self::login_guard::LoginGuard;

use self::action_notes::ActionNotes;
use self::event_stream::NewestEvents;
use self::kept::KeptResponses;
use self::pipeline::{Operation, route};

const TAG: &str = "agbot";
/// Reasons for which operations leave no audit records.
const OF_NODES: &str = "a node asks for itself, again and again; its claim is in the events";
const ONLY_READS: &str = "it only reads";
const CLAIMS: &str = "/orgs/{organization}/hagroups/{hagroup}/upgrades";

/// The agbot's part of the API.
#[must_use]
pub fn part() -> Part {
    Part {
        operations: endpoints().iter().map(Endpoint::described).collect(),
        examples: &[include_str!("examples.json")],
    }
}

/// The API of an agbot that may still be starting: until it is ready, every response is 503.
///
/// So a hub can serve requests to its exchange before its agbot has created its keys.
#[derive(Clone, Default)]
pub struct AgbotApi {
    running: Arc<OnceLock<Running>>,
    /// None where the exchange of the same process limits failed logins.
    login_guard: Option<Arc<LoginGuard>>,
}

/// What the requests to a running agbot share.
struct Running {
    context: Arc<Context>,
    notes: Arc<ActionNotes>,
    newest_events: Arc<NewestEvents>,
    kept: Arc<KeptResponses>,
}

impl AgbotApi {
    /// Creates the API of an agbot whose exchange is elsewhere: it limits failed logins itself.
    #[must_use]
    pub fn guarded(login_guard: LoginGuard) -> AgbotApi {
        AgbotApi { login_guard: Some(Arc::new(login_guard)), ..AgbotApi::default() }
    }

    /// Creates the API of an agbot that runs.
    #[must_use]
    pub fn of(agbot: &Agbot) -> AgbotApi {
        let api = AgbotApi::default();
        api.open(agbot);
        api
    }

    /// From now on the agbot serves requests; a second call changes nothing.
    pub fn open(&self, agbot: &Agbot) {
        let running = Running {
            context: agbot.context().clone(),
            notes: Arc::default(),
            newest_events: Arc::default(),
            kept: Arc::default(),
        };
        if self.running.set(running).is_ok() {
            agbot.purge_acknowledgements(attention::problems);
        }
    }

    /// Returns true if the agbot runs and has read everything it serves at least once.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.running.get().is_some_and(|running| running.context.reading.is_loaded())
    }

    /// The routes: permission for agent upgrades, agreements, claims, reasons; with and without `/v1`.
    pub fn router(&self) -> Router {
        router(self.clone())
    }
}

fn router(api: AgbotApi) -> Router {
    let endpoints = endpoints();
    let below = |base: &str, router: Router<AgbotApi>| {
        endpoints.iter().fold(router, |router, endpoint| endpoint.mount(base, router, |_, _| route(endpoint)))
    };
    let secrets = secrets::routes("").merge(secrets::routes(evenkeel_api::PREFIX));
    below("", below(evenkeel_api::PREFIX, secrets)).with_state(api)
}

fn endpoints() -> Vec<Operation> {
    let mut all = upgrade_endpoints();
    all.extend(administration_endpoints());
    all.extend(status_endpoints());
    all.extend(user_endpoints());
    all.extend(plan_endpoints());
    all.extend(approval_endpoints());
    all.extend(orchestration_endpoints());
    all.extend(health_endpoints());
    all.extend(blocklist_endpoints());
    all.extend(registration_endpoints());
    all.into_iter().map(Endpoint::at_root_too).collect()
}

fn upgrade_endpoints() -> Vec<Operation> {
    vec![
        post("/org/{organization}/node/{node}/upgrade", "ask_for_upgrade", upgrade::upgrade_node)
            .doc(TAG, "Requests permission for a node to upgrade its agent now")
            .numbered_codes()
            .unaudited(OF_NODES)
            .success("granted: the node holds the claim of its group")
            .response::<ApiResponse>(404, "the management policy does not exist")
            .response::<ApiResponse>(409, "not now: another member holds the claim, or too few others run"),
        post(
            "/org/{organization}/hagroup/{hagroup}/nodemanagement/{node}/{nmp}",
            "ask_for_management",
            upgrade::manage_node,
        )
        .doc(TAG, "Requests permission for a member of a group to execute a management policy now")
        .numbered_codes()
        .unaudited(OF_NODES)
        .success("granted: the node holds the claim of its group")
        .response::<ApiResponse>(404, "the management policy does not exist")
        .response::<ApiResponse>(409, "not now: another member holds the claim, or too few others run"),
    ]
}

fn administration_endpoints() -> Vec<Operation> {
    vec![
        post(
            "/orgs/{organization}/agbot/rollouts/{policy}/{action}",
            "act_on_rollouts",
            administer::act_on_rollouts,
        )
        .doc(TAG, "Pauses, resumes, aborts, rolls back or retries the rollouts of a deployment policy")
        .success("the current state of the rollouts, and those to which the action does not apply")
        .response::<ApiResponse>(
            409,
            "the action applies to none of them now: the message states the reason",
        ),
        post(
            "/orgs/{organization}/agbot/agreements/{agreement}/confirm-stop",
            "confirm_stop",
            stop::confirm_stop,
        )
        .doc(TAG, "Records that the instance of an ended agreement no longer runs")
        .success("the instance counts as stopped")
        .response::<ApiResponse>(404, "no such agreement")
        .response::<ApiResponse>(409, "the agreement has not ended"),
        post(
            "/orgs/{organization}/nodes/{node}/actions/fence-confirm",
            "confirm_fence",
            fence::confirm_fence,
        )
        .doc(
            TAG,
            "Records that nothing runs on a node that is down, so that its instances may start elsewhere",
        )
        .success("the deployment policies that may start elsewhere")
        .response::<ApiResponse>(404, "no such node")
        .response::<ApiResponse>(409, "the node is not down"),
        delete(CLAIMS, "free_claims", administer::free_claims)
            .doc(TAG, "Releases the claims of a group, or those that the query names")
            .success("the released claims"),
        delete(
            "/orgs/{organization}/hagroups/{hagroup}/upgrades/{node}",
            "free_claims_of_member",
            administer::free_claims_of_member,
        )
        .doc(TAG, "Releases the claims that a member of a group holds")
        .success("the released claims"),
    ]
}

fn status_endpoints() -> Vec<Operation> {
    vec![
        get(CLAIMS, "list_upgrades", status::list_upgrades)
            .doc(TAG, "Returns the claims of a group with their holders, and the members that wait for them")
            .success("the claims and the waiting members")
            .response::<ApiResponse>(404, "the HA group does not exist"),
        get("/orgs/{organization}/agbot/agreements", "list_agreements", agreements::list_agreements)
            .doc(TAG, "Lists the agbot's agreements with the nodes of an organization")
            .success("the agreements"),
        get("/orgs/{organization}/agbot/reasons", "list_reasons", status::list_reasons)
            .doc(TAG, "Returns the state of each pair of node and deployment policy, with the reason")
            .success("the pairs"),
        get("/orgs/{organization}/agbot/rollouts", "list_rollouts", rollouts::list_rollouts)
            .doc(TAG, "Lists the rollouts through the groups of an organization")
            .success("the rollouts"),
        get("/orgs/{organization}/agbot/rollouts/{policy}", "get_rollout", rollout_detail::get_rollout)
            .doc(TAG, "Returns the rollout of a deployment policy in detail: waves, steps, the time left, and what failing nodes have in common")
            .success("the rollout")
            .response::<ApiResponse>(404, "the policy does not exist or has no rollout"),
        get("/orgs/{organization}/agbot/events", "list_events", status::list_events)
            .doc(TAG, "Lists recent events of the agbot, newest first")
            .success("the events"),
        get("/orgs/{organization}/agbot/nodes", "list_fleet_nodes", fleet::list_fleet_nodes)
            .doc(TAG, "Lists nodes with their state and the number of their instances, page by page")
            .success("the nodes"),
        get(
            "/orgs/{organization}/agbot/nodes/common",
            "get_common_causes",
            common_causes::get_common_causes,
        )
        .doc(TAG, "Returns what selected nodes, or else those that are down, have in common that is less frequent among all nodes of the organization")
        .success("the common values"),
        get("/orgs/{organization}/agbot/policies", "list_fleet_policies", fleet::list_fleet_policies)
            .doc(TAG, "Lists deployment policies with their availability and their update, page by page")
            .success("the policies"),
        get("/orgs/{organization}/agbot/overview", "get_fleet_overview", fleet::get_fleet_overview)
            .doc(TAG, "Returns numbers of nodes, instances and rollouts, and what does not go on by itself")
            .success("the overview"),
        get(
            "/orgs/{organization}/agbot/nodes/properties",
            "list_known_properties",
            known_properties::list_known_properties,
        )
        .doc(TAG, "Lists the names, operators and values of properties of nodes, to complete a constraint")
        .success("the properties"),
        get("/orgs/{organization}/agbot/domains", "list_fleet_domains", known_properties::list_fleet_domains)
            .doc(TAG, "Lists the fault domains of an organization with their nodes, instances and capacities")
            .success("the domains"),
        get("/orgs/{organization}/agbot/history", "list_history", history::list_history)
            .doc(TAG, "Lists the tasks, agreements, claims and conditions of nodes at an instant, page by page")
            .success("the states"),
        get("/orgs/{organization}/agbot/history/diff", "diff_history", history::diff_history)
            .doc(TAG, "Lists the differences of tasks, agreements, claims and conditions of nodes between two instants, page by page")
            .success("the differences"),
        get("/agbot/status", "get_agbot_status", status::get_agbot_status)
            .doc(TAG, "Returns the health of the agbot")
            .success("its health"),
    ]
}

/// Operations of the console and of `hzn` that keep what users say about the fleet.
fn user_endpoints() -> Vec<Operation> {
    const VIEW: &str = "/orgs/{organization}/agbot/views/{view}";
    const ACKNOWLEDGEMENT: &str = "/orgs/{organization}/agbot/attention/{matter}/acknowledgement";
    vec![
        get("/orgs/{organization}/agbot/views", "list_saved_views", saved_views::list_saved_views)
            .doc(TAG, "Lists the saved views of an organization: selections of nodes under a name")
            .success("the views"),
        put(VIEW, "replace_saved_view", saved_views::replace_saved_view)
            .doc(TAG, "Saves a selection of nodes under a name")
            .success("the view is saved")
            .response::<ApiResponse>(409, "there are too many views"),
        delete(VIEW, "delete_saved_view", saved_views::delete_saved_view)
            .doc(TAG, "Removes a saved view")
            .success("the view is removed")
            .response::<ApiResponse>(404, "there is no such view of the caller"),
        put(ACKNOWLEDGEMENT, "acknowledge_matter", attention::acknowledge_matter)
            .doc(TAG, "Acknowledges a problem that a person has to resolve, until its cause changes, it is resolved, or 7 days have passed")
            .success("the problem is acknowledged")
            .response::<ApiResponse>(404, "there is no such problem, or its cause has changed")
            .response::<ApiResponse>(409, "there are too many acknowledgements"),
        delete(ACKNOWLEDGEMENT, "withdraw_acknowledgement", attention::withdraw_acknowledgement)
            .doc(TAG, "Withdraws the acknowledgement of a problem")
            .success("the problem is no longer acknowledged")
            .response::<ApiResponse>(404, "there is no such problem, or it is not acknowledged"),
    ]
}

fn plan_endpoints() -> Vec<Operation> {
    vec![
        post(
            "/orgs/{organization}/business/policies/{policy}/plan",
            "plan_deployment_policy",
            plan::plan_deployment_policy,
        )
        .alias("/orgs/{organization}/deployment/policies/{policy}/plan")
        .unaudited(ONLY_READS)
        .doc(TAG, "Plans a write of a deployment policy: returns the instances that it would create, replace, move and stop, in order, and changes nothing")
        .success("the changes, the steps that would still be blocked, and a token of the plan")
        .response::<ApiResponse>(404, "the policy does not exist or is not served")
        .response::<ApiResponse>(409, "nodes have tasks of the policy, so that mode and scope.type cannot change"),
        post("/orgs/{organization}/orchestration/stops", "plan_stops", plan_stops::plan_stops)
            .unaudited(ONLY_READS)
            .doc(TAG, "Plans a write of something that deployment policies depend on: returns the instances that it would stop without a replacement, and changes nothing")
            .success("the deployment policies that would lose instances")
            .response::<ApiResponse>(404, "this agbot does not serve the node"),
    ]
}

fn approval_endpoints() -> Vec<Operation> {
    vec![
        post(
            "/orgs/{organization}/agbot/approvals",
            "request_plan_approval",
            plan_approval::request_plan_approval,
        )
        .unaudited("the exchange records the request that it keeps")
        .doc(TAG, "Plans a write and requests that a second person approves it")
        .success("the request with its plan")
        .response::<ApiResponse>(404, "what the write is about does not exist or is not served")
        .response::<ApiResponse>(409, "the write is not possible now, or too many requests are open"),
        post(
            "/orgs/{organization}/agbot/approvals/{approval}/apply",
            "apply_plan_approval",
            plan_approval::apply_plan_approval,
        )
        .doc(TAG, "Carries out an approved write once, if its plan still holds")
        .success("the write is carried out, or the action accepted")
        .response::<ApiResponse>(404, "there is no such request")
        .response::<ApiResponse>(
            409,
            "it is not approved, or its plan no longer holds: the message states the difference",
        ),
    ]
}

fn orchestration_endpoints() -> Vec<Operation> {
    vec![
        get(
            "/orgs/{organization}/business/policies/{policy}/orchestration",
            "get_orchestration",
            orchestration::get_orchestration,
        )
        .alias("/orgs/{organization}/deployment/policies/{policy}/orchestration")
        .doc(TAG, "Returns the runtime status of a deployment policy: its current and wanted instances with their nodes")
        .success("the status"),
        get(
            "/orgs/{organization}/business/policies/{policy}/tasks",
            "list_tasks",
            orchestration::list_tasks,
        )
        .alias("/orgs/{organization}/deployment/policies/{policy}/tasks")
        .doc(TAG, "Lists the tasks of a deployment policy: attempts to run an instance in a slot")
        .success("the tasks"),
        get(
            "/orgs/{organization}/business/policies/{policy}/events",
            "list_policy_events",
            workload_events::list_policy_events,
        )
        .alias("/orgs/{organization}/deployment/policies/{policy}/events")
        .doc(TAG, "Lists the events about a deployment policy, ordered by sequence number")
        .success("the events"),
        get(
            "/orgs/{organization}/business/policies/{policy}/explain",
            "explain_policy",
            explain::explain_policy,
        )
        .alias("/orgs/{organization}/deployment/policies/{policy}/explain")
        .doc(TAG, "Explains the placement of the instances of a deployment policy")
        .success("the constraints in their order, and the nodes that each removed"),
        post(
            "/orgs/{organization}/business/policies/{policy}/actions/{action}",
            "act_on_policy",
            actions::act_on_policy,
        )
        .alias("/orgs/{organization}/deployment/policies/{policy}/actions/{action}")
        .doc(TAG, "Starts, stops, freezes or thaws a deployment policy, clears its failures, or pauses, resumes or rolls back its update")
        .success("the action is accepted")
        .response::<ApiResponse>(409, "the current state does not allow the action: the message states the reason"),
        get(
            "/orgs/{organization}/business/policies/{policy}/actions/{action}",
            "get_action",
            actions::get_action,
        )
        .alias("/orgs/{organization}/deployment/policies/{policy}/actions/{action}")
        .doc(TAG, "Returns the progress of an action on a deployment policy")
        .success("the action"),
        get(
            "/orgs/{organization}/orchestration/events",
            "list_orchestration_events",
            workload_events::list_orchestration_events,
        )
        .doc(TAG, "Lists the events about the deployment policies and nodes of an organization, ordered by sequence number")
        .success("the events"),
        get(
            "/orgs/{organization}/orchestration/events/stream",
            "stream_orchestration_events",
            event_stream::stream_events,
        )
        .header("Last-Event-ID", "Number of the last event seen; it precedes `since`.", "42")
        .doc(TAG, "Sends the events of an organization as server-sent events, from a number or from now on")
        .success("one event each, named by its kind; `gap` first when events before it are gone"),
    ]
}

fn health_endpoints() -> Vec<Operation> {
    const ORG: &str = "/orgs/{organization}/health";
    const NODE: &str = "/orgs/{organization}/nodes/{node}/health";
    const GROUP: &str = "/orgs/{organization}/hagroups/{hagroup}/health";
    const POLICY: &str = "/orgs/{organization}/business/policies/{policy}/health";
    const POLICY_ALIAS: &str = "/orgs/{organization}/deployment/policies/{policy}/health";
    const UNIT: &str = "/orgs/{organization}/business/policies/{policy}/units/{unit}/health";
    const UNIT_ALIAS: &str = "/orgs/{organization}/deployment/policies/{policy}/units/{unit}/health";
    const INSTANCE: &str = "/orgs/{organization}/business/policies/{policy}/instances/{node}/health";
    const INSTANCE_ALIAS: &str = "/orgs/{organization}/deployment/policies/{policy}/instances/{node}/health";
    let reported = |operation: Operation, about: &'static str| {
        operation
            .doc(TAG, about)
            .success("reported, or repeated")
            .response::<ApiResponse>(404, "it does not exist")
            .response::<ApiResponse>(409, "a newer report is known, or there are too many events")
    };
    let evaluated = |operation: Operation, about: &'static str| {
        operation.doc(TAG, about).success("its health").response::<ApiResponse>(404, "it does not exist")
    };
    vec![
        reported(post(ORG, "report_org_health", health::report_on_org), "Reports about an organization"),
        reported(post(NODE, "report_node_health", health::report_on_node), "Reports about a node"),
        reported(post(GROUP, "report_group_health", health::report_on_group), "Reports about an HA group"),
        reported(
            post(POLICY, "report_policy_health", health::report_on_policy).alias(POLICY_ALIAS),
            "Reports about a deployment policy",
        ),
        reported(
            post(UNIT, "report_unit_health", health::report_on_unit).alias(UNIT_ALIAS),
            "Reports about a workload unit of a deployment policy",
        ),
        reported(
            post(INSTANCE, "report_instance_health", health::report_on_instance).alias(INSTANCE_ALIAS),
            "Reports about the instance of a deployment policy on a node",
        ),
        evaluated(
            get(ORG, "get_org_health", health_evaluation::get_org_health),
            "Evaluates the health of an organization from its own events and from its entities",
        ),
        evaluated(
            get(NODE, "get_node_health", health_evaluation::get_node_health),
            "Evaluates the health of a node",
        ),
        evaluated(
            get(GROUP, "get_group_health", health_evaluation::get_group_health),
            "Evaluates the health of an HA group",
        ),
        evaluated(
            get(POLICY, "get_policy_health", health_evaluation::get_policy_health).alias(POLICY_ALIAS),
            "Evaluates the health of a deployment policy",
        ),
        evaluated(
            get(UNIT, "get_unit_health", health_evaluation::get_unit_health).alias(UNIT_ALIAS),
            "Evaluates the health of a workload unit of a deployment policy",
        ),
        evaluated(
            get(INSTANCE, "get_instance_health", health_evaluation::get_instance_health)
                .alias(INSTANCE_ALIAS),
            "Evaluates the health of the instance of a deployment policy on a node",
        ),
    ]
}

fn blocklist_endpoints() -> Vec<Operation> {
    const BLOCKLIST: &str = "/orgs/{organization}/blocklist";
    vec![
        get(BLOCKLIST, "list_blocklist", blocklist::list_blocklist)
            .doc(TAG, "Lists the nodes on which a service version is blocked because it keeps failing there")
            .success("the entries"),
        delete(BLOCKLIST, "clear_blocklist", blocklist::clear_blocklist)
            .doc(TAG, "Unblocks services on nodes on which they kept failing")
            .success("the entries that blocked their nodes"),
    ]
}

fn registration_endpoints() -> Vec<Operation> {
    vec![
        get(
            "/orgs/{organization}/health/registry",
            "list_health_registry",
            registration::list_health_registry,
        )
        .doc(
            TAG,
            "Lists the HA groups and deployment policies with a health policy, and the agbots that check them",
        )
        .success("the registrations"),
        post(
            "/orgs/{organization}/hagroups/{hagroup}/actions/recover",
            "recover_ha_group",
            registration::recover_ha_group,
        )
        .doc(TAG, "Recovers members of an HA group by its health policy")
        .success("the action is accepted")
        .response::<ApiResponse>(404, "the HA group does not exist, or the node is not one of its members")
        .response::<ApiResponse>(409, "the current state does not allow the action: the message states the reason"),
        get(
            "/orgs/{organization}/hagroups/{hagroup}/actions/{action}",
            "get_ha_group_action",
            registration::get_group_action,
        )
        .doc(TAG, "Returns the progress of an action on an HA group")
        .success("the action")
        .response::<ApiResponse>(404, "there is no such action"),
    ]
}

/// The body of a request that was carried out.
fn done(message: impl Into<String>) -> ApiResponse {
    ApiResponse { code: "ok".to_owned(), msg: message.into() }
}

#[cfg(test)]
mod tests {
    use evenkeel_api::CodeForm;
    use http::Method;

    use super::*;

    #[test]
    fn deployed_agents_get_codes_that_are_numbers() {
        for operation in endpoints() {
            let is_of_agents = operation.paths[0].starts_with("/org/");
            assert_eq!(operation.codes == CodeForm::Number, is_of_agents, "{}", operation.operation);
        }
    }

    #[test]
    fn every_write_is_recorded_or_says_why_not() {
        for operation in endpoints().iter().filter(|operation| operation.method != Method::GET) {
            // The exchange records the requests of approvals that it keeps.
            let is_request = operation.operation == "request_plan_approval";
            let is_of_rights = !["PolicyRead", "NodeItself"].contains(&operation.access.name());
            assert_eq!(operation.is_audited(), is_of_rights && !is_request, "{}", operation.operation);
        }
    }

    #[test]
    fn every_response_is_described() {
        for operation in part().operations {
            for response in &operation.responses {
                assert!(!response.description.is_empty(), "{} {}", operation.operation, response.status);
            }
        }
    }
}
