//! Pages of a mailbox.

use crate::Path;

/// Part of a mailbox that is read at once.
///
/// The reference's exchange supports only the number of messages, and lists from the oldest one on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessagePage {
    /// Only messages with a greater number.
    pub after: i64,
    /// Most messages.
    pub messages: u32,
    /// Maximum number of bytes of messages and keys; at least one message is returned.
    pub bytes: u32,
}

impl MessagePage {
    pub(super) fn of(self, mailbox: Path) -> Path {
        let page =
            mailbox.query("maxmsgs", &self.messages.to_string()).query("maxbytes", &self.bytes.to_string());
        if self.after > 0 { page.query("after", &self.after.to_string()) } else { page }
    }
}
