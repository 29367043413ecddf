//! Fields of changes, and which of them a message of the API is about.

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldKind {
    /// What the change is about. The address names it, and the form does not change it.
    Object,
    Text,
    /// One of these values, each with its text.
    Choice(&'static [(&'static str, &'static str)]),
    /// It is never in an address. The text is what browsers fill in.
    Secret(&'static str),
}

/// A field of a change.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    /// Its name in messages of the API.
    pub(crate) in_messages: &'static str,
    pub(crate) label: &'static str,
    pub(crate) kind: FieldKind,
    /// What to fill in, in a sentence.
    pub(crate) note: &'static str,
    pub(crate) is_required: bool,
}

impl Field {
    /// A field that names what the change is about.
    pub(super) const fn object(name: &'static str) -> Self {
        Self { name, in_messages: name, label: name, kind: FieldKind::Object, note: "", is_required: true }
    }

    /// A text, under the name that the API has for it.
    pub(super) const fn text(name: &'static str, label: &'static str, note: &'static str) -> Self {
        Self { name, in_messages: name, label, kind: FieldKind::Text, note, is_required: false }
    }

    pub(super) const fn choice(
        name: &'static str,
        label: &'static str,
        choices: &'static [(&'static str, &'static str)],
    ) -> Self {
        let kind = FieldKind::Choice(choices);
        Self { name, in_messages: name, label, kind, note: "", is_required: false }
    }

    pub(super) const fn secret(
        name: &'static str,
        label: &'static str,
        filled_in: &'static str,
        note: &'static str,
    ) -> Self {
        let kind = FieldKind::Secret(filled_in);
        Self { name, in_messages: name, label, kind, note, is_required: true }
    }

    /// The same field, which need not be filled in.
    pub(super) const fn optional(self) -> Self {
        Self { is_required: false, ..self }
    }

    pub(super) const fn required(self) -> Self {
        Self { is_required: true, ..self }
    }

    pub(super) const fn in_messages(self, in_messages: &'static str) -> Self {
        Self { in_messages, ..self }
    }

    /// Returns the text of a choice; none if it is none of the choices.
    pub(super) fn text_of(&self, value: &str) -> Option<&'static str> {
        let FieldKind::Choice(choices) = self.kind else { return None };
        choices.iter().find(|(one, _)| *one == value).map(|(_, text)| *text)
    }

    pub(super) fn is_object(&self) -> bool {
        self.kind == FieldKind::Object
    }

    /// Returns whether a message begins with the name of this field.
    fn is_named_by(&self, message: &str) -> bool {
        let rest = message.strip_prefix(self.in_messages);
        rest.is_some_and(|rest| !rest.starts_with(|letter: char| letter.is_alphanumeric()))
    }
}

/// Returns the field that a message of the API begins with.
pub(super) fn blamed<'f>(message: &str, fields: impl Iterator<Item = &'f Field>) -> Option<&'f Field> {
    fields.into_iter().find(|field| field.is_named_by(message))
}

/// A field with its value, as a form shows it.
pub(crate) struct FieldView {
    pub(crate) field: &'static Field,
    pub(crate) value: String,
    /// What is wrong with the value.
    pub(crate) error: String,
}

impl FieldView {
    /// A field with its value. `mistake`: the field that has one, by its name, and what is wrong.
    pub(super) fn new(field: &'static Field, value: &str, mistake: Option<&(&'static str, String)>) -> Self {
        let mistake = mistake.filter(|(name, _)| *name == field.name);
        let error = mistake.map(|(_, text)| text.clone()).unwrap_or_default();
        Self { field, value: value.to_owned(), error }
    }

    pub(crate) fn is_secret(&self) -> bool {
        matches!(self.field.kind, FieldKind::Secret(_))
    }

    /// Returns what browsers fill in.
    pub(crate) fn filled_in(&self) -> &'static str {
        match self.field.kind {
            FieldKind::Secret(text) => text,
            _ => "off",
        }
    }

    /// Returns the choices: value, text, and whether it is the present one.
    pub(crate) fn choices(&self) -> Vec<(&'static str, &'static str, bool)> {
        let FieldKind::Choice(choices) = self.field.kind else { return Vec::new() };
        choices.iter().map(|(value, text)| (*value, *text, self.value == *value)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_blame_the_field_that_they_begin_with() {
        let fields =
            [Field::text("role", "Role", ""), Field::text("user", "Name", "").in_messages("username")];
        let blamed = |message: &str| blamed(message, fields.iter()).map(|field| field.name);
        assert_eq!(blamed("role: must be one of user"), Some("role"));
        assert_eq!(blamed("role must be one of user"), Some("role"));
        assert_eq!(blamed("role[0]: must not be empty"), Some("role"));
        assert_eq!(blamed("username: 'a' is reserved"), Some("user"));
        assert_eq!(blamed("roles: no such member"), None);
        assert_eq!(blamed("the role is wrong"), None);
    }

    #[test]
    fn choices_mark_the_present_one() {
        let field: &'static Field = const { &Field::choice("s", "S", &[("a", "A"), ("b", "B")]) };
        let view = FieldView { field, value: "b".to_owned(), error: String::new() };
        assert_eq!(view.choices(), [("a", "A", false), ("b", "B", true)]);
        assert!(!view.is_secret());
        assert_eq!((field.text_of("b"), field.text_of("c")), (Some("B"), None));
    }
}
