//! The actions of the console, each with the command that does the same and the request that carries it out.

use evenkeel_client::{ClientError, NodeChange, Path};
use evenkeel_ids::NodeId;
use evenkeel_wire::agbot::action::ActionRequest;
use evenkeel_wire::agbot::rollout::ChangedRollouts;
use evenkeel_wire::exchange::node_orchestration::Availability;
use evenkeel_wire::exchange::plan_approval::{ApprovalWrite, needs_approval};
use http::{Method, StatusCode};
use serde_json::{Map, json};

use crate::command_line::word;
use crate::failure::Failure;
use crate::form::Form;
use crate::session::Reader;

/// Kind of the object that an action is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    Node,
    Policy,
    /// The rollouts of a policy.
    Rollout,
    /// Instances of a policy that move to other nodes.
    Move,
    /// The claims of a member of an HA group.
    Claim,
}

/// What an action does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Availability(Availability),
    Freeze(bool),
    /// Nothing runs on the node any longer, as a person has seen.
    Fence,
    /// An action on a deployment policy, by its name.
    Policy(&'static str),
    /// An action on its rollouts, by its name.
    Rollout(&'static str),
    /// Moves instances to the nodes that the target names.
    Switch,
    FreeClaim,
}

/// An action.
#[derive(Debug)]
pub(crate) struct Action {
    /// Its name in addresses.
    pub(crate) name: &'static str,
    pub(crate) subject: Subject,
    pub(crate) title: &'static str,
    /// What happens, in a sentence.
    pub(crate) about: &'static str,
    /// The command that does the same.
    pub(crate) command: fn(&Target) -> String,
    effect: Effect,
}

/// The object of an action, without its organization.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Target {
    pub(crate) org: String,
    pub(crate) node: Option<String>,
    pub(crate) policy: Option<String>,
    pub(crate) group: Option<String>,
    /// Nodes to move to, separated by commas.
    pub(crate) to: Option<String>,
}

impl Target {
    /// Reads the object of an action.
    ///
    /// # Errors
    /// When a part of it is missing.
    pub(super) fn read(org: &str, action: &Action, form: &Form) -> Result<Self, Failure> {
        let part = |name: &str| form.require(name).map(|value| Some(value.to_owned()));
        let target = Self { org: org.to_owned(), ..Self::default() };
        Ok(match action.subject {
            Subject::Node => Self { node: part("node")?, ..target },
            Subject::Policy | Subject::Rollout => Self { policy: part("policy")?, ..target },
            Subject::Move => Self { policy: part("policy")?, to: form.owned("to"), ..target },
            Subject::Claim => Self { group: part("group")?, node: part("node")?, ..target },
        })
    }

    /// Returns its parts with their names.
    pub(crate) fn parts(&self) -> Vec<(&'static str, &str)> {
        let parts =
            [("node", &self.node), ("policy", &self.policy), ("group", &self.group), ("to", &self.to)];
        parts.into_iter().filter_map(|(name, part)| Some((name, part.as_deref()?))).collect()
    }

    pub(super) fn node(&self) -> &str {
        self.node.as_deref().unwrap_or_default()
    }

    pub(crate) fn policy(&self) -> &str {
        self.policy.as_deref().unwrap_or_default()
    }

    pub(super) fn group(&self) -> &str {
        self.group.as_deref().unwrap_or_default()
    }

    /// Returns the nodes to move to.
    pub(crate) fn destinations(&self) -> Vec<String> {
        let names = self.to.as_deref().unwrap_or_default().split(',').map(str::trim);
        names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
    }
}

fn on_node(command: &str, target: &Target) -> String {
    format!("hzn exchange node orchestration {command} {}", word(target.node()))
}

fn on_policy(command: &str, target: &Target) -> String {
    format!("hzn exchange deployment orchestration {command} {}", word(target.policy()))
}

fn on_rollout(command: &str, target: &Target) -> String {
    format!("hzn rollout {command} {}", word(target.policy()))
}

const ACTIONS: &[Action] = &[
    Action {
        name: "node-drain",
        subject: Subject::Node,
        title: "Drain the node",
        about: "Its services stop here: in an HA group one member at a time and never the last running instance, otherwise at once. Nothing is \
                placed on it until it is active again.",
        command: |target| format!("{} --availability drain", on_node("set", target)),
        effect: Effect::Availability(Availability::Drain),
    },
    Action {
        name: "node-pause",
        subject: Subject::Node,
        title: "Pause the node",
        about: "Its services keep running; nothing new is placed or updated on it.",
        command: |target| format!("{} --availability pause", on_node("set", target)),
        effect: Effect::Availability(Availability::Pause),
    },
    Action {
        name: "node-activate",
        subject: Subject::Node,
        title: "Activate the node",
        about: "Services are placed and updated on it again.",
        command: |target| format!("{} --availability active", on_node("set", target)),
        effect: Effect::Availability(Availability::Active),
    },
    Action {
        name: "node-freeze",
        subject: Subject::Node,
        title: "Freeze the node",
        about: "What runs keeps running; nothing is started, stopped or moved there automatically.",
        command: |target| on_node("freeze", target),
        effect: Effect::Freeze(true),
    },
    Action {
        name: "node-thaw",
        subject: Subject::Node,
        title: "Thaw the node",
        about: "Instances are started, stopped and moved there automatically again.",
        command: |target| on_node("thaw", target),
        effect: Effect::Freeze(false),
    },
    Action {
        name: "node-fence",
        subject: Subject::Node,
        title: "Confirm that the node is dead",
        about: "Instances that may run only once start on other nodes, although this one has not confirmed that it stopped them. The next heartbeat \
                of the node ends the confirmation.",
        command: |target| on_node("fenceconfirm", target),
        effect: Effect::Fence,
    },
    Action {
        name: "policy-start",
        subject: Subject::Policy,
        title: "Start the instances",
        about: "The wanted number of instances is started, and kept.",
        command: |target| on_policy("start", target),
        effect: Effect::Policy("start"),
    },
    Action {
        name: "policy-stop",
        subject: Subject::Policy,
        title: "Stop all instances",
        about: "Every instance of the policy is stopped, and none is started until somebody starts them.",
        command: |target| on_policy("stop", target),
        effect: Effect::Policy("stop"),
    },
    Action {
        name: "policy-restart",
        subject: Subject::Policy,
        title: "Restart the instances",
        about: "What runs is started again, one instance at a time.",
        command: |target| on_policy("restart", target),
        effect: Effect::Policy("restart"),
    },
    Action {
        name: "policy-freeze",
        subject: Subject::Policy,
        title: "Freeze the policy",
        about: "What runs keeps running; nothing of it is started, stopped, moved or updated automatically.",
        command: |target| on_policy("freeze", target),
        effect: Effect::Policy("freeze"),
    },
    Action {
        name: "policy-thaw",
        subject: Subject::Policy,
        title: "Thaw the policy",
        about: "Its instances are started, stopped, moved and updated automatically again.",
        command: |target| on_policy("thaw", target),
        effect: Effect::Policy("thaw"),
    },
    Action {
        name: "policy-switch",
        subject: Subject::Move,
        title: "Move instances",
        about: "Instances move to the named nodes; with the mode failover and no name, the instance moves to the best other node.",
        command: |target| match target.destinations() {
            nodes if nodes.is_empty() => on_policy("switch", target),
            nodes => format!("{} --to {}", on_policy("switch", target), word(&nodes.join(","))),
        },
        effect: Effect::Switch,
    },
    Action {
        name: "policy-giveback",
        subject: Subject::Policy,
        title: "Return instances to their nodes",
        about: "Instances return to the nodes on which they belong, the natural leaders.",
        command: |target| on_policy("giveback", target),
        effect: Effect::Policy("giveback"),
    },
    Action {
        name: "policy-abort",
        subject: Subject::Policy,
        title: "Abort the action in progress",
        about: "The action that a user requested ends where it is.",
        command: |target| on_policy("abort", target),
        effect: Effect::Policy("abort"),
    },
    Action {
        name: "policy-clear",
        subject: Subject::Policy,
        title: "Clear failures",
        about: "Failed instances may start again.",
        command: |target| on_policy("clear", target),
        effect: Effect::Policy("clear"),
    },
    Action {
        name: "rollout-pause",
        subject: Subject::Rollout,
        title: "Pause the rollout",
        about: "No further instance is replaced. The one in progress is finished.",
        command: |target| on_rollout("pause", target),
        effect: Effect::Rollout("pause"),
    },
    Action {
        name: "rollout-resume",
        subject: Subject::Rollout,
        title: "Resume the rollout",
        about: "The remaining instances are replaced.",
        command: |target| on_rollout("resume", target),
        effect: Effect::Rollout("resume"),
    },
    Action {
        name: "rollout-rollback",
        subject: Subject::Rollout,
        title: "Roll back",
        about: "The instances that were replaced return to the version that ran before, one at a time.",
        command: |target| on_rollout("rollback", target),
        effect: Effect::Rollout("rollback"),
    },
    Action {
        name: "rollout-abort",
        subject: Subject::Rollout,
        title: "Abort the rollout",
        about: "The rollout ends where it is: instances keep the version that they have.",
        command: |target| on_rollout("abort", target),
        effect: Effect::Rollout("abort"),
    },
    Action {
        name: "rollout-retry",
        subject: Subject::Rollout,
        title: "Try the version again",
        about: "The version that failed is rolled out once more.",
        command: |target| on_rollout("retry", target),
        effect: Effect::Rollout("retry"),
    },
    Action {
        name: "claim-free",
        subject: Subject::Claim,
        title: "Release the claims of the member",
        about: "Another member of the group may be disrupted from now on, although this one may still be in the middle of its upgrade.",
        command: |target| {
            format!("hzn exchange hagroup free {} --node {}", word(target.group()), word(target.node()))
        },
        effect: Effect::FreeClaim,
    },
];

impl Action {
    /// Returns what may go wrong if it is carried out by mistake; empty for most.
    pub(crate) fn warning(&self) -> &'static str {
        match self.effect {
            Effect::Fence => {
                "If the machine still runs, two instances of a service that must run once may run at the same time. Confirm only what you have \
                 seen: the machine is off, or cut from everything that its services write to."
            }
            _ => "",
        }
    }

    /// Returns the action with a name.
    pub(super) fn find(name: &str) -> Option<&'static Self> {
        ACTIONS.iter().find(|action| action.name == name)
    }

    /// Returns whether its plan asks for the nodes to move to.
    pub(crate) fn may_name_nodes(&self) -> bool {
        self.subject == Subject::Move
    }
}

impl Action {
    /// Returns the write that a second person approves where the organization requires that; none for an action that needs no approval.
    pub(super) fn to_approve(&self, target: &Target) -> Option<ApprovalWrite> {
        let policy = target.policy().to_owned();
        match self.effect {
            Effect::Policy(name) if needs_approval(name) => {
                Some(ApprovalWrite::PolicyAction { policy, action: name.to_owned(), request: Map::new() })
            }
            Effect::Rollout(name) if needs_approval(name) => {
                Some(ApprovalWrite::RolloutAction { policy, action: name.to_owned(), group: None })
            }
            Effect::Switch if needs_approval("switch") => {
                let nodes = target.destinations();
                let destination = (!nodes.is_empty()).then(|| ("destination".to_owned(), json!(nodes)));
                let request = destination.into_iter().collect();
                Some(ApprovalWrite::PolicyAction { policy, action: "switch".to_owned(), request })
            }
            _ => None,
        }
    }

    /// Returns the command that requests the approval.
    pub(super) fn request_command(&self, target: &Target) -> String {
        let policy = word(target.policy());
        match self.effect {
            Effect::Rollout(name) => format!("hzn approval request rollout {policy} {name} --reason TEXT"),
            Effect::Policy(name) => format!("hzn approval request action {policy} {name} --reason TEXT"),
            Effect::Switch => {
                let nodes = target.destinations();
                let to = if nodes.is_empty() {
                    String::new()
                } else {
                    format!(" --to {}", word(&nodes.join(",")))
                };
                format!("hzn approval request action {policy} switch{to} --reason TEXT")
            }
            Effect::Availability(_) | Effect::Freeze(_) | Effect::Fence | Effect::FreeClaim => {
                (self.command)(target)
            }
        }
    }
}

/// Carries an action out, and returns why parts of it were left as they are.
pub(super) async fn run(
    reader: &Reader,
    action: &Action,
    target: &Target,
) -> Result<Vec<String>, ClientError> {
    let (client, org) = (&reader.client, target.org.as_str());
    let node = || NodeId::new(org, target.node());
    match action.effect {
        Effect::Availability(availability) => {
            client.change_node(&node(), &NodeChange::Availability(availability)).await.map(|()| Vec::new())
        }
        Effect::Freeze(frozen) => {
            client.change_node(&node(), &NodeChange::Freeze(frozen)).await.map(|()| Vec::new())
        }
        Effect::Fence => client.confirm_fence(org, target.node()).await.map(|_| Vec::new()),
        Effect::Policy(name) => {
            let request = ActionRequest::default();
            client.act_on_policy(org, target.policy(), name, &request).await.map(|_| Vec::new())
        }
        Effect::Switch => {
            let nodes = target.destinations();
            let destination = (!nodes.is_empty()).then_some(nodes);
            let request = ActionRequest { destination, ..ActionRequest::default() };
            client.act_on_policy(org, target.policy(), "switch", &request).await.map(|_| Vec::new())
        }
        Effect::Rollout(name) => {
            let path = Path::org(org, &["agbot", "rollouts", target.policy(), name]);
            let response = client.send(Method::POST, &path, None).await?;
            if response.status != StatusCode::OK {
                return Err(response.unexpected());
            }
            let changed: ChangedRollouts = response.json()?;
            Ok(changed.refused)
        }
        Effect::FreeClaim => {
            let path = Path::org(org, &["hagroups", target.group(), "upgrades", target.node()]);
            let response = client.send(Method::DELETE, &path, None).await?;
            if response.status != StatusCode::OK {
                return Err(response.unexpected());
            }
            Ok(Vec::new())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn target() -> Target {
        Target {
            org: "o".into(),
            node: Some("edge 1".into()),
            policy: Some("it's".into()),
            group: Some("gate".into()),
            to: Some("edge 1, edge-2,".into()),
        }
    }

    #[test]
    fn each_action_has_its_own_name_and_a_command() {
        let names: BTreeSet<&str> = ACTIONS.iter().map(|action| action.name).collect();
        assert_eq!(names.len(), ACTIONS.len());
        for action in ACTIONS {
            assert!(Action::find(action.name).is_some());
            assert!((action.command)(&target()).starts_with("hzn "), "{}", action.name);
        }
        assert!(Action::find("node").is_none());
    }

    #[test]
    fn commands_name_their_objects_as_words_of_a_shell() {
        let command = |name: &str| (Action::find(name).expect("an action").command)(&target());
        assert_eq!(
            command("node-drain"),
            "hzn exchange node orchestration set 'edge 1' --availability drain"
        );
        assert_eq!(command("rollout-pause"), r"hzn rollout pause 'it'\''s'");
        assert_eq!(
            command("policy-switch"),
            r"hzn exchange deployment orchestration switch 'it'\''s' --to 'edge 1,edge-2'"
        );
        assert_eq!(command("claim-free"), "hzn exchange hagroup free gate --node 'edge 1'");
    }

    #[test]
    fn actions_that_hold_instances_as_they_are_need_no_approval() {
        let mut target = target();
        target.policy = Some("p".to_owned());
        let free = ACTIONS.iter().filter(|action| action.to_approve(&target).is_none());
        let free: Vec<&str> =
            free.map(|action| action.name).filter(|name| !name.starts_with("node-")).collect();
        assert_eq!(free, ["policy-freeze", "policy-abort", "rollout-pause", "rollout-abort", "claim-free"]);
        let command = |name: &str| Action::find(name).expect("an action").request_command(&target);
        assert_eq!(command("policy-stop"), "hzn approval request action p stop --reason TEXT");
        assert_eq!(command("rollout-resume"), "hzn approval request rollout p resume --reason TEXT");
        target.to = Some("a, b".to_owned());
        let switch = Action::find("policy-switch").expect("an action");
        let request = json!({"destination": ["a", "b"]}).as_object().cloned().unwrap_or_default();
        let write =
            ApprovalWrite::PolicyAction { policy: "p".to_owned(), action: "switch".to_owned(), request };
        assert_eq!(switch.to_approve(&target), Some(write));
        assert_eq!(
            switch.request_command(&target),
            "hzn approval request action p switch --to 'a,b' --reason TEXT"
        );
    }

    #[test]
    fn missing_object_is_refused() {
        let action = Action::find("claim-free").expect("an action");
        let read = |text: &str| Target::read("o", action, &Form::parse(text.as_bytes()));
        assert_eq!(read("group=g").unwrap_err().to_string(), "node must not be empty");
        assert_eq!(read("group=g&node=n").unwrap().parts(), [("node", "n"), ("group", "g")]);
    }
}
