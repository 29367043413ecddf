//! Progress as a bar.

/// Width of a bar.
const BAR: u32 = 240;

/// Slots that are done and that failed, as a bar.
pub(crate) struct Progress {
    pub(crate) done: u32,
    pub(crate) total: u32,
    pub(crate) failed: u32,
}

impl Progress {
    pub(crate) fn new(done: u32, total: u32, failed: u32) -> Self {
        Self { done: done.min(total), total, failed: failed.min(total) }
    }

    /// Width of the bar for the slots that are done, of [`BAR`].
    pub(crate) fn width(&self) -> u32 {
        share(self.done, self.total)
    }

    /// Width of the bar for those that failed.
    pub(crate) fn failed_width(&self) -> u32 {
        share(self.failed, self.total).min(BAR - self.width())
    }
}

fn share(part: u32, total: u32) -> u32 {
    if total == 0 {
        return 0;
    }
    u32::try_from(u64::from(part) * u64::from(BAR) / u64::from(total)).unwrap_or(BAR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bar_never_exceeds_its_width() {
        for (done, total, failed, widths) in [
            (0, 0, 0, (0, 0)),
            (1, 2, 1, (120, 120)),
            (3, 3, 3, (240, 0)),
            (u32::MAX, 7, 0, (240, 0)),
            (1, 3, 0, (80, 0)),
        ] {
            let progress = Progress::new(done, total, failed);
            assert_eq!((progress.width(), progress.failed_width()), widths, "{done} {total} {failed}");
        }
    }
}
