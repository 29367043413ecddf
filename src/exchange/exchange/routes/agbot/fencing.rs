//! Fencing numbers for the leases of an agbot.
//!
//! Tasks are published under the number of a lease, and a smaller number than the stored one is refused. So numbers are given out here: an
//! agbot that chose one itself could shut out every other for ever.

use evenkeel_access::{Permission, right};
use evenkeel_api::Created;
use evenkeel_exchange_store::fencing;
use evenkeel_wire::exchange::agbot_approval::{FencingResponse, PostFencing};

use crate::ApiError;
use crate::extract::Body;
use crate::operation::row::post;
use crate::operation::{ExchangeRequest, Op, Operation, ResourcePath};

/// Largest accepted lead of the wanted number over the last one: the record of the agbot may be newer than that of a restored exchange.
const MOST_LEAP: i64 = 1_000_000;

pub(super) fn operations() -> Vec<Operation> {
    vec![
        post("/orgs/{organization}/agbots/{agreementbot}/fencing", "create_fencing_number", create)
            .doc("agbot", "Assigns the agbot a fencing number for its leases, greater than all earlier ones")
            .unaudited(
                "nothing is decided by a number alone: tasks are published under it, and that is recorded",
            )
            .success("the number"),
    ]
}

async fn create(
    op: Op<ResourcePath>,
    permission: Permission<right::AgbotWrite>,
    Body(request): Body<PostFencing>,
) -> Result<Created<FencingResponse>, ApiError> {
    let Op { request: ExchangeRequest { exchange, .. }, path: ResourcePath { org, id }, .. } = &op;
    if request.above < 0 {
        return Err(ApiError::invalid_input("above must not be negative"));
    }
    let fencing = op
        .write(&permission, "fencing.create", async |mut tx| {
            let given = fencing::give(&mut tx, (org, id), request.above, MOST_LEAP, exchange.now()).await;
            let given = given.map_err(|error| {
                ApiError::from(error).explain("agbot_fencing_agbot_fk", || {
                    ApiError::not_found(format!("agbot '{org}/{id}' not found"))
                })
            })?;
            let rule = || format!("above must not be more than {MOST_LEAP} above the last number");
            tx.finish_with([], given.ok_or_else(|| ApiError::invalid_input(rule()))?)
        })
        .await?;
    Ok(Created(FencingResponse { fencing }))
}
