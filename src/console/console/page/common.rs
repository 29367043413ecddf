//! The values that nodes have in common, as pages show them.

use evenkeel_wire::agbot::common::{CommonCause, CommonCauses};

use crate::address::{address_of, with_fields};
use crate::constraint::is_plain;

/// A value that nodes have in common.
pub(crate) struct CommonRow {
    /// The name that the value belongs to.
    pub(crate) name: String,
    /// The nodes with the value; empty if a list cannot select them.
    pub(crate) href: String,
    /// Share of the failing nodes that have it, in percent.
    pub(crate) share: u64,
    /// Share of all nodes that have it, in percent.
    pub(crate) share_of_all: u64,
    pub(crate) cause: CommonCause,
}

/// Values that nodes have in common.
pub(crate) struct CommonTable {
    pub(crate) common: CommonCauses,
    pub(crate) rows: Vec<CommonRow>,
}

impl CommonTable {
    pub(crate) fn new(org: &str, mut common: CommonCauses) -> Self {
        let rows = std::mem::take(&mut common.causes).into_iter();
        let numbers = (common.failing, common.whole);
        Self { rows: rows.map(|cause| CommonRow::new(org, cause, numbers)).collect(), common }
    }

    /// Returns what the values are compared with, in words.
    pub(crate) fn reference(&self) -> &'static str {
        match self.common.reference.as_str() {
            "attempted" => "nodes on which the version runs or failed",
            "selected" => "nodes that the policy selects",
            _ => "nodes of the organization",
        }
    }
}

impl CommonRow {
    fn new(org: &str, cause: CommonCause, (failing, whole): (u64, u64)) -> Self {
        let base = address_of(org, &["nodes"]);
        let href = match cause.kind.as_str() {
            "ha-group" => with_fields(&base, [("group", cause.value.as_str())]),
            "property" if is_plain(&cause.name) && !cause.value.contains('"') => {
                let constraint = format!("{} == \"{}\"", cause.name, cause.value);
                with_fields(&base, [("filter", constraint.as_str())])
            }
            _ => String::new(),
        };
        let name = match cause.kind.as_str() {
            "property" => cause.name.clone(),
            "service" => format!("service {}", cause.name),
            kind => kind.replace('-', " "),
        };
        let percent = |part: u64, all: u64| part * 100 / all.max(1);
        let (share, share_of_all) = (percent(cause.failing, failing), percent(cause.whole, whole));
        Self { name, href, share, share_of_all, cause }
    }

    pub(crate) fn lift(&self) -> String {
        format!("{:.1}", self.cause.lift)
    }

    /// Returns whether chance alone would hardly show it.
    pub(crate) fn is_strong(&self) -> bool {
        self.cause.by_chance < 0.05
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_leads_to_the_nodes_that_have_it() {
        let row = |kind: &str, name: &str, value: &str| {
            let (kind, name, value) = (kind.to_owned(), name.to_owned(), value.to_owned());
            let cause = CommonCause { kind, name, value, failing: 3, whole: 4, ..CommonCause::default() };
            CommonRow::new("o", cause, (4, 16))
        };
        let property = row("property", "kernel", "5.10");
        assert_eq!(property.href, "/console/orgs/o/nodes?filter=kernel%20%3D%3D%20%225.10%22");
        assert_eq!((property.name.as_str(), property.share, property.share_of_all), ("kernel", 75, 25));
        assert_eq!(row("ha-group", "", "g").href, "/console/orgs/o/nodes?group=g");
        assert_eq!(row("fault-domain", "", "fd:/a").name, "fault domain");
        for (kind, name, value) in [("property", "a b", "x"), ("property", "a", "\"x"), ("arch", "", "arm64")]
        {
            assert_eq!(row(kind, name, value).href, "");
        }
    }
}
