//! The changes of the console, with their fields.

use super::field::Field;
use crate::address::address_of;
use crate::form::Form;
use crate::health_target::HealthTarget;
use crate::layout::Tab;

/// What a change does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    CreateUser,
    SetRole,
    SetPassword,
    RemoveUser,
    CreateKey,
    RemoveKey,
    Set,
    ReportHealth,
    SuppressHealth,
}

/// A change.
#[derive(Debug)]
pub(super) struct Change {
    /// Its name in addresses.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// What happens, in a sentence or two.
    pub(super) about: &'static str,
    pub(super) tab: Tab,
    pub(super) fields: &'static [Field],
    pub(super) effect: Effect,
}

const USER: Field = Field::object("user");
const KEY: Field = Field::object("key");
const POLICIES: Field = Field::text(
    "policies",
    "Deployment policies of a deployer",
    "names, or beginnings of names that end in *, separated by commas",
);
const OF_POLICY: Field = Field::object("policy").optional();
const OF_UNIT: Field = Field::object("unit").optional();
const OF_NODE: Field = Field::object("node").optional();
const OF_GROUP: Field = Field::object("group").optional();

/// What the plan of a change asks for that a second person has to approve.
pub(super) static REASON: Field = Field::text("reason", "Reason", "which the second person reads").required();

const CHANGES: &[Change] = &[
    Change {
        name: "user-create",
        title: "Create a user",
        about: "An account of the organization. Its password is set in the next step.",
        tab: Tab::Users,
        fields: &[
            Field::text("user", "Name", "without the organization").in_messages("username").required(),
            Field::text("email", "E-mail address", "or any other text that names the person").required(),
            Field::choice(
                "role",
                "Role",
                &[
                    ("user", "user: works with what it owns"),
                    ("viewer", "viewer: reads the organization"),
                    ("deployer", "deployer: also changes some policies"),
                    ("admin", "administrator of the organization"),
                    ("hubadmin", "administrator of the hub (organization root)"),
                ],
            ),
            POLICIES,
        ],
        effect: Effect::CreateUser,
    },
    Change {
        name: "user-role",
        title: "Change the role",
        about: "It takes effect at once, also for sessions and API keys of the user. What the user owns stays.",
        tab: Tab::Users,
        fields: &[
            USER,
            Field::choice(
                "role",
                "Role",
                &[
                    ("user", "user: works with what it owns"),
                    ("viewer", "viewer: reads the organization"),
                    ("deployer", "deployer: also changes some policies"),
                    ("admin", "administrator of the organization"),
                ],
            ),
            POLICIES,
        ],
        effect: Effect::SetRole,
    },
    Change {
        name: "user-password",
        title: "Set a new password",
        about: "The old password ends at once, and so do all sessions of the account at the console, with the API keys that were created in them. Other API \
                keys stay.",
        tab: Tab::Users,
        fields: &[USER],
        effect: Effect::SetPassword,
    },
    Change {
        name: "user-remove",
        title: "Remove the user",
        about: "The account is removed with its API keys and with everything that it owns: its nodes, services, patterns, policies and agbots.",
        tab: Tab::Users,
        fields: &[USER],
        effect: Effect::RemoveUser,
    },
    Change {
        name: "key-create",
        title: "Create an API key",
        about: "A login for programs: with the user apikey, the key is the password. The key is shown once.",
        tab: Tab::Users,
        fields: &[
            USER,
            Field::text("label", "Label", "what the key is for"),
            Field::text("description", "Description", ""),
            Field::choice(
                "expires",
                "Ends after",
                &[
                    ("2592000", "30 days"),
                    ("3600", "an hour"),
                    ("86400", "a day"),
                    ("7776000", "90 days"),
                    ("31536000", "365 days"),
                    ("never", "it does not end"),
                ],
            )
            .in_messages("expiresIn"),
            Field::choice(
                "role",
                "Role",
                &[
                    ("", "all rights of the account"),
                    ("viewer", "viewer: reads"),
                    ("deployer", "deployer: also changes some policies"),
                ],
            ),
            POLICIES,
        ],
        effect: Effect::CreateKey,
    },
    Change {
        name: "key-remove",
        title: "Remove the API key",
        about: "Programs that log in with the key are refused at once.",
        tab: Tab::Users,
        fields: &[USER, KEY],
        effect: Effect::RemoveKey,
    },
    Change {
        name: "setting",
        title: "Change a setting",
        about: "It holds for all workloads and nodes of the organization that do not set it themselves.",
        tab: Tab::Settings,
        fields: &[
            Field::object("key"),
            Field::text(
                "value",
                "Value",
                "a number, a word, or JSON; null removes the setting of the organization",
            )
            .required(),
        ],
        effect: Effect::Set,
    },
    Change {
        name: "health-report",
        title: "Report health",
        about: "The report is an event of its object until the same source reports about the same property again, or until it expires.",
        tab: Tab::Health,
        fields: &[
            OF_POLICY,
            OF_UNIT,
            OF_NODE,
            OF_GROUP,
            Field::text("source", "Source", "who reports, for instance operator")
                .in_messages("sourceId")
                .required(),
            Field::text("property", "Property", "what is reported about, for instance Disk").required(),
            Field::choice("state", "State", &[("Warning", "Warning"), ("Error", "Error"), ("Ok", "Ok")])
                .in_messages("healthState"),
            Field::text("description", "Description", ""),
            Field::text("ttl", "Expires after", "seconds; empty: it does not expire")
                .in_messages("ttlSeconds"),
            Field::choice(
                "expired",
                "When it expires",
                &[("removed", "it disappears"), ("error", "it counts as an error")],
            )
            .in_messages("removeWhenExpired"),
        ],
        effect: Effect::ReportHealth,
    },
    Change {
        name: "health-suppress",
        title: "Suppress the health event",
        about: "The event is replaced by an Ok of the same source about the same property, which disappears when its time is over. The next report of the source \
                ends it sooner; a source that numbers its reports itself must continue with a greater number.",
        tab: Tab::Health,
        fields: &[
            OF_POLICY,
            OF_UNIT,
            OF_NODE,
            OF_GROUP,
            Field::object("source"),
            Field::object("property"),
            Field::choice(
                "ttl",
                "For",
                &[("3600", "an hour"), ("28800", "8 hours"), ("86400", "a day"), ("604800", "7 days")],
            )
            .in_messages("ttlSeconds"),
            Field::text("description", "Reason", "why the event does not matter").required(),
        ],
        effect: Effect::SuppressHealth,
    },
];

impl Change {
    /// Returns the change with a name.
    pub(super) fn find(name: &str) -> Option<&'static Self> {
        CHANGES.iter().find(|change| change.name == name)
    }

    /// Returns the fields that the form asks for.
    pub(super) fn inputs(&self) -> impl Iterator<Item = &'static Field> + use<> {
        self.fields.iter().filter(|field| !field.is_object())
    }

    /// Returns the page to which the change belongs.
    pub(super) fn back(&self, org: &str, form: &Form) -> String {
        match self.effect {
            Effect::CreateUser | Effect::RemoveUser => address_of(org, &["users"]),
            Effect::SetRole | Effect::SetPassword | Effect::CreateKey | Effect::RemoveKey => {
                address_of(org, &["users", form.exact("user")])
            }
            Effect::Set => address_of(org, &["settings"]),
            Effect::ReportHealth | Effect::SuppressHealth => HealthTarget::read(org, form).href(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn changes_have_names_and_fields_of_their_own() {
        let names: BTreeSet<&str> = CHANGES.iter().map(|change| change.name).collect();
        assert_eq!(names.len(), CHANGES.len());
        for change in CHANGES {
            assert!(Change::find(change.name).is_some());
            let fields: BTreeSet<&str> = change.fields.iter().map(|field| field.name).collect();
            assert_eq!(fields.len(), change.fields.len(), "{}", change.name);
            assert!(!fields.contains("token") && !fields.contains("step"), "{}", change.name);
        }
        assert!(Change::find("user").is_none());
    }

    #[test]
    fn changes_lead_back_to_their_pages() {
        let back = |name: &str, query: &str| {
            Change::find(name).expect("a change").back("o", &Form::parse(query.as_bytes()))
        };
        assert_eq!(back("user-role", "user=a%2Fb"), "/console/orgs/o/users/a%2Fb");
        assert_eq!(back("user-remove", "user=a"), "/console/orgs/o/users");
        assert_eq!(back("setting", "key=a"), "/console/orgs/o/settings");
        assert_eq!(back("health-report", "policy=p&node=n"), "/console/orgs/o/health?policy=p&node=n");
    }
}
