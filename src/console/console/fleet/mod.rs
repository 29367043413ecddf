//! Pages and forms about a selection of nodes: its changes, saved views, and problems that somebody acknowledges.

pub(crate) mod attention;
mod change;
mod completion;
mod outcome;
mod plan;
mod selection;
mod views;

use axum::Router;
use axum::routing::get;

use crate::Console;

pub(crate) use change::CHANGES;
pub(crate) use completion::Completion;
pub(crate) use selection::{Choice, choice_of};
pub(crate) use views::{ViewLinks, of_page};

/// Returns the pages of this module.
pub(crate) fn routes() -> Router<Console> {
    Router::new()
        .route("/console/orgs/{org}/selection", get(outcome::show_plan).post(outcome::carry_out))
        .route("/console/orgs/{org}/selection/done", get(outcome::show_done))
        .route("/console/orgs/{org}/views/new", get(views::show_form).post(views::save))
        .route("/console/orgs/{org}/views/remove", get(views::show_removal).post(views::remove))
        .route("/console/orgs/{org}/attention/{matter}", get(attention::show).post(attention::carry_out))
}
