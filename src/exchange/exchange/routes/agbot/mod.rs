//! Agbots and everything that belongs to them.
//!
//! Source: exchange-api 4.5.

mod agreement;
mod approval;
mod fencing;
mod message;
mod patch;
mod put;
mod read;
mod remove;
mod served_entry;
mod served_pattern;
mod served_policy;

use evenkeel_exchange_store::audit_state::Subject;
use evenkeel_wire::exchange::agbot::AgbotsResponse;
use evenkeel_wire::exchange::utility::ApiResponse;

use crate::operation::Operation;
use crate::operation::row::{delete, get, patch, post, put};

const TAG: &str = "agbot";
const AGBOTS: &str = "/orgs/{organization}/agbots";
const AGBOT: &str = "/orgs/{organization}/agbots/{agreementbot}";

/// The routes of this module.
pub fn operations() -> Vec<Operation> {
    let mut operations = vec![
        get(AGBOTS, "list_agbots", read::list_agbots)
            .doc(TAG, "Lists the agbots of an organization")
            .success("the agbots")
            .empty("no agbot fits"),
        get(AGBOT, "get_agbot", read::get_agbot)
            .doc(TAG, "Returns an agbot or one attribute of it")
            .response::<AgbotsResponse>(200, "the agbot"),
        put(AGBOT, "replace_agbot", put::replace_agbot)
            .doc(TAG, "Creates an agbot or replaces its attributes")
            .audit(Subject::Agbot)
            .success("created or replaced")
            .response::<ApiResponse>(409, "the name is taken by another kind of login"),
        patch(AGBOT, "patch_agbot", patch::patch_agbot)
            .doc(TAG, "Changes one attribute of an agbot")
            .audit(Subject::Agbot)
            .success("changed"),
        delete(AGBOT, "delete_agbot", remove::delete_agbot)
            .doc(TAG, "Removes an agbot with everything that belongs to it")
            .audit(Subject::Agbot)
            .success("removed"),
        post(
            "/orgs/{organization}/agbots/{agreementbot}/heartbeat",
            "heartbeat_agbot",
            read::heartbeat_agbot,
        )
        .doc(TAG, "Records a heartbeat of an agbot")
        .unaudited("a heartbeat: kept in memory and written in batches, nothing is decided by a single one")
        .success("taken"),
    ];
    operations.extend(agreement::operations());
    operations.extend(approval::operations());
    operations.extend(fencing::operations());
    operations.extend(served_pattern::operations());
    operations.extend(served_policy::operations());
    operations.extend(message::operations());
    operations
}
