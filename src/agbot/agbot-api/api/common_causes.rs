//! Values that selected nodes of an organization have in common.

use axum::Json;
use evenkeel_api::{OrgPath, Refusal};
use evenkeel_domain::object::Members;
use evenkeel_domain::orchestration::MembersError;
use evenkeel_planner_model::model::{FleetFilter, Reach};
use evenkeel_planner_record::facts::Availability;
use evenkeel_wire::agbot::common::{CommonCauses, CommonCausesQuery};
use evenkeel_wire::agbot::fleet::FleetNodesQuery;

use super::fleet::filter_of;
use super::list_page;
use super::parameters::{Named, NamedQuery, Parameters, known};
use super::permission::{Permission, right};
use super::pipeline::{AgbotRequest, Op};
use crate::shown::common::common_causes;

const MOST_VALUES: i64 = 50;
const VALUES: u16 = 10;

impl NamedQuery for CommonCausesQuery {
    const KNOWN: Members = known(&["state", "availability", "group", "filter", "limit"]);

    fn take(parameters: &mut Parameters) -> Result<Self, MembersError> {
        let limit = parameters.number("limit", 1..=MOST_VALUES)?;
        Ok(Self {
            state: parameters.word("state", &Reach::NAMES)?,
            availability: parameters.word("availability", &Availability::NAMES)?,
            group: parameters.text("group")?,
            filter: list_page::filter(parameters)?,
            limit: limit.and_then(|limit| u16::try_from(limit).ok()),
        })
    }
}

/// Returns what the nodes that a query selects have in common.
pub(super) async fn get_common_causes(
    op: Op<OrgPath>,
    permission: Permission<right::NodesRead>,
    Named(query): Named<CommonCausesQuery>,
) -> Result<Json<CommonCauses>, Refusal> {
    let Op { request: AgbotRequest { context, kept, .. }, path: OrgPath { org }, .. } = op;
    let seen = permission.into_proof();
    let limit = usize::from(query.limit.unwrap_or(VALUES));
    let question = format!("{org} {query:?}");
    let CommonCausesQuery { state, availability, group, filter, .. } = query;
    let selection = FleetNodesQuery { state, availability, group, filter, ..FleetNodesQuery::default() };
    let selected = filter_of(&org, &selection)?;
    // All nodes are no selection.
    let filter = match selected.is_of_all() {
        true => FleetFilter { reach: Some(Reach::Down), ..selected },
        false => selected,
    };
    let make = || {
        let (model, now) = (context.model(), context.now());
        let all = model.set_of_org(&org);
        let whole = seen.set(&model).map_or_else(|| all.clone(), |shown| all.and(&shown));
        let selected = model.set_of_fleet(&org, &filter, now).and(&whole);
        let found = model.common_causes(&selected, &whole, None, limit);
        Ok(common_causes(&found, "organization", "selected"))
    };
    kept.common.get(&seen, question, make).map(Json)
}
