//! The form of the values that nodes have in common.

use evenkeel_planner_model::model::{self, Attribute};
use evenkeel_planner_record::association::Counts;
use evenkeel_wire::agbot::common::{CommonCause, CommonCauses};

/// Returns the values that nodes have in common; `reference`: the nodes with which they are compared, `what`: what is said of the nodes.
pub(crate) fn common_causes(found: &model::CommonCauses, reference: &str, what: &str) -> CommonCauses {
    let model::CommonCauses { failing, whole, examined, skipped, ref causes } = *found;
    CommonCauses {
        failing,
        whole,
        reference: reference.to_owned(),
        examined,
        skipped,
        causes: causes.iter().map(|one| cause(one, what)).collect(),
    }
}

fn cause(found: &model::CommonCause, what: &str) -> CommonCause {
    let Counts { failing_with, failing, whole_with, whole } = found.counts;
    let name = match found.attribute {
        Attribute::Property | Attribute::Service => found.name.as_str(),
        other => other.word(),
    };
    let percent = 100.0 * whole_with as f64 / whole.max(1) as f64;
    let lift = found.association.lift;
    CommonCause {
        kind: found.attribute.word().to_owned(),
        name: found.name.clone(),
        value: found.value.clone(),
        failing: failing_with,
        whole: whole_with,
        lift: rounded(lift),
        probability: found.association.probability,
        by_chance: found.by_chance,
        text: format!(
            "{failing_with} of {failing} {what} nodes have {name} = {} ({percent:.0} % of all; lift {lift:.1})",
            found.value
        ),
    }
}

/// Two decimal places: more would only look exact.
fn rounded(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use evenkeel_planner_record::association::Counts;

    use super::*;

    #[test]
    fn text_states_counts_share_and_lift() {
        let counts = Counts { failing_with: 42, failing: 45, whole_with: 1_200, whole: 10_000 };
        let association = counts.association();
        let of = |attribute, name: &str, value: &str| model::CommonCause {
            attribute,
            name: name.to_owned(),
            value: value.to_owned(),
            counts,
            association,
            by_chance: 0.0,
        };
        let shown = cause(&of(Attribute::Property, "kernel", "5.10"), "failing");
        assert_eq!(shown.text, "42 of 45 failing nodes have kernel = 5.10 (12 % of all; lift 7.8)");
        assert_eq!((shown.lift, shown.kind.as_str()), (7.78, "property"));
        let shown = cause(&of(Attribute::AgentVersion, "", "2.30.0"), "selected");
        assert!(shown.text.contains("selected nodes have agent-version = 2.30.0"), "{}", shown.text);
    }
}
