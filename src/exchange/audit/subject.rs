//! Which resource a path is about: the rows whose state is hashed into the audit record.

use evenkeel_exchange_store::audit::Subject;

/// The resource of a write by the template of its path and the values of its parameters; `None` when the path does not name it, or
/// when it has no state of its own (messages, actions).
///
/// # Shape
/// `template`: below `/v1`, parameters in braces. `parameters`: in the order of the path.
pub(super) fn subject(template: &str, parameters: &[String]) -> Option<Subject> {
    let mut segments = template.split('/').skip(1);
    let root = segments.next()?;
    if !matches!(root, "orgs" | "org" | "catalog") || segments.next()? != "{organization}" {
        return None;
    }
    let rest: Vec<&str> = segments.filter(|segment| !segment.starts_with('{')).collect();
    let (org, ids) = parameters.split_first()?;
    let kind = kind(&rest, ids.len())?;
    let (id, part) = match kind {
        "organization" | "agent_file_version" => (org.clone(), String::new()),
        // The member is in the group: its own name is no part of the state.
        "ha_group" => (ids.first()?.clone(), String::new()),
        _ => (ids.first()?.clone(), ids.get(1).cloned().unwrap_or_default()),
    };
    Some(Subject { kind, org: org.clone(), id, part })
}

fn kind(words: &[&str], ids: usize) -> Option<&'static str> {
    Some(match words {
        [] => "organization",
        ["AgentFileVersion"] => "agent_file_version",
        ["users"] | ["users", "changepw"] => "account",
        ["users", "apikeys"] => "api_key",
        ["nodes"] | ["nodes", "services_configstate"] => "node",
        ["nodes", "orchestration", "spec"] => "node_orchestration",
        ["nodes", "policy"] => "node_policy",
        ["nodes", "status"] => "node_status",
        ["nodes", "errors"] => "node_error",
        ["nodes", "agreements"] => "node_agreement",
        ["nodes", "managementStatus"] => "node_management_status",
        ["agbots"] => "agbot",
        ["agbots", "agreements"] => "agbot_agreement",
        ["agbots", "patterns"] | ["agbots", "deployment", "patterns"] => "agbot_pattern",
        ["agbots", "businesspols"] | ["agbots", "deployment", "policy"] => "agbot_policy",
        ["hagroups"] | ["hagroups", "nodes"] if ids > 0 => "ha_group",
        ["services"] if ids > 0 => "service",
        ["services", "policy"] => "service_policy",
        ["services", "keys"] => "service_key",
        ["services", "dockauths"] => "service_dockauth",
        ["patterns"] | ["deployment", "patterns"] => "pattern",
        ["patterns", "keys"] | ["deployment", "patterns", "keys"] => "pattern_key",
        ["business" | "deployment", "policies"] => "deployment_policy",
        ["managementpolicies"] => "management_policy",
        _ => return None,
    })
}

/// A whole resource that a POST creates: it succeeds only when there was none.
pub(super) fn is_created_whole(kind: &str) -> bool {
    matches!(
        kind,
        "organization"
            | "account"
            | "ha_group"
            | "service"
            | "pattern"
            | "deployment_policy"
            | "management_policy"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(template: &str, parameters: &[&str]) -> Option<(&'static str, String, String)> {
        let parameters: Vec<String> = parameters.iter().map(|text| (*text).to_owned()).collect();
        subject(template, &parameters).map(|subject| (subject.kind, subject.id, subject.part))
    }

    #[test]
    fn path_names_kind_id_and_part() {
        for (template, parameters, kind, id, part) in [
            ("/orgs/{organization}", &["o"] as &[&str], "organization", "o", ""),
            ("/orgs/{organization}/nodes/{node}", &["o", "n"], "node", "n", ""),
            (
                "/orgs/{organization}/nodes/{node}/orchestration/spec",
                &["o", "n"],
                "node_orchestration",
                "n",
                "",
            ),
            (
                "/orgs/{organization}/nodes/{node}/agreements/{agreement}",
                &["o", "n", "a"],
                "node_agreement",
                "n",
                "a",
            ),
            (
                "/orgs/{organization}/agbots/{agreementbot}/deployment/policy/{entry}",
                &["o", "b", "e"],
                "agbot_policy",
                "b",
                "e",
            ),
            ("/orgs/{organization}/hagroups/{hagroup}/nodes/{node}", &["o", "g", "n"], "ha_group", "g", ""),
            ("/org/{organization}/hagroups/{hagroup}", &["o", "g"], "ha_group", "g", ""),
            (
                "/orgs/{organization}/deployment/patterns/{pattern}/keys/{key}",
                &["o", "p", "k"],
                "pattern_key",
                "p",
                "k",
            ),
            ("/orgs/{organization}/users/{username}/apikeys", &["o", "u"], "api_key", "u", ""),
        ] {
            assert_eq!(
                found(template, parameters),
                Some((kind, id.to_owned(), part.to_owned())),
                "{template}"
            );
        }
    }

    #[test]
    fn messages_actions_and_names_in_bodies_have_no_subject() {
        for (template, parameters) in [
            ("/admin/config", &[] as &[&str]),
            ("/orgs/{organization}/services", &["o"]),
            ("/org/{organization}/hagroups", &["o"]),
            ("/orgs/{organization}/nodes/{node}/msgs/{msgid}", &["o", "n", "1"]),
            ("/orgs/{organization}/changes/cleanup", &["o"]),
        ] {
            assert_eq!(found(template, parameters), None, "{template}");
        }
    }
}
