//! The options of `deploycheck`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Scope;
use crate::context::UserOptions;
use crate::exit::{CliError, Outcome};

/// Options of `deploycheck`; without a subcommand everything is checked.
#[derive(Debug, Default, Args)]
pub struct CheckArguments {
    #[command(flatten)]
    pub user: UserOptions,
    /// Check every version of the service, even after one that can run
    #[arg(short = 'c', long = "check-all", global = true)]
    pub check_all: bool,
    /// Also show the compared documents
    #[arg(short = 'l', long, global = true)]
    pub long: bool,
    /// Architecture, where the node's is not known
    #[arg(short = 'a', long, global = true, value_name = "ARCH")]
    pub arch: Option<String>,
    /// device or cluster, for a node from files
    #[arg(short = 't', long = "node-type", global = true, value_parser = ["device", "cluster"], ignore_case = true, value_name = "TYPE")]
    pub node_type: Option<String>,
    /// Namespace of a cluster agent, for a node from files
    #[arg(short = 's', long = "cluster-namespace", global = true, value_name = "NAMESPACE")]
    pub cluster_namespace: Option<String>,
    /// The cluster agent is confined to its namespace, for a node from files
    #[arg(long = "is-namespace-scoped", global = true)]
    pub is_namespace_scoped: bool,
    /// Organization of the nodes [default: that of the command]
    #[arg(short = 'O', long = "node-org", global = true, value_name = "ORG")]
    pub node_org: Option<String>,
    /// Node to check; repeat for more [default: that of HZN_EXCHANGE_NODE_AUTH, else that of this machine]
    #[arg(short = 'n', long = "node-id", global = true, value_name = "NODE")]
    pub node_ids: Vec<String>,
    /// HA group whose members are checked
    #[arg(long = "ha-group", global = true, value_name = "GROUP")]
    pub ha_group: Option<String>,
    /// Check every member of the node's HA group
    #[arg(long = "checkHA", visible_alias = "check-ha", global = true)]
    pub check_ha: bool,
    /// End with status 2 when a node would not get the service
    #[arg(long = "exit-code", global = true)]
    pub exit_code: bool,
    /// JSON or YAML file with the policy of a node
    #[arg(long = "node-pol", global = true, value_name = "FILE")]
    pub node_policy: Option<PathBuf>,
    /// JSON or YAML file with the user input of a node
    #[arg(long = "node-ui", global = true, value_name = "FILE")]
    pub node_input: Option<PathBuf>,
    /// Deployment policy to check
    #[arg(
        short = 'b',
        long = "deployment-pol-id",
        visible_alias = "business-pol-id",
        global = true,
        value_name = "POLICY"
    )]
    pub policy_id: Option<String>,
    /// JSON or YAML file with a deployment policy
    #[arg(
        short = 'B',
        long = "deployment-pol",
        visible_alias = "business-pol",
        global = true,
        value_name = "FILE"
    )]
    pub policy_file: Option<PathBuf>,
    /// JSON or YAML file with the policy of the service, instead of the stored one
    #[arg(long = "service-pol", global = true, value_name = "FILE")]
    pub service_policy: Option<PathBuf>,
    /// JSON or YAML file with a service that is not published; repeat for more
    #[arg(long = "service", global = true, value_name = "FILE")]
    pub services: Vec<PathBuf>,
    #[command(subcommand)]
    pub command: Option<CheckCommand>,
}

/// Scope of the check.
#[derive(Debug, Clone, Copy, Subcommand)]
pub enum CheckCommand {
    /// Checks policies, user input and secrets
    All,
    /// Checks policies
    Policy,
    /// Checks user input
    Userinput,
    /// Checks that every secret of the service is bound
    Secretbinding,
}

impl CheckArguments {
    /// Returns the scope of the check.
    pub fn scope(&self) -> Scope {
        match self.command {
            None | Some(CheckCommand::All) => Scope::All,
            Some(CheckCommand::Policy) => Scope::Policy,
            Some(CheckCommand::Userinput) => Scope::UserInput,
            Some(CheckCommand::Secretbinding) => Scope::SecretBinding,
        }
    }

    /// Returns true if the node comes from files.
    pub fn is_from_files(&self) -> bool {
        self.node_policy.is_some() || self.node_input.is_some()
    }

    /// Refuses arguments that exclude each other.
    ///
    /// # Errors
    /// With status 1.
    pub fn validate(&self) -> Outcome {
        let refuse = |why: &str, advice: &str| Err(CliError::input("nothing was checked", why, advice));
        let ways = [!self.node_ids.is_empty(), self.ha_group.is_some(), self.is_from_files()];
        if ways.iter().filter(|is_used| **is_used).count() > 1 {
            return refuse(
                "nodes are named by several options",
                "give only one of -n, --ha-group, or --node-pol with --node-ui",
            );
        }
        if self.check_ha && self.is_from_files() {
            return refuse(
                "a node from files is in no HA group",
                "name a node with -n or a group with --ha-group",
            );
        }
        match (&self.policy_id, &self.policy_file) {
            (Some(_), Some(_)) => refuse("two deployment policies are named", "give either -b or -B"),
            (None, None) => refuse("no deployment policy is named", "give -b POLICY, or -B FILE"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        check: CheckArguments,
    }

    fn parse(line: &str) -> CheckArguments {
        Line::try_parse_from(format!("x {line}").split(' ')).expect(line).check
    }

    #[test]
    fn options_stand_before_or_after_the_word_and_the_word_may_be_left_out() {
        let arguments = parse("--checkHA -n n1 -b p");
        assert_eq!((arguments.scope(), arguments.check_ha), (Scope::All, true));
        let arguments = parse("policy --ha-group g -b p");
        assert_eq!((arguments.scope(), arguments.ha_group.as_deref()), (Scope::Policy, Some("g")));
        let arguments = parse("-b p all -n n1 -n n2");
        assert_eq!((arguments.scope(), arguments.node_ids.len()), (Scope::All, 2));
        assert_eq!(parse("userinput -B f").scope(), Scope::UserInput);
    }

    #[test]
    fn what_excludes_each_other_is_refused() {
        for line in [
            "all",
            "all -b p -B f",
            "all -b p -n n --ha-group g",
            "all -b p -n n --node-pol f",
            "all --checkHA -b p --node-pol f",
        ] {
            assert_eq!(
                parse(line).validate().map_err(|error| error.exit),
                Err(crate::exit::Exit::Input),
                "{line}"
            );
        }
        assert_eq!(parse("--checkHA --ha-group g -b p").validate(), Ok(()));
    }
}
