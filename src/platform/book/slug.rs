//! Anchors of headings, as GitHub makes them, so that links with a fragment lead to the same heading on both sites.

use std::collections::BTreeMap;

/// The anchors of one page.
#[derive(Default)]
pub(crate) struct Slugs(BTreeMap<String, usize>);

impl Slugs {
    /// Returns the anchor of the next heading; headings with one text are counted from the second on.
    pub(crate) fn add(&mut self, heading: &str) -> String {
        let slug = slug(heading);
        let count = self.0.entry(slug.clone()).or_default();
        *count += 1;
        match *count {
            1 => slug,
            count => format!("{slug}-{}", count - 1),
        }
    }
}

fn slug(heading: &str) -> String {
    let kept =
        heading.trim().chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_are_those_of_github() {
        let mut slugs = Slugs::default();
        for (heading, anchor) in [
            ("How an operation is declared", "how-an-operation-is-declared"),
            ("1.2 `orchestration` on a deployment policy", "12-orchestration-on-a-deployment-policy"),
            (
                "3.4 Org `IBM` seen from another org, and global actions",
                "34-org-ibm-seen-from-another-org-and-global-actions",
            ),
            ("10.3 CLI (`hzn`) — accepted statuses", "103-cli-hzn--accepted-statuses"),
            ("node_id Größe", "node_id-größe"),
            ("Limits", "limits"),
            ("Limits", "limits-1"),
            ("Limits", "limits-2"),
        ] {
            assert_eq!(slugs.add(heading), anchor, "{heading}");
        }
    }
}
