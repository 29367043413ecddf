//! Pages of a mailbox.

use crate::Path;

/// Messages of a mailbox that are read at once.
///
/// An exchange of the reference knows the number of messages only, and lists from the oldest one on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessagePage {
    /// Only messages with a greater number.
    pub after: i64,
    /// Most messages.
    pub messages: u32,
    /// Most bytes of messages and keys, but at least one message.
    pub bytes: u32,
}

impl MessagePage {
    pub(super) fn of(self, mailbox: Path) -> Path {
        let page =
            mailbox.query("maxmsgs", &self.messages.to_string()).query("maxbytes", &self.bytes.to_string());
        if self.after > 0 { page.query("after", &self.after.to_string()) } else { page }
    }
}
