//! The commands that do the same as a change of a document.

use serde_json::{Map, Value};

use super::kind::{Revisable, RevisableKind};
use super::stored::changed_members;
use crate::command_line::word;

/// The file of the commands that read the document from one.
pub(crate) const FILE: &str = "document.json";

impl Revisable {
    /// Returns the command that writes a document. `token`: the plan to which it is bound, or the empty text.
    pub(crate) fn write_command(
        &self,
        (stored, wanted): (Option<&Value>, &Value),
        reason: &str,
        token: &str,
    ) -> String {
        let name = word(&self.name);
        let command = match self.kind {
            RevisableKind::DeploymentPolicy => {
                let bound = if token.is_empty() { String::new() } else { format!(" --check-token {token}") };
                format!("deployment addpolicy {name} -f {FILE}{bound}")
            }
            RevisableKind::ManagementPolicy => format!("nmp add {name} -f {FILE}"),
            RevisableKind::Service => format!("service publish -f {FILE} --overwrite"),
            RevisableKind::ServicePolicy => format!("service addpolicy {name} -f {FILE}"),
            RevisableKind::Pattern => format!("pattern publish -p {name} -f {FILE}"),
            RevisableKind::HaGroup => format!("hagroup add {name} -f {FILE}"),
            RevisableKind::NodePolicy => format!("node addpolicy {name} -f {FILE}"),
            RevisableKind::NodeSettings => {
                format!("node orchestration set {name}{}", node_options(wanted))
            }
            RevisableKind::OrgSettings => {
                let changed = changed_members(stored.unwrap_or(&Value::Null), wanted);
                format!("orchestration settings set{}", assignments(&changed))
            }
        };
        format!("hzn exchange {command}{}", reason_option(reason))
    }

    /// Returns the command that writes the document of a revision again.
    pub(crate) fn undo_command(&self, revision: i64, reason: &str) -> String {
        let name = word(&self.name);
        let command = match self.kind {
            RevisableKind::DeploymentPolicy => format!("deployment undo {name}"),
            RevisableKind::ManagementPolicy => format!("nmp undo {name}"),
            RevisableKind::Service => format!("service undo {name}"),
            RevisableKind::ServicePolicy => format!("service undopolicy {name}"),
            RevisableKind::Pattern => format!("pattern undo {name}"),
            RevisableKind::HaGroup => format!("hagroup undo {name}"),
            RevisableKind::NodePolicy => format!("node undopolicy {name}"),
            RevisableKind::NodeSettings => format!("node orchestration undo {name}"),
            RevisableKind::OrgSettings => "orchestration settings undo".to_owned(),
        };
        format!("hzn exchange {command} --to {revision}{}", reason_option(reason))
    }

    /// Returns the command that wants another number of instances of a deployment policy.
    pub(crate) fn scale_command(&self, count: u32, reason: &str) -> String {
        let name = word(&self.name);
        format!("hzn exchange deployment orchestration scale {name} {count}{}", reason_option(reason))
    }
}

fn reason_option(reason: &str) -> String {
    if reason.is_empty() { String::new() } else { format!(" --reason {}", word(reason)) }
}

/// Returns the options that lead to the settings of a node.
fn node_options(wanted: &Value) -> String {
    let text = |name: &str| wanted[name].as_str().unwrap_or_default();
    let flags = ["force", "upgrade"].into_iter().filter(|flag| wanted[*flag] == true);
    let capacities = wanted["capacities"].as_object().into_iter().flatten();
    let domains = [("faultDomain", "fault-domain"), ("upgradeDomain", "upgrade-domain")];
    let options = [format!(" --availability {}", word(text("availability")))].into_iter();
    options
        .chain(flags.map(|flag| format!(" --{flag}")))
        .chain(capacities.map(|(name, amount)| format!(" --capacity {}", word(&format!("{name}={amount}")))))
        .chain(domains.map(|(member, option)| format!(" --{option} {}", word(text(member)))))
        .collect()
}

/// Returns members as words `NAME=VALUE`; `null` restores the default.
pub(super) fn assignments(members: &Map<String, Value>) -> String {
    members.iter().map(|(name, value)| format!(" {}", word(&format!("{name}={value}")))).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;

    #[test]
    fn each_kind_has_commands_of_its_own() {
        let mut commands = BTreeSet::new();
        for kind in RevisableKind::ALL {
            let document = Revisable::new(kind, "o", "x y");
            let write = document.write_command((None, &json!({"a": 1})), "", "");
            for command in [write, document.undo_command(3, "")] {
                assert!(command.starts_with("hzn exchange ") && commands.insert(command), "{kind:?}");
            }
        }
    }

    #[test]
    fn commands_quote_names_and_reasons() {
        let policy = Revisable::new(RevisableKind::DeploymentPolicy, "o", "it's");
        assert_eq!(
            policy.write_command((None, &json!({})), "ticket 7", "0a1b"),
            r"hzn exchange deployment addpolicy 'it'\''s' -f document.json --check-token 0a1b --reason 'ticket 7'"
        );
        assert_eq!(policy.undo_command(3, ""), r"hzn exchange deployment undo 'it'\''s' --to 3");
        assert_eq!(
            policy.scale_command(4, "$(id)"),
            r"hzn exchange deployment orchestration scale 'it'\''s' 4 --reason '$(id)'"
        );
    }

    #[test]
    fn settings_are_options() {
        let node = Revisable::new(RevisableKind::NodeSettings, "o", "n1");
        let wanted = json!({"availability": "drain", "upgrade": true, "capacities": {"memoryMb": 2048.5},
                            "faultDomain": "fd:/a b"});
        assert_eq!(
            node.write_command((None, &wanted), "", ""),
            "hzn exchange node orchestration set n1 --availability drain --upgrade --capacity memoryMb=2048.5 \
             --fault-domain 'fd:/a b' --upgrade-domain ''"
        );
        let org = Revisable::new(RevisableKind::OrgSettings, "o", "o");
        let (stored, wanted) = (json!({"a": 1, "b": 2}), json!({"b": {"c": "x"}}));
        assert_eq!(
            org.write_command((Some(&stored), &wanted), "", ""),
            r#"hzn exchange orchestration settings set 'b={"c":"x"}' a=null"#
        );
    }
}
