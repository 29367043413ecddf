//! The map of the page about the architecture, which is drawn from the manifests: which rooms and crates use which.

use std::collections::BTreeSet;

use super::layers::{ROOMS, crates_in, rooms_used_by};
use super::{Member, differences, members, root, writes_golden};
use crate::support::wait::must;

const PAGE: &str = "docs/explanation/architecture.md";
const PICTURE: &str = "docs/explanation/architecture.svg";

/// The beginning of the map, which ends at the next heading.
const BEGIN: &str = "\n| room | crates |";

#[test]
fn map_of_rooms_and_crates_is_that_of_the_manifests() {
    let page = must(std::fs::read_to_string(root().join(PAGE)), PAGE);
    let begin = 1 + must(page.find(BEGIN).ok_or("there is no map"), PAGE);
    let end = page[begin..].find("\n## ").map_or(page.len(), |length| begin + length);
    let drawn = format!("{}{}{}", &page[..begin], map(), &page[end..]);
    if writes_golden() {
        must(std::fs::write(root().join(PAGE), drawn), PAGE);
        return;
    }
    let (found, expected) = (lines(&drawn), lines(&page));
    let (missing, wrong) = differences(&found, &expected);
    assert!(
        drawn == page,
        "WRITE_GOLDEN=1 renews the map of {PAGE}; rows that are missing: {missing:#?}; rows that are wrong: {wrong:#?}"
    );
}

#[test]
fn page_and_picture_show_every_room_and_crate() {
    let page = must(std::fs::read_to_string(root().join(PAGE)), PAGE);
    let (description, _) = must(page.split_once(BEGIN).ok_or("there is no map"), PAGE);
    let picture = must(std::fs::read_to_string(root().join(PICTURE)), PICTURE);
    let is_end = |letter: char| !letter.is_alphanumeric() && letter != '-';
    let words: BTreeSet<&str> = picture.split(is_end).collect();
    for room in ROOMS {
        assert!(
            description.contains(&format!("\n| `{}` | ", room.name)),
            "{PAGE} does not describe {}",
            room.name
        );
        assert!(words.contains(room.name), "{PICTURE} does not show {}", room.name);
        for name in crates_in(room.name) {
            assert!(words.contains(name), "{PICTURE} does not show {name}");
        }
    }
}

fn lines(text: &str) -> BTreeSet<String> {
    text.lines().map(str::to_owned).collect()
}

/// Returns the tables of the rooms and of the crates, from the lowest layer up.
fn map() -> String {
    let mut map = "| room | crates | uses the rooms |\n| --- | --- | --- |\n".to_owned();
    let rooms = ROOMS.iter().map(|room| (room.name, format!("`{}`", room.name)));
    for (room, title) in rooms.chain([("", "none: `src/main.rs`, `src/commands`".to_owned())]) {
        let crates = crates_in(room).into_iter().map(|name| format!("`{name}`"));
        let used = rooms_used_by(room).into_iter().map(|name| format!("`{name}`"));
        map.push_str(&format!("| {title} | {} | {} |\n", list(crates), list(used)));
    }
    map.push_str("\n| crate | uses | is used by |\n| --- | --- | --- |\n");
    let members = members();
    let names: Vec<&str> = ROOMS.iter().map(|room| room.name).chain([""]).flat_map(crates_in).collect();
    for name in &names {
        let used =
            names.iter().filter_map(|other| Some(format!("`{other}`{}", edge(&members, name, other)?)));
        let users =
            names.iter().filter_map(|other| Some(format!("`{other}`{}", edge(&members, other, name)?)));
        map.push_str(&format!("| `{name}` | {} | {} |\n", list(used), list(users)));
    }
    map
}

fn list(names: impl Iterator<Item = String>) -> String {
    let names: Vec<String> = names.collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// Returns the remark about the entry for the crate `used` in the manifest of the crate `user`; `None` if there is no entry.
fn edge(members: &[Member], user: &str, used: &str) -> Option<&'static str> {
    let member = members.iter().find(|member| member.name == user)?;
    let mut entries = member.dependencies.iter().filter(|entry| entry.member() == Some(used)).peekable();
    entries.peek()?;
    Some(if entries.all(|entry| entry.is_dev) { " (tests)" } else { "" })
}
