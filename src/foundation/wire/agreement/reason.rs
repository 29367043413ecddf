//! Reason codes of cancelled agreements (agreement protocol 2.7).

/// The node's policy changed and no longer fits.
pub const NODE_POLICY_CHANGED: u64 = 101;
/// The service's containers or processes ended.
pub const SERVICE_TERMINATED: u64 = 103;
/// The service did not start in time.
pub const START_TIMEOUT: u64 = 104;
/// A user of the node asked for it.
pub const NODE_USER_REQUESTED: u64 = 105;
/// The agbot requested it, or reports that the agreement does not exist.
pub const AGBOT_REQUESTED: u64 = 106;
/// No acknowledgement of the reply arrived in time.
pub const NO_REPLY_ACK: u64 = 107;
/// A service that it needs failed.
pub const DEPENDENCY_FAILED: u64 = 108;
/// The image of a service that it needs could not be read.
pub const DEPENDENCY_IMAGE_LOAD_FAILED: u64 = 110;
/// The image of a service that it needs could not be fetched.
pub const DEPENDENCY_IMAGE_FETCH_FAILED: u64 = 117;
/// The image could not be read.
pub const IMAGE_LOAD_FAILED: u64 = 109;
/// The image data is wrong.
pub const IMAGE_DATA_ERROR: u64 = 112;
/// The image could not be fetched.
pub const IMAGE_FETCH_FAILED: u64 = 113;
/// Fetching the image was not allowed.
pub const IMAGE_FETCH_UNAUTHORIZED: u64 = 114;
/// The node was unregistered or shut down.
pub const NODE_UNREGISTERED: u64 = 116;
/// The service was suspended on the node.
pub const SERVICE_SUSPENDED: u64 = 119;
/// The node's user input changed.
pub const NODE_USER_INPUT_CHANGED: u64 = 120;
/// The agbot did not respond to repeated verifications.
pub const VERIFICATION_FAILED: u64 = 122;
/// No reason is defined.
pub const UNDEFINED: u64 = 999;

/// The human-readable reason.
pub fn describe(code: u64) -> &'static str {
    match code {
        101 => "the node's policy changed",
        103 => "the service terminated",
        104 => "the service did not start in time",
        105 => "a user of the node cancelled it",
        106 => "the agbot cancelled it",
        107 => "the agbot did not acknowledge the reply",
        108 => "a dependency failed",
        109 => "the service's image could not be loaded",
        110 => "a dependency's image could not be loaded",
        111 => "a dependency's upgrade requires it",
        112 => "the image data is invalid",
        113 => "the image could not be fetched",
        114 => "fetching the image was not authorised",
        115 => "the image's signature could not be verified",
        116 => "the node was unregistered or shut down",
        117 => "a dependency's image could not be fetched",
        118 => "a dependency failed and must be downgraded",
        119 => "the service is suspended on the node",
        120 => "the node's user input changed",
        121 => "the node's pattern changed",
        122 => "the agbot did not respond to repeated verifications",
        201 => "the node did not respond to the proposal",
        202 => "the node refused the proposal",
        203 => "no data was received",
        204 => "a policy or pattern changed",
        205 => "the cancellation was discovered",
        206 => "a user of the agbot cancelled it",
        207 => "an upgrade was forced",
        208 => "the node's heartbeat is missing",
        209 => "the agreement is missing on the node",
        210 => "the node refused an update of the agreement",
        999 => "no reason was given",
        _ => "unknown reason code, the other side may be of a newer version",
    }
}
