//! HA groups: the deployed routes, whose groups are named in the path, and the document forms of the HA-group design, whose groups
//! are named in the body.
//!
//! Source: exchange contract section 6; HA-group design, "Exchange APIs"; orchestration contract E2.

mod change_group;
mod form;
mod read;
mod write;

use axum::routing::{delete, get, post, put};
use evenkeel_wire::exchange::ha_group::{
    HaGroupDocument, HaGroupForm, HaGroupStatusAnswer, HaGroupsAnswer, PutHaGroup,
};
use evenkeel_wire::exchange::utility::ApiResponse;
use http::Method;

use crate::endpoint::{Content, Endpoint, endpoint};

const TAG: &str = "HA groups";
const ALL: &str = "/orgs/{organization}/hagroups";
const ONE: &str = "/orgs/{organization}/hagroups/{hagroup}";
const MEMBER: &str = "/orgs/{organization}/hagroups/{hagroup}/nodes/{node}";
const STATUS: &str = "/orgs/{organization}/hagroups/{hagroup}/managementStatus/{managementpolicy}";
const ALL_DOCUMENTS: &str = "/org/{organization}/hagroups";
const ONE_DOCUMENT: &str = "/org/{organization}/hagroups/{hagroup}";

/// The routes of this module.
pub fn endpoints() -> Vec<Endpoint> {
    let mut all = group_endpoints();
    all.extend(document_endpoints().into_iter().map(Endpoint::at_root_too));
    all
}

fn group_endpoints() -> Vec<Endpoint> {
    vec![
        endpoint(Method::GET, ALL, "list_ha_groups", get(read::list_ha_groups))
            .doc(TAG, "Lists the HA groups of an organization")
            .query::<HaGroupForm>()
            .answer::<HaGroupsAnswer>(200, "the groups")
            .answer::<HaGroupsAnswer>(404, "none"),
        endpoint(Method::GET, ONE, "get_ha_group", get(read::get_ha_group))
            .doc(TAG, "Answers one HA group")
            .query::<HaGroupForm>()
            .answer::<HaGroupsAnswer>(200, "the group")
            .answer::<HaGroupsAnswer>(404, "there is none"),
        endpoint(Method::POST, ONE, "create_ha_group", post(write::create_ha_group))
            .doc(TAG, "Creates an HA group with its members, all or nothing")
            .body::<PutHaGroup>()
            .answer::<ApiResponse>(201, "created")
            .answer::<ApiResponse>(
                409,
                "the group exists, or a node is in a group already: the text names both",
            ),
        endpoint(Method::PUT, ONE, "update_ha_group", put(write::update_ha_group))
            .doc(TAG, "Replaces the members of an HA group, or its description, or both")
            .body::<PutHaGroup>()
            .answer::<ApiResponse>(201, "changed")
            .answer::<ApiResponse>(409, "a node is in another group: the text names both"),
        endpoint(Method::DELETE, ONE, "delete_ha_group", delete(write::delete_ha_group))
            .doc(TAG, "Deletes an HA group; its nodes stay")
            .answer_with(204, "deleted", Content::None),
        endpoint(Method::POST, MEMBER, "add_ha_group_node", post(write::add_ha_group_node))
            .doc(TAG, "Puts one node into an HA group")
            .answer::<ApiResponse>(201, "it is in the group")
            .answer::<ApiResponse>(409, "the node is in a group already: the text names it"),
        endpoint(Method::DELETE, MEMBER, "remove_ha_group_node", delete(write::remove_ha_group_node))
            .doc(TAG, "Takes one node out of an HA group")
            .answer_with(204, "it is in no group any more", Content::None),
        endpoint(Method::GET, STATUS, "get_ha_group_management_status", get(read::get_management_status))
            .doc(TAG, "Answers where a management policy stands on the members of an HA group")
            .answer::<HaGroupStatusAnswer>(200, "the members")
            .answer::<ApiResponse>(404, "there is no such group, or it has no member"),
    ]
}

fn document_endpoints() -> Vec<Endpoint> {
    vec![
        endpoint(Method::GET, ALL_DOCUMENTS, "list_ha_group_documents", get(read::list_ha_group_documents))
            .doc(TAG, "Lists the HA groups of an organization as documents")
            .answer::<HaGroupsAnswer>(200, "the groups")
            .answer::<HaGroupsAnswer>(404, "none"),
        endpoint(Method::GET, ONE_DOCUMENT, "get_ha_group_document", get(read::get_ha_group_document))
            .doc(TAG, "Answers one HA group as a document")
            .answer::<HaGroupsAnswer>(200, "the group")
            .answer::<HaGroupsAnswer>(404, "there is none"),
        endpoint(
            Method::POST,
            ALL_DOCUMENTS,
            "create_ha_group_document",
            post(write::create_ha_group_document),
        )
        .doc(TAG, "Creates the HA group that the document names, with its members, all or nothing")
        .body::<HaGroupDocument>()
        .answer::<ApiResponse>(201, "created")
        .answer::<ApiResponse>(409, "the group exists, or a node is in a group already: the text names both"),
        endpoint(
            Method::PUT,
            ALL_DOCUMENTS,
            "replace_ha_group_document",
            put(write::replace_ha_group_document),
        )
        .doc(TAG, "Replaces the members of the HA group that the document names")
        .body::<HaGroupDocument>()
        .answer::<ApiResponse>(201, "replaced")
        .answer::<ApiResponse>(409, "a node is in another group: the text names both"),
        endpoint(Method::DELETE, ONE_DOCUMENT, "delete_ha_group_document", delete(write::delete_ha_group))
            .doc(TAG, "Deletes an HA group; its nodes stay")
            .answer_with(204, "deleted", Content::None),
    ]
}
