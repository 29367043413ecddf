//! Deployment policies that lack one of the constraints of another one.

use evenkeel_domain::policy::ConstraintList;
use evenkeel_domain::policy::constraint::Expression;
use serde_json::{Value, json};

/// Variations of a policy, at most: each is planned.
const MOST: usize = 10;

/// Returns policies that differ from one by a single constraint, each with the change in words.
pub(crate) fn variations(policy: &Value) -> Vec<(String, Value)> {
    let constraints: Vec<&str> =
        policy["constraints"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut found = Vec::new();
    for (position, text) in constraints.iter().enumerate().take(MOST) {
        for (change, shorter) in without_one_clause(text) {
            let mut list: Vec<String> = constraints.iter().map(|one| (*one).to_owned()).collect();
            match shorter {
                Some(shorter) => list.splice(position..=position, [shorter]).for_each(drop),
                None => drop(list.remove(position)),
            }
            let mut wanted = policy.clone();
            wanted["constraints"] = json!(list);
            found.push((change, wanted));
        }
    }
    found.extend(of_settings(policy));
    found.truncate(MOST);
    found
}

/// Returns the texts of a constraint without one of its clauses; none for the text without its only one.
fn without_one_clause(text: &str) -> Vec<(String, Option<String>)> {
    let parsed = ConstraintList::from_iter([text]).parse();
    let Ok(Expression::All(parts)) = parsed else {
        return vec![(format!("without the constraint {}", text.trim()), None)];
    };
    let without = |position: usize| {
        let dropped = parts.get(position).map(ToString::to_string).unwrap_or_default();
        let rest = parts.iter().enumerate().filter(|(one, _)| *one != position).map(|(_, part)| part.clone());
        (format!("without {dropped}"), Some(Expression::all(rest.collect()).to_string()))
    };
    (0..parts.len().min(MOST)).map(without).collect()
}

fn of_settings(policy: &Value) -> Vec<(String, Value)> {
    let settings = &policy["orchestration"];
    let mut found = Vec::new();
    if let Some(expression) = settings["placement"]["expression"].as_str().filter(|text| !text.is_empty()) {
        let mut wanted = policy.clone();
        wanted["orchestration"]["placement"]["expression"] = json!("");
        found.push((format!("without the expression of the placement, {expression}"), wanted));
    }
    if settings["scope"].as_object().is_some_and(|scope| !scope.is_empty()) {
        let mut wanted = policy.clone();
        wanted["orchestration"]["scope"] = json!({});
        found.push(("without orchestration.scope".to_owned(), wanted));
    }
    if settings["mode"] == "replicated" {
        let limit = settings["maxPerNode"].as_u64().unwrap_or(1).saturating_add(1);
        let mut wanted = policy.clone();
        wanted["orchestration"]["maxPerNode"] = json!(limit);
        found.push((format!("orchestration.maxPerNode: {limit}"), wanted));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_variation_lacks_one_clause() {
        let policy = json!({"label": "p", "constraints": ["site == north AND cpu > 2", "camera == true"]});
        let found = variations(&policy);
        let lists: Vec<&Value> = found.iter().map(|(_, wanted)| &wanted["constraints"]).collect();
        assert_eq!(lists.len(), 3, "{found:?}");
        assert_eq!(lists[2], &json!(["site == north AND cpu > 2"]));
        assert!(lists[0][0].as_str().is_some_and(|text| text.contains("cpu") && !text.contains("site")));
        assert_eq!(found[2].0, "without the constraint camera == true");
        assert!(found.iter().all(|(_, wanted)| wanted["label"] == "p"));
    }

    #[test]
    fn settings_are_varied_as_well_and_hostile_constraints_are_bounded() {
        let policy = json!({"constraints": [], "orchestration": {
            "placement": {"expression": "zone == \"a\""}, "scope": {"nodes": ["n"]}, "mode": "replicated"}});
        let changes: Vec<String> = variations(&policy).into_iter().map(|(change, _)| change).collect();
        assert_eq!(changes.len(), 3, "{changes:?}");
        assert_eq!(changes[2], "orchestration.maxPerNode: 2");
        let many = json!({"constraints": vec!["((("; 500]});
        assert_eq!(variations(&many).len(), MOST);
        assert!(variations(&json!({"constraints": "x"})).is_empty());
    }
}
