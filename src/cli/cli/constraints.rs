//! Constraints of policies: those that cannot be parsed are refused before they are sent. Also shows the warnings of a
//! hub that stores them.

use evenkeel_domain::policy::ConstraintList;
use http::HeaderMap;
use http::header::WARNING;
use serde_json::Value;

use crate::exit::{CliError, Exit, Outcome};

/// Parts of a body with constraints: the top level, and the two parts of a node policy.
const PARTS: [&str; 3] = ["", "/deployment", "/management"];

/// Refuses a policy, or a change of one, with a constraint that cannot be read.
///
/// # Errors
/// With status 3, naming the field and the position.
pub fn check(policy: &Value) -> Outcome<()> {
    let errors: Vec<String> = PARTS.iter().flat_map(|part| errors_of(policy, part)).collect();
    if errors.is_empty() {
        return Ok(());
    }
    Err(CliError::new(
        Exit::Json,
        "the policy was not sent: with a constraint that cannot be read it selects nothing",
        errors.join("; "),
        "correct the constraints, such as `camera == true AND memory > 512`",
    ))
}

fn errors_of(body: &Value, part: &str) -> Vec<String> {
    let pointer = format!("{part}/constraints");
    let texts = body.pointer(&pointer).and_then(Value::as_array).into_iter().flatten();
    let list: ConstraintList = texts.map(|text| text.as_str().unwrap_or_default()).collect();
    let field = pointer.trim_start_matches('/').replace('/', ".");
    list.errors().into_iter().map(|error| format!("{field}: {error}")).collect()
}

/// The texts of the warnings of a response.
pub fn warnings(headers: &HeaderMap) -> impl Iterator<Item = String> {
    headers.get_all(WARNING).iter().filter_map(|value| {
        // Code, agent, text in quotes: RFC 7234, section 5.5.
        let (_, quoted) = value.to_str().ok()?.split_once('"')?;
        let mut text = String::new();
        let mut letters = quoted.chars();
        while let Some(letter) = letters.next() {
            match letter {
                '"' => break,
                '\\' => text.extend(letters.next()),
                letter => text.push(letter),
            }
        }
        Some(text)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn wrong_constraint_of_any_part_is_refused_with_its_position() {
        let wrong =
            json!({"constraints": ["a == b", "camera = = true"], "management": {"constraints": ["(a == 1"]}});
        let error = check(&wrong).unwrap_err().to_string();
        assert!(error.contains("constraints: constraint 1 is wrong at character 10"), "{error}");
        assert!(error.contains("management.constraints: constraint 0 is wrong at character 1"), "{error}");
        assert!(check(&json!({"constraints": ["a == b"], "properties": []})).is_ok());
        assert!(check(&json!([])).is_ok());
    }

    #[test]
    fn warnings_are_read_from_their_quotes() {
        let mut headers = HeaderMap::new();
        headers.append(WARNING, r#"299 evenkeel "near \"= x\": \\ wrong""#.parse().unwrap());
        headers.append(WARNING, "299 evenkeel".parse().unwrap());
        assert_eq!(warnings(&headers).collect::<Vec<_>>(), [r#"near "= x": \ wrong"#]);
    }
}
