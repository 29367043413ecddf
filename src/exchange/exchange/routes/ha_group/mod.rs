//! HA groups: the deployed routes, whose groups are named in the path, and the forms of requirement 004, whose groups
//! are named in the body.
//!
//! Source: exchange-api 6; requirements 004 ("Exchange APIs"); orchestration E2.

mod change_group;
mod form;
mod read;
mod write;

use evenkeel_exchange_store::audit_state::Subject;
use evenkeel_wire::exchange::utility::ApiResponse;

use crate::operation::Operation;
use crate::operation::row::{delete, get, post, put};

const TAG: &str = "HA groups";
const ALL: &str = "/orgs/{organization}/hagroups";
const ONE: &str = "/orgs/{organization}/hagroups/{hagroup}";
const MEMBER: &str = "/orgs/{organization}/hagroups/{hagroup}/nodes/{node}";
const STATUS: &str = "/orgs/{organization}/hagroups/{hagroup}/managementStatus/{managementpolicy}";
const ALL_DOCUMENTS: &str = "/org/{organization}/hagroups";
const ONE_DOCUMENT: &str = "/org/{organization}/hagroups/{hagroup}";

/// The routes of this module.
pub fn operations() -> Vec<Operation> {
    let mut all = group_operations();
    all.extend(document_operations().into_iter().map(Operation::at_root_too));
    all
}

fn group_operations() -> Vec<Operation> {
    vec![
        get(ALL, "list_ha_groups", read::list_ha_groups)
            .doc(TAG, "Lists the HA groups of an organization")
            .success("the groups")
            .empty("none"),
        get(ONE, "get_ha_group", read::get_ha_group)
            .doc(TAG, "Returns one HA group")
            .success("the group")
            .empty("there is none"),
        post(ONE, "create_ha_group", write::create_ha_group)
            .doc(TAG, "Creates an HA group with its members, all or nothing")
            .creates()
            .audit(Subject::HaGroup)
            .success("created")
            .response::<ApiResponse>(
                409,
                "the group exists, or a node is in a group already: the message names both",
            ),
        put(ONE, "update_ha_group", write::update_ha_group)
            .doc(TAG, "Replaces the members of an HA group, or its description, or both")
            .audit(Subject::HaGroup)
            .success("changed")
            .response::<ApiResponse>(409, "a node is in another group: the message names both"),
        delete(ONE, "delete_ha_group", write::delete_ha_group)
            .doc(TAG, "Deletes an HA group; its nodes stay")
            .audit(Subject::HaGroup)
            .success("deleted"),
        post(MEMBER, "add_ha_group_node", write::add_ha_group_node)
            .doc(TAG, "Puts one node into an HA group")
            .audit(Subject::HaGroup)
            .success("it is in the group")
            .response::<ApiResponse>(409, "the node is in a group already: the text names it"),
        delete(MEMBER, "remove_ha_group_node", write::remove_ha_group_node)
            .doc(TAG, "Takes one node out of an HA group")
            .audit(Subject::HaGroup)
            .keeps_resource()
            .success("the node is no longer in the group"),
        get(STATUS, "get_ha_group_management_status", read::get_management_status)
            .doc(TAG, "Returns the progress of a management policy on the members of an HA group")
            .success("the members")
            .response::<ApiResponse>(404, "there is no such group, or it has no member"),
    ]
}

fn document_operations() -> Vec<Operation> {
    vec![
        get(ALL_DOCUMENTS, "list_ha_group_documents", read::list_ha_group_documents)
            .doc(TAG, "Lists the HA groups of an organization as documents")
            .success("the groups")
            .empty("none"),
        get(ONE_DOCUMENT, "get_ha_group_document", read::get_ha_group_document)
            .doc(TAG, "Returns one HA group as a document")
            .success("the group")
            .empty("there is none"),
        post(ALL_DOCUMENTS, "create_ha_group_document", write::create_ha_group_document)
            .doc(TAG, "Creates the HA group that the document names, with its members, all or nothing")
            .creates()
            .success("created")
            .response::<ApiResponse>(
                409,
                "the group exists, or a node is in a group already: the message names both",
            ),
        put(ALL_DOCUMENTS, "replace_ha_group_document", write::replace_ha_group_document)
            .doc(TAG, "Replaces the members of the HA group that the document names")
            .success("replaced")
            .response::<ApiResponse>(409, "a node is in another group: the message names both"),
        delete(ONE_DOCUMENT, "delete_ha_group_document", write::delete_ha_group)
            .doc(TAG, "Deletes an HA group; its nodes stay")
            .audit(Subject::HaGroup)
            .success("deleted"),
    ]
}
