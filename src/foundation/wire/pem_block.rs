//! Finds the first PEM block of a text (RFC 7468), ignoring the text before it.

use crate::base64_text;

/// The decoded content of the first block, or `None` when the text holds no well-formed block.
///
/// The label is returned too, but readers of keys decide by the content: files in use carry wrong labels.
pub fn first_block(text: &str) -> Option<(String, Vec<u8>)> {
    let start = text.find("-----BEGIN ")?;
    let rest = &text[start + "-----BEGIN ".len()..];
    let (label, rest) = rest.split_once("-----")?;
    if label.contains('\n') {
        return None;
    }
    let (body, _) = rest.split_once(&format!("-----END {label}-----"))?;
    let encoded: String = body.lines().map(str::trim).filter(|line| !line.contains(':')).collect();
    Some((label.to_owned(), base64_text::decode(&encoded).ok()?))
}

/// Writes one block with lines of 64 characters.
pub fn write_block(label: &str, content: &[u8]) -> String {
    let encoded = base64_text::encode(content);
    let mut text = format!("-----BEGIN {label}-----\n");
    let mut rest = encoded.as_str();
    while !rest.is_empty() {
        let (line, tail) = rest.split_at(rest.len().min(64));
        text.push_str(line);
        text.push('\n');
        rest = tail;
    }
    text.push_str(&format!("-----END {label}-----\n"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_block_is_found_behind_other_text() {
        let text = format!("some words\n{}", write_block("THING", &[7; 100]));
        assert_eq!(first_block(&text), Some(("THING".to_owned(), vec![7; 100])));
    }

    #[test]
    fn unfinished_block_is_no_block() {
        assert_eq!(first_block("-----BEGIN THING-----\nAAAA\n"), None);
    }
}
