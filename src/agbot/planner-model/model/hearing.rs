//! Silence of nodes, as far as the hub could receive their heartbeats.
//!
//! A node is silent when it sends no heartbeat, and not when heartbeats cannot be read: while the exchange is
//! down, or the agbot is suspended, no time passes for nodes. Afterwards they get the time to find the hub
//! again that they get after a start of the agbot. Source: orchestration A10.3, A10.5, P1.

use evenkeel_domain::orchestration::org_settings::OrgSettings;
use evenkeel_ids::NodeId;
use evenkeel_planner_record::time::{later, secs_since};
use jiff::Timestamp;

use super::Model;

/// Longest pause between two reads of heartbeats.
const LONGEST_PERIOD_SECS: u64 = 10;

fn period_secs(node_down_after_secs: u64) -> u64 {
    (node_down_after_secs / 4).clamp(1, LONGEST_PERIOD_SECS)
}

/// Maximum number of gaps that are recorded; older ones are merged.
const GAPS: usize = 4;

/// A time span in which no heartbeat could be read: from the last read before it to the first one after it.
type Gap = (Timestamp, Timestamp);

/// When the heartbeats of an organization's nodes were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hearing {
    /// The last time.
    read_at: Timestamp,
    /// The last gaps, newest first.
    gaps: [Option<Gap>; GAPS],
}

impl Hearing {
    /// Returns what holds after the first read.
    pub fn begun(at: Timestamp) -> Self {
        Self { read_at: at, gaps: [None; GAPS] }
    }

    /// Returns what holds after another read; `timeout_secs`: time that may pass between two of them.
    fn continued(mut self, at: Timestamp, timeout_secs: u64) -> Self {
        if at > later(self.read_at, timeout_secs) {
            let [.., kept, oldest] = &mut self.gaps;
            // The time between the two counts as unheard as well, which makes no node silent.
            if let (Some(kept), Some((from, _))) = (kept, oldest) {
                kept.0 = *from;
            }
            self.gaps.rotate_right(1);
            self.gaps[0] = Some((self.read_at, at));
        }
        Self { read_at: self.read_at.max(at), ..self }
    }

    /// Returns when heartbeats were read last.
    pub fn read_at(self) -> Timestamp {
        self.read_at
    }

    /// Follows a clock that was set back.
    pub fn set_back(&mut self, now: Timestamp) {
        *self = Self::begun(self.read_at.min(now));
    }

    /// Returns the seconds of silence of a node that was last heard at `seen`. When the next read is overdue, nothing after the last one
    /// counts: the exchange may be down, or the clock was set ahead.
    fn silence(self, seen: Timestamp, now: Timestamp, timeout_secs: u64) -> u64 {
        let is_overdue = now > later(self.read_at, timeout_secs);
        self.heard_secs(seen, if is_overdue { self.read_at } else { now })
    }

    /// Returns the seconds between two instants in which heartbeats could be read.
    fn heard_secs(self, from: Timestamp, until: Timestamp) -> u64 {
        let overlap = |(begin, end): Gap| secs_since(begin.max(from), end.min(until));
        let unheard: u64 = self.gaps.into_iter().flatten().map(overlap).sum();
        secs_since(from, until).saturating_sub(unheard)
    }

    /// Returns the end of the last gap, if a node that was last heard at `seen` was not down before it; `limit_secs`: silence after
    /// which it is.
    fn gap_end(self, seen: Timestamp, limit_secs: u64) -> Option<Timestamp> {
        let (from, until) = self.gaps[0]?;
        (seen <= until && self.heard_secs(seen, from) < limit_secs).then_some(until)
    }
}

impl Model {
    /// Returns the pause between two reads of heartbeats: the age of what was read last must not make a living node appear silent.
    pub fn heartbeat_period_secs(&self) -> u64 {
        let orgs = self.org_settings.values().filter_map(OrgSettings::node_down_after_secs);
        let shortest = orgs.chain([self.settings.node_down_after_secs]).min().unwrap_or_default();
        period_secs(shortest)
    }

    /// Returns the time that may pass between two reads before it counts as none in which the nodes of an organization are silent.
    fn timeout_secs(&self, org: &str) -> u64 {
        period_secs(self.node_down_after_secs(org)) * 2
    }

    /// Returns when the heartbeats of an organization's nodes were read: before the model began to be filled, others may have read them.
    fn hearing_of(&self, org: &str) -> Option<Hearing> {
        let before = || {
            let (began_at, alive_at) = (self.began_at?, self.hub_alive_at?);
            Some(Hearing::begun(alive_at.min(began_at)).continued(began_at, self.timeout_secs(org)))
        };
        self.hearings.get(org).copied().or_else(before)
    }

    /// Returns when a heartbeat arrived that was read now. Neither the clock of the exchange nor the age of what was read makes a node
    /// silent whose heartbeat has changed since the last read.
    pub(super) fn heard_at(&self, node: &NodeId, stored: Timestamp, now: Timestamp) -> Timestamp {
        let since = self.hearings.get(node.org()).map_or(stored, |hearing| hearing.read_at());
        stored.max(since).min(now)
    }

    /// Returns whether a node was down already when the hub was last alive before the model began to be filled.
    pub fn was_down_before(&self, node: &NodeId) -> bool {
        let seen = self.nodes.get(node).and_then(|record| record.facts.last_heartbeat);
        seen.zip(self.hub_alive_at)
            .is_some_and(|(seen, alive)| secs_since(seen, alive) >= self.node_down_after_secs(node.org()))
    }

    /// Records that the heartbeats of the organizations of these nodes were read.
    pub(super) fn hear<'n>(&mut self, nodes: impl Iterator<Item = &'n NodeId>, now: Timestamp) {
        let mut last = "";
        for org in nodes.map(NodeId::org) {
            // They are sorted by organization.
            if org != std::mem::replace(&mut last, org) {
                let timeout_secs = self.timeout_secs(org);
                let known = self.hearings.get(org).copied().or(self.hub_alive_at.map(Hearing::begun));
                let known = known.map(|known| known.continued(now, timeout_secs));
                self.hearings.insert(org.to_owned(), known.unwrap_or_else(|| Hearing::begun(now)));
            }
        }
    }

    /// Returns until when a node may still be reconnecting after a time in which no heartbeat could be
    /// received.
    pub(super) fn rejoins_until(&self, node: &NodeId, seen: Timestamp) -> Option<Timestamp> {
        let limit_secs = self.node_down_after_secs(node.org());
        let gap_end = self.hearing_of(node.org())?.gap_end(seen, limit_secs)?;
        Some(later(gap_end, self.rejoin_grace_secs(node.org())))
    }

    /// Returns the seconds between two heartbeats of a node, or since its last one, in which it could have been heard.
    pub(super) fn silence_secs(&self, node: &NodeId, seen: Timestamp, now: Timestamp) -> u64 {
        match self.hearing_of(node.org()) {
            Some(hearing) => hearing.silence(seen, now, self.timeout_secs(node.org())),
            None => secs_since(seen, now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_second(1_000 + secs).expect("a valid time")
    }

    #[test]
    fn time_in_which_nothing_was_read_is_no_silence() {
        let hearing = Hearing::begun(at(100));
        assert_eq!(hearing.silence(at(90), at(115), 20), 25);
        assert_eq!(hearing.silence(at(90), at(900), 20), 10, "nothing was read since");
        let resumed = hearing.continued(at(900), 20);
        assert_eq!(resumed.silence(at(90), at(905), 20), 15, "the gap from 100 to 900 does not count");
        assert_eq!(resumed.silence(at(890), at(905), 20), 5, "heard by others within the gap");
        assert_eq!(resumed.silence(at(903), at(905), 20), 2);
        let next = resumed.continued(at(910), 20);
        assert_eq!(next.silence(at(90), at(915), 20), 25, "the gap is remembered");
        assert_eq!(next.gap_end(at(85), 30), Some(at(900)));
        assert_eq!(next.gap_end(at(70), 30), None, "it was down before");
        assert_eq!(next.gap_end(at(901), 30), None);
    }

    #[test]
    fn gaps_add_up_and_any_number_of_them_makes_no_node_silent() {
        let mut hearing = Hearing::begun(at(0));
        for end in 1..=9 {
            hearing = hearing.continued(at(end * 1_000 - 5), 20).continued(at(end * 1_000), 20);
            let silence = hearing.silence(at(-3), at(end * 1_000 + 2), 20);
            assert!(silence <= 5 + 5 * GAPS as u64, "{silence} s after {end} gaps");
            assert_eq!(hearing.gap_end(at(-3), 40), Some(at(end * 1_000 - 5)));
        }
    }
}
