//! The agbot inside a hub, asked as nodes ask it.

mod administer;
mod privacy;
mod rolling;
mod served;
mod upgrade;
