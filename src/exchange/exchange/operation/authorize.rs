//! Asks the permission table for what an operation is about.

use std::future::ready;
use std::marker::PhantomData;

use evenkeel_access::{Permission, Right};
use evenkeel_api::{Authorized, PathParameters, RequiredAccess};

use super::pipeline::{ExchangeRequest, Op};
use crate::ApiError;
use crate::permission::{authorize, target};

impl<R: Right, P: PathParameters> Authorized<ExchangeRequest, P> for Permission<R> {
    const ACCESS: RequiredAccess = RequiredAccess::Right(R::ACCESS.name());

    fn ask<Q: Sync>(op: &Op<P, Q>) -> impl Future<Output = Result<Self, ApiError>> + Send {
        authorized::<R, P, Q>(op)
    }
}

/// A right that the handler of a read asks for itself, because the row that it reads decides.
pub(crate) struct AskedLater<R>(PhantomData<fn() -> R>);

impl<R: Right, P: PathParameters> Authorized<ExchangeRequest, P> for AskedLater<R> {
    const ACCESS: RequiredAccess = RequiredAccess::Right(R::ACCESS.name());

    fn ask<Q: Sync>(_: &Op<P, Q>) -> impl Future<Output = Result<Self, ApiError>> + Send {
        ready(Ok(AskedLater(PhantomData)))
    }
}

impl<R: Right> AskedLater<R> {
    /// Asks for the right to what the path names.
    ///
    /// # Errors
    /// See [`authorized`].
    pub(crate) async fn authorize<P: PathParameters, Q: Sync>(
        &self,
        op: &Op<P, Q>,
    ) -> Result<Permission<R>, ApiError> {
        authorized(op).await
    }
}

/// Asks for a right to what the path names.
///
/// # Errors
/// 403 with the words of the contract, or 404 when the caller may not learn whether the resource exists.
pub(crate) fn authorized<R: Right, P: PathParameters, Q>(
    op: &Op<P, Q>,
) -> impl Future<Output = Result<Permission<R>, ApiError>> + Send {
    let target = target::<R>(&op.caller, op.path.org(), op.path.id());
    authorize(&op.exchange, &op.caller, target)
}
