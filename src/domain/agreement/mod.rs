//! Agreements between the hub and a node: where they stand, what may happen next, and why they end.
//!
//! [`hub::HubAgreement`] is the side that proposes, [`node::NodeAgreement`] the side that answers. A step consumes the state;
//! a step that is not possible says so and changes nothing, which is how messages that arrive twice are recognised. Source:
//! agreement protocol, "The Basic protocol".

pub mod hub;
pub mod node;
pub mod reason;

pub use hub::HubAgreement;
pub use node::NodeAgreement;
pub use reason::EndReason;

/// Says that an agreement cannot take a step from where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an agreement that is {from} cannot become {to}")]
pub struct InvalidTransition {
    /// Where it stands.
    pub from: &'static str,
    /// What was asked for.
    pub to: &'static str,
}
