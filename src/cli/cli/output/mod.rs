//! Output of commands: one value as JSON, YAML or a table, chosen by the option or by the kind of standard
//! output.
//!
//! Data goes to standard output and nothing else does; notes go to standard error.

mod layout;

pub use layout::shortened;

use std::collections::BTreeSet;
use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

use clap::ValueEnum;
use evenkeel_domain::text::{escaped_json, neutralized, printable};
use serde_json::{Map, Value};

use crate::exit::{CliError, Exit, Outcome};
use crate::yaml::to_yaml;

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Two-space indented JSON.
    Json,
    /// YAML.
    Yaml,
    /// Columns of the human-readable table.
    Table,
}

/// Columns of the human-readable table.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Table {
    /// Names of the columns.
    pub header: Vec<String>,
    /// Rows, each as long as the header.
    pub rows: Vec<Vec<String>>,
    /// Names of columns that are never dropped, besides the first one.
    pub kept: Vec<&'static str>,
}

/// One result in all its forms.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// For programs.
    pub json: Value,
    /// For people.
    pub table: Table,
    /// The text that the reference's `hzn` writes to terminals and pipes alike. Only an explicit format replaces it; a
    /// table without columns does not.
    pub plain: Option<String>,
}

/// A column: its name, and the JSON pointer or plain member name of its values.
pub type Column<'a> = (&'a str, &'a str);

impl View {
    /// JSON with a table made for it.
    pub fn new(json: Value, table: Table) -> Self {
        Self { json, table, plain: None }
    }

    /// JSON whose table has one row per member or element.
    pub fn of(json: Value) -> Self {
        let table = Table::of_record(&json);
        Self::new(json, table)
    }

    /// A text that is written unchanged, except that control sequences are removed for a terminal, unless a format is given.
    pub fn plain(text: impl Into<String>, json: Value) -> Self {
        Self { plain: Some(text.into()), ..Self::of(json) }
    }

    /// A text instead of the table, also in a pipe; JSON only if `--output` requests it.
    pub fn text(text: &str, json: Value) -> Self {
        let text: String = text.lines().map(|line| format!("{}\n", printable(line))).collect();
        Self { plain: Some(text), ..Self::new(json, Table::default()) }
    }

    /// Writes the result in a form, ending with a newline.
    pub fn render(&self, format: Option<Format>, width: Option<u16>) -> String {
        match (format, &self.plain) {
            (None, Some(text)) => with_line_end(text),
            (Some(Format::Table), Some(text)) if self.table.header.is_empty() => with_line_end(text),
            (Some(Format::Json), _) | (None, None) => {
                escaped_json(&format!("{:#}\n", self.json)).into_owned()
            }
            (Some(Format::Yaml), _) => to_yaml(&self.json),
            (Some(Format::Table), _) => self.table.render(width),
        }
    }
}

fn with_line_end(text: &str) -> String {
    format!("{}\n", text.trim_end_matches('\n'))
}

impl Table {
    /// A table with named columns and no rows yet.
    pub fn new(header: &[&str]) -> Self {
        Self {
            header: header.iter().map(|name| (*name).to_owned()).collect(),
            rows: Vec::new(),
            kept: Vec::new(),
        }
    }

    /// Names columns that a narrow terminal must not drop.
    pub fn keeping(mut self, columns: &[&'static str]) -> Self {
        self.kept = columns.to_vec();
        self
    }

    /// Returns true if a narrow terminal must not drop a column.
    pub fn is_kept(&self, position: usize) -> bool {
        self.header.get(position).is_some_and(|name| self.kept.contains(&name.as_str()))
    }

    /// Adds a row.
    pub fn push<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.into());
    }

    /// One row per member of a map: its key, then the chosen members of its value.
    pub fn of_map(map: &Map<String, Value>, key_column: &str, columns: &[Column<'_>]) -> Self {
        let names = std::iter::once(key_column).chain(columns.iter().map(|(name, _)| *name));
        let header = names.map(str::to_owned).collect();
        let mut table = Self { header, ..Self::default() };
        for (key, value) in map {
            let cells = columns.iter().map(|(_, member)| member_text(value, member));
            table.rows.push(std::iter::once(key.clone()).chain(cells).collect());
        }
        table
    }

    /// One row per element: the chosen members.
    pub fn of_list(elements: &[Value], columns: &[Column<'_>]) -> Self {
        let header = columns.iter().map(|(name, _)| (*name).to_owned()).collect();
        let row = |element: &Value| columns.iter().map(|(_, member)| member_text(element, member)).collect();
        Self { header, rows: elements.iter().map(row).collect(), kept: Vec::new() }
    }

    /// Names and values of one object; of anything else one column of values.
    pub fn of_record(value: &Value) -> Self {
        match value {
            Value::Object(members) => {
                let mut table = Self::new(&["name", "value"]).keeping(&["value"]);
                members.iter().for_each(|(name, value)| table.push([name.clone(), cell_text(value)]));
                table
            }
            Value::Array(elements) => {
                let mut table = Self::new(&["name"]);
                elements.iter().for_each(|element| table.push([cell_text(element)]));
                table
            }
            scalar => {
                let header = vec!["value".to_owned()];
                Self { header, rows: vec![vec![cell_text(scalar)]], kept: Vec::new() }
            }
        }
    }

    /// Names and values of one object; the members of an object in it are named by their path, such as `blocklist.baseSeconds`.
    pub fn of_paths(members: &Map<String, Value>) -> Self {
        let mut table = Self::new(&["name", "value"]).keeping(&["value"]);
        table.push_paths("", members);
        table
    }

    fn push_paths(&mut self, prefix: &str, members: &Map<String, Value>) {
        for (name, value) in members {
            match value {
                Value::Object(inner) if !inner.is_empty() => {
                    self.push_paths(&format!("{prefix}{name}."), inner);
                }
                Value::Object(_) => self.push([format!("{prefix}{name}"), String::new()]),
                other => self.push([format!("{prefix}{name}"), cell_text(other)]),
            }
        }
    }

    /// Lays the columns out; `width` is that of the terminal, none for no limit.
    pub fn render(&self, width: Option<u16>) -> String {
        if self.rows.is_empty() {
            return "(none)\n".to_owned();
        }
        layout::render(self, width)
    }
}

/// The text of a member; `member` is a JSON pointer when it begins with a slash.
fn member_text(value: &Value, member: &str) -> String {
    let found = if member.starts_with('/') { value.pointer(member) } else { value.get(member) };
    found.map(cell_text).unwrap_or_default()
}

/// Returns a value as one cell: strings unquoted, lists of scalars joined, everything else as JSON.
pub fn cell_text(value: &Value) -> String {
    let is_scalar = |value: &Value| !matches!(value, Value::Array(_) | Value::Object(_));
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(elements) if elements.iter().all(is_scalar) => {
            elements.iter().map(cell_text).collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

/// A number with its noun, such as `1 node` or `2 nodes`.
pub fn counted(count: usize, noun: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{ending}")
}

/// Destination of the output.
#[derive(Clone, Copy, Debug, Default)]
pub struct Screen {
    /// The form that was asked for.
    pub format: Option<Format>,
}

impl Screen {
    /// Writes a result to standard output.
    ///
    /// # Errors
    /// With status 4 when it cannot be written. A pipe that the reader closed is not an error.
    pub fn show(self, view: &View) -> Outcome {
        let is_terminal = std::io::stdout().is_terminal();
        let width = is_terminal.then(terminal_width).flatten();
        write_all(&self.text_of(view, is_terminal, width))
    }

    /// Returns the output of a result. A plain text, such as a key, is written to a file unchanged, but not to a terminal.
    fn text_of(self, view: &View, is_terminal: bool, width: Option<u16>) -> String {
        let format = self.format.or_else(|| (is_terminal && view.plain.is_none()).then_some(Format::Table));
        let text = view.render(format, width);
        if is_terminal && format.is_none() { harmless(&text) } else { text }
    }

    /// Returns whether texts that are written one by one are JSON: if that was chosen, or by default in a pipe.
    pub fn is_json(self) -> bool {
        self.is_json_on(std::io::stdout().is_terminal())
    }

    fn is_json_on(self, is_terminal: bool) -> bool {
        self.format.map_or(!is_terminal, |format| format == Format::Json)
    }

    /// Writes a result in place of the previous one.
    ///
    /// # Errors
    /// See [`Screen::show`].
    pub fn show_again(self, view: &View) -> Outcome {
        if std::io::stdout().is_terminal() {
            write_all("\u{1b}[H\u{1b}[2J")?;
        }
        self.show(view)
    }
}

/// Writes a note to standard error; data never goes there.
pub fn print_note(text: impl AsRef<str>) {
    // A closed standard error cannot be reported anywhere.
    let _ = writeln!(std::io::stderr(), "{}", printable(text.as_ref()));
}

/// Writes a warning to standard error, each text only once, because the hub may repeat a warning of the command line.
pub fn warn(text: impl AsRef<str>) {
    static GIVEN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let is_new = GIVEN.lock().unwrap_or_else(PoisonError::into_inner).insert(text.as_ref().to_owned());
    if is_new {
        print_note(format!("warning: {}", text.as_ref()));
    }
}

/// Writes JSON on a line of its own.
///
/// # Errors
/// See [`Screen::show`].
pub fn show_json_line(json: &Value) -> Outcome {
    write_all(&format!("{}\n", escaped_json(&json.to_string())))
}

/// Writes the output of a service; for a terminal without control sequences.
///
/// # Errors
/// See [`Screen::show`].
pub fn show_foreign(text: &str) -> Outcome {
    if !std::io::stdout().is_terminal() {
        return write_all(text);
    }
    write_all(&harmless(text))
}

/// Returns a text without control sequences of terminals; line ends and tabs are kept.
fn harmless(text: &str) -> String {
    text.split('\t').map(printable).collect::<Vec<_>>().join("\t")
}

/// Writes a text of the program itself, which has no other format.
///
/// # Errors
/// See [`Screen::show`].
pub fn show_text(text: &str) -> Outcome {
    write_all(text)
}

fn terminal_width() -> Option<u16> {
    // A terminal without a configured size reports zero.
    comfy_table::Table::new().width().filter(|width| *width > 0)
}

fn write_all(text: &str) -> Outcome {
    let mut out = anstream::stdout().lock();
    // The text may contain names that any user has chosen.
    match out.write_all(neutralized(text).as_bytes()).and_then(|()| out.flush()) {
        // The reader is gone; a command with `--follow` would otherwise never end.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => Err(CliError::new(
            Exit::File,
            "the output could not be written",
            error.to_string(),
            "check where standard output goes",
        )),
        Ok(()) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn view() -> View {
        let json = json!({"a/n1": {"arch": "amd64", "members": ["x", "y"]}, "a/n2": {"arch": null}});
        let map = json.as_object().cloned().unwrap_or_default();
        View::new(json, Table::of_map(&map, "node", &[("arch", "arch"), ("members", "/members")]))
    }

    #[test]
    fn json_has_two_spaces_and_one_line_end() {
        let text = View::of(json!({"a": [1]})).render(Some(Format::Json), None);
        assert_eq!(text, "{\n  \"a\": [\n    1\n  ]\n}\n");
    }

    #[test]
    fn table_has_one_row_per_thing_and_no_trailing_blanks() {
        let text = view().render(Some(Format::Table), None);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[0].starts_with("NODE") && lines[0].contains("ARCH"), "{text}");
        assert!(lines[1].starts_with("a/n1") && lines[1].ends_with("x, y"), "{text}");
        assert_eq!(lines[2], "a/n2");
    }

    #[test]
    fn lines_are_json_by_default_in_a_pipe() {
        let is_json = |format, is_terminal| Screen { format }.is_json_on(is_terminal);
        assert!(is_json(None, false) && !is_json(None, true));
        assert!(is_json(Some(Format::Json), true) && !is_json(Some(Format::Table), false));
    }

    #[test]
    fn members_of_objects_have_rows_of_their_own() {
        let members = json!({"a": 1, "blocklist": {"factor": 2, "deep": {"x": ["y", "z"]}}, "none": {}});
        let table = Table::of_paths(members.as_object().unwrap());
        let expected = [["a", "1"], ["blocklist.factor", "2"], ["blocklist.deep.x", "y, z"], ["none", ""]];
        assert_eq!(table.rows, expected);
    }

    #[test]
    fn one_thing_is_singular() {
        assert_eq!([0, 1, 2].map(|count| counted(count, "node")), ["0 nodes", "1 node", "2 nodes"]);
    }

    #[test]
    fn names_cannot_command_the_terminal() {
        let mut table = Table::new(&["name"]);
        table.push(["\u{1b}[2Jboo".to_owned()]);
        assert!(!table.render(Some(80)).lines().last().is_some_and(|line| line.contains("\u{1b}[2J")));
    }

    #[test]
    fn json_and_yaml_keep_unsafe_characters_as_escapes() {
        let json = json!({"a\u{202e}": "b\u{9b}2J\u{2066}"});
        for format in [Format::Json, Format::Yaml] {
            let text = View::of(json.clone()).render(Some(format), None);
            assert!(text.contains("\\u202e") && text.contains("\\u009b2J\\u2066"), "{text}");
        }
        let table = View::of(json).render(Some(Format::Table), Some(80));
        assert!(!table.contains(['\u{202e}', '\u{9b}', '\u{2066}']), "{table:?}");
    }

    #[test]
    fn plain_text_gives_way_to_an_explicit_format() {
        let view = View::plain("2.154.0\n", json!("2.154.0"));
        assert_eq!(view.render(None, None), "2.154.0\n");
        assert_eq!(view.render(Some(Format::Json), None), "\"2.154.0\"\n");
        assert_eq!(view.render(Some(Format::Yaml), None), "\"2.154.0\"\n");
    }

    #[test]
    fn plain_text_of_others_cannot_command_the_terminal_and_is_unchanged_in_a_file() {
        let stored = "-----BEGIN\n\u{1b}[2J\ta\r\u{7}\n";
        let view = View::plain(stored, json!(stored));
        let shown = |is_terminal| Screen { format: None }.text_of(&view, is_terminal, Some(80));
        assert_eq!(shown(true), "-----BEGIN\n\u{fffd}[2J\ta\u{fffd}\u{fffd}\n");
        assert_eq!(shown(false), stored);
        for format in [Format::Json, Format::Yaml, Format::Table] {
            let text = Screen { format: Some(format) }.text_of(&view, true, Some(80));
            let text = text.replace("\u{1b}[1m", "").replace("\u{1b}[0m", "");
            assert!(!text.contains(['\u{1b}', '\u{7}', '\r']), "{format:?}: {text:?}");
        }
    }

    #[test]
    fn text_takes_the_place_of_the_table_also_in_a_pipe() {
        let view = View::text("a\n  + b\u{1b}[2J\n", json!({"a": "b"}));
        assert_eq!(view.render(Some(Format::Json), None), "{\n  \"a\": \"b\"\n}\n");
        assert_eq!(view.render(None, None), view.render(Some(Format::Table), Some(80)));
        let table = view.render(Some(Format::Table), Some(80));
        assert!(
            table.starts_with("a\n  + b") && table.ends_with('\n') && !table.contains('\u{1b}'),
            "{table}"
        );
    }

    #[test]
    fn empty_table_says_so() {
        assert_eq!(Table::new(&["name"]).render(None), "(none)\n");
    }
}
