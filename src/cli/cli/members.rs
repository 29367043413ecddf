//! Unknown members in a user's file, with their positions.

use evenkeel_domain::policy::reference_json::Unknown;
use serde_json::Value;

/// Describes an unknown member, with its position in a text without comments and a suggestion.
pub fn unknown(member: &Unknown, text: &str) -> String {
    let Unknown { path, meant } = member;
    let meant = meant.map(|meant| format!("; {meant} was probably meant")).unwrap_or_default();
    match position(text, path) {
        Some(at) => format!("{} has the member {path}, which does not exist{meant}", place(text, at)),
        None => format!("the member {path} does not exist{meant}"),
    }
}

/// Names the place at which a text begins.
pub fn start(text: &str) -> String {
    place(text, text.len() - text.trim_start().len())
}

/// Returns line and column of an offset, both from 1.
fn place(text: &str, offset: usize) -> String {
    let before = &text[..offset];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let line = before.matches('\n').count() + 1;
    format!("line {line} column {}", before[line_start..].chars().count() + 1)
}

/// Returns the offset of the name of a member of the outermost object.
fn position(text: &str, name: &str) -> Option<usize> {
    if text.trim_start().starts_with('{') { json_position(text, name) } else { yaml_position(text, name) }
}

fn json_position(text: &str, name: &str) -> Option<usize> {
    let quoted = Value::from(name).to_string();
    let (mut depth, mut is_in_text, mut is_escaped) = (0_usize, false, false);
    for (at, letter) in text.char_indices() {
        match letter {
            _ if std::mem::take(&mut is_escaped) => {}
            '\\' if is_in_text => is_escaped = true,
            '"' => {
                let follows = (!is_in_text && depth == 1).then(|| text[at..].strip_prefix(&quoted)).flatten();
                if follows.is_some_and(|rest| rest.trim_start().starts_with(':')) {
                    return Some(at);
                }
                is_in_text = !is_in_text;
            }
            '{' | '[' if !is_in_text => depth += 1,
            '}' | ']' if !is_in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

/// Members of the outermost object start a line, with or without quotes.
fn yaml_position(text: &str, name: &str) -> Option<usize> {
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let key = line.split(':').next().unwrap_or_default().trim_end();
        if key.trim_matches(['"', '\'']) == name && line.len() > key.len() {
            return Some(start);
        }
        start += line.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_member_is_named_with_its_place_and_what_was_meant() {
        let named = |path: &str, meant, text: &str| unknown(&Unknown { path: path.to_owned(), meant }, text);
        let text = "{\n  \"service\": {\"lable\": \"lable\"},\n  \"lable\" : {}\n}";
        let expected = "line 3 column 3 has the member lable, which does not exist; label was probably meant";
        assert_eq!(named("lable", Some("label"), text), expected);
        let yaml = named("lable", Some("label"), "label: l\nlable: ''\n");
        assert!(yaml.starts_with("line 2 column 1 has the member lable,"), "{yaml}");
        assert_eq!(named("service.odd", None, text), "the member service.odd does not exist");
        let part = named("memebrs", Some("members"), "");
        assert_eq!(part, "the member memebrs does not exist; members was probably meant");
        assert_eq!(start("\n [1]"), "line 2 column 2");
    }
}
