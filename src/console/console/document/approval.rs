//! Writes of documents that a second person approves where the organization requires that.

use evenkeel_wire::exchange::plan_approval::ApprovalWrite;
use serde_json::Value;

use super::kind::{Revisable, RevisableKind};
use super::stored::{body_of, changed_members};
use crate::command_line::word;

impl Revisable {
    /// Returns the write that needs an approval; none for a document that is written without one.
    pub(crate) fn to_approve(&self, stored: Option<&Value>, wanted: &Value) -> Option<ApprovalWrite> {
        match self.kind {
            RevisableKind::DeploymentPolicy => match body_of(self.kind, wanted) {
                Value::Object(document) => {
                    Some(ApprovalWrite::DeploymentPolicy { policy: self.name.clone(), document })
                }
                _ => None,
            },
            RevisableKind::OrgSettings => {
                let settings = changed_members(stored.unwrap_or(&Value::Null), wanted);
                Some(ApprovalWrite::Settings { settings })
            }
            _ => None,
        }
    }

    /// Returns the command that requests the approval of a write.
    pub(crate) fn request_command(&self, write: &ApprovalWrite, reason: &str) -> String {
        let reason = if reason.is_empty() { "TEXT".to_owned() } else { word(reason) };
        let command = match write {
            ApprovalWrite::Settings { settings } => {
                format!("settings{}", super::command::assignments(settings))
            }
            _ => format!("policy {} -f {}", word(&self.name), super::command::FILE),
        };
        format!("hzn approval request {command} --reason {reason}")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn policies_and_settings_are_approved_and_nothing_else() {
        let approved = RevisableKind::ALL.into_iter().filter(|kind| {
            let document = Revisable::new(*kind, "o", "x");
            document.to_approve(None, &json!({"a": 1})).is_some()
        });
        let approved: Vec<RevisableKind> = approved.collect();
        assert_eq!(approved, [RevisableKind::DeploymentPolicy, RevisableKind::OrgSettings]);
    }

    #[test]
    fn commands_request_what_the_form_requests() {
        let settings = Revisable::new(RevisableKind::OrgSettings, "o", "o");
        let (stored, wanted) = (json!({"a": 1, "b": 2}), json!({"a": 1, "c": 3}));
        let write = settings.to_approve(Some(&stored), &wanted).expect("a write");
        let command = settings.request_command(&write, "");
        assert!(command.starts_with("hzn approval request settings ") && command.ends_with(" --reason TEXT"));
        assert!(command.contains("b=null") && command.contains("c=3"), "{command}");
        let policy = Revisable::new(RevisableKind::DeploymentPolicy, "o", "it's");
        let write = policy.to_approve(None, &json!({"label": "l"})).expect("a write");
        assert_eq!(
            policy.request_command(&write, "$(id)"),
            r"hzn approval request policy 'it'\''s' -f document.json --reason '$(id)'"
        );
    }
}
