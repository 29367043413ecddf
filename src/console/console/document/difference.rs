//! Differences of two texts, line by line, as pages show them.

/// Lines without a change that are shown around each change.
const CONTEXT: usize = 3;
/// Lines of a difference that are shown.
const SHOWN: usize = 2_000;
/// Largest product of the lines that differ, for which the common ones are searched.
const MOST_COMPARED: usize = 1_000_000;

/// A line of a difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DiffLine {
    Removed(String),
    Added(String),
    Kept(String),
    /// Number of unchanged lines that are left out.
    Gap(usize),
}

impl DiffLine {
    /// Returns the sign in front of the line.
    pub(crate) fn sign(&self) -> &'static str {
        match self {
            Self::Removed(_) => "-",
            Self::Added(_) => "+",
            Self::Kept(_) | Self::Gap(_) => " ",
        }
    }

    /// Returns the class of the line.
    pub(crate) fn class(&self) -> &'static str {
        match self {
            Self::Removed(_) => "removed",
            Self::Added(_) => "added",
            Self::Kept(_) => "kept",
            Self::Gap(_) => "gap",
        }
    }

    pub(crate) fn text(&self) -> String {
        match self {
            Self::Removed(text) | Self::Added(text) | Self::Kept(text) => text.clone(),
            Self::Gap(1) => "1 unchanged line".to_owned(),
            Self::Gap(count) => format!("{count} unchanged lines"),
        }
    }
}

/// The difference of two texts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Difference {
    /// Changed lines with some around them; empty when the texts are equal.
    pub(crate) lines: Vec<DiffLine>,
    /// Number of lines that are not shown because there are too many.
    pub(crate) others: usize,
    pub(crate) removed: usize,
    pub(crate) added: usize,
}

impl Difference {
    /// Compares two texts.
    ///
    /// # Shape
    /// Its cost is bounded: where too many lines differ, all of them count as removed and added.
    pub(crate) fn of(before: &str, after: &str) -> Self {
        let (before, after): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
        let lines = compared(&before, &after);
        let count = |is_meant: fn(&DiffLine) -> bool| lines.iter().filter(|line| is_meant(line)).count();
        let removed = count(|line| matches!(line, DiffLine::Removed(_)));
        let added = count(|line| matches!(line, DiffLine::Added(_)));
        if removed + added == 0 {
            return Self::default();
        }
        let mut lines = with_context(lines);
        let others = lines.len().saturating_sub(SHOWN);
        lines.truncate(SHOWN);
        Self { lines, others, removed, added }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.removed + self.added == 0
    }
}

fn kept(lines: &[&str]) -> impl Iterator<Item = DiffLine> {
    lines.iter().map(|line| DiffLine::Kept((*line).to_owned()))
}

fn compared(before: &[&str], after: &[&str]) -> Vec<DiffLine> {
    let begin = before.iter().zip(after).take_while(|(one, other)| one == other).count();
    let (first, before) = before.split_at(begin);
    let (_, after) = after.split_at(begin);
    let end = before.iter().rev().zip(after.iter().rev()).take_while(|(one, other)| one == other).count();
    let (before, last) = before.split_at(before.len() - end);
    let (after, _) = after.split_at(after.len() - end);
    kept(first).chain(changed(before, after)).chain(kept(last)).collect()
}

/// Compares the lines between the first and the last that differ.
fn changed(before: &[&str], after: &[&str]) -> Vec<DiffLine> {
    let removed = |line: &str| DiffLine::Removed(line.to_owned());
    let added = |line: &str| DiffLine::Added(line.to_owned());
    if before.len().saturating_mul(after.len()) > MOST_COMPARED {
        let removed = before.iter().map(|line| removed(line));
        return removed.chain(after.iter().map(|line| added(line))).collect();
    }
    let common = Common::of(before, after);
    let (mut old, mut new) = (0, 0);
    let mut lines = Vec::with_capacity(before.len() + after.len());
    loop {
        match (before.get(old), after.get(new)) {
            (Some(one), Some(other)) if one == other => {
                lines.push(DiffLine::Kept((*one).to_owned()));
                (old, new) = (old + 1, new + 1);
            }
            (Some(one), other) if other.is_none() || common.at(old + 1, new) >= common.at(old, new + 1) => {
                lines.push(removed(one));
                old += 1;
            }
            (_, Some(other)) => {
                lines.push(added(other));
                new += 1;
            }
            (_, None) => return lines,
        }
    }
}

/// Numbers of lines that the rests of two texts have in common, in their order.
struct Common {
    numbers: Vec<u32>,
    width: usize,
}

impl Common {
    fn of(before: &[&str], after: &[&str]) -> Self {
        let width = after.len() + 1;
        let mut common = Self { numbers: vec![0; (before.len() + 1) * width], width };
        for (old, one) in before.iter().enumerate().rev() {
            for (new, other) in after.iter().enumerate().rev() {
                let number = if one == other {
                    common.at(old + 1, new + 1) + 1
                } else {
                    common.at(old + 1, new).max(common.at(old, new + 1))
                };
                if let Some(cell) = common.numbers.get_mut(old * width + new) {
                    *cell = number;
                }
            }
        }
        common
    }

    fn at(&self, old: usize, new: usize) -> u32 {
        self.numbers.get(old * self.width + new).copied().unwrap_or_default()
    }
}

/// Leaves out unchanged lines that are far from every change.
fn with_context(lines: Vec<DiffLine>) -> Vec<DiffLine> {
    let is_change = |line: &DiffLine| !matches!(line, DiffLine::Kept(_));
    let mut is_near = vec![false; lines.len()];
    for (position, _) in lines.iter().enumerate().filter(|(_, line)| is_change(line)) {
        let around = position.saturating_sub(CONTEXT)..(position + CONTEXT + 1).min(lines.len());
        is_near.get_mut(around).into_iter().flatten().for_each(|near| *near = true);
    }
    let mut shown = Vec::new();
    let mut gap = 0;
    for (line, is_near) in lines.into_iter().zip(is_near) {
        if !is_near {
            gap += 1;
            continue;
        }
        if gap > 0 {
            shown.push(DiffLine::Gap(gap));
        }
        gap = 0;
        shown.push(line);
    }
    if gap > 0 {
        shown.push(DiffLine::Gap(gap));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(before: &str, after: &str) -> Vec<String> {
        let lines = Difference::of(before, after).lines;
        lines.iter().map(|line| format!("{}{}", line.sign(), line.text())).collect()
    }

    #[test]
    fn equal_texts_have_no_difference() {
        assert!(Difference::of("a\nb", "a\nb").is_empty());
        assert!(Difference::of("", "").lines.is_empty());
    }

    #[test]
    fn changed_lines_are_shown_with_their_surroundings() {
        let before: Vec<String> = (0..20).map(|number| format!("line {number}")).collect();
        let after: Vec<String> = before
            .iter()
            .map(|line| if line == "line 9" { "other".to_owned() } else { line.clone() })
            .collect();
        assert_eq!(
            shown(&before.join("\n"), &after.join("\n")),
            [
                " 6 unchanged lines",
                " line 6",
                " line 7",
                " line 8",
                "-line 9",
                "+other",
                " line 10",
                " line 11",
                " line 12",
                " 7 unchanged lines",
            ]
        );
    }

    #[test]
    fn common_lines_between_changes_are_kept() {
        assert_eq!(shown("a\nb\nc\nd", "x\nb\nd\ne"), ["-a", "+x", " b", "-c", " d", "+e"]);
        assert_eq!(shown("", "a"), ["+a"]);
        assert_eq!(shown("a", ""), ["-a"]);
    }

    #[test]
    fn long_texts_cost_little_and_are_cut() {
        let text = |word: &str| (0..3_000).map(|number| format!("{word} {number}\n")).collect::<String>();
        let found = Difference::of(&text("a"), &text("b"));
        assert_eq!((found.removed, found.added), (3_000, 3_000));
        assert_eq!((found.lines.len(), found.others), (SHOWN, 4_000));
    }

    #[test]
    fn every_line_of_both_texts_is_in_the_difference() {
        let mut state = 7_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for _ in 0..200 {
            let mut text = || (0..random(12)).map(|_| random(4).to_string()).collect::<Vec<_>>();
            let (before, after) = (text(), text());
            let (old, new): (Vec<&str>, Vec<&str>) =
                (before.iter().map(String::as_str).collect(), after.iter().map(String::as_str).collect());
            let lines = compared(&old, &new);
            let side = |is_old: bool| -> Vec<String> {
                let of = |line: &DiffLine| match line {
                    DiffLine::Removed(text) if is_old => Some(text.clone()),
                    DiffLine::Added(text) if !is_old => Some(text.clone()),
                    DiffLine::Kept(text) => Some(text.clone()),
                    _ => None,
                };
                lines.iter().filter_map(of).collect()
            };
            assert_eq!((side(true), side(false)), (before, after));
        }
    }
}
