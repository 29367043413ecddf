//! The state of policies, instances and rollouts as users see it, read from the model.
//!
//! Nothing here plans: what something waits for is found by the crates above, which repeat the decision. Source: orchestration A9, D11.

pub mod present_state;
pub mod rollout_detail;
pub mod status;
