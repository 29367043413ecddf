//! Asks the permission table for what an operation is about.

use std::future::ready;
use std::marker::PhantomData;

use evenkeel_access::{Access, Permission, Right};

use super::pipeline::{Op, PathParameters};
use crate::ApiError;
use crate::permission::{authorize, target};

/// The argument by which a handler names the right that its operation needs.
pub(crate) trait Grant: Sized + Send {
    /// The right.
    const ACCESS: Access;

    /// Asks for it before the handler is called.
    ///
    /// # Errors
    /// See [`Op::authorize`].
    fn of<P: PathParameters, Q: Sync>(op: &Op<P, Q>) -> impl Future<Output = Result<Self, ApiError>> + Send;
}

impl<R: Right> Grant for Permission<R> {
    const ACCESS: Access = R::ACCESS;

    fn of<P: PathParameters, Q: Sync>(op: &Op<P, Q>) -> impl Future<Output = Result<Self, ApiError>> + Send {
        op.authorize::<R>()
    }
}

/// A right that the handler of a read asks for itself, because the row that it reads decides.
pub(crate) struct AskedLater<R>(PhantomData<fn() -> R>);

impl<R: Right> Grant for AskedLater<R> {
    const ACCESS: Access = R::ACCESS;

    fn of<P: PathParameters, Q: Sync>(_: &Op<P, Q>) -> impl Future<Output = Result<Self, ApiError>> + Send {
        ready(Ok(AskedLater(PhantomData)))
    }
}

impl<R: Right> AskedLater<R> {
    /// Asks for the right to what the path names.
    ///
    /// # Errors
    /// See [`Op::authorize`].
    pub(crate) async fn authorize<P: PathParameters, Q: Sync>(
        &self,
        op: &Op<P, Q>,
    ) -> Result<Permission<R>, ApiError> {
        op.authorize().await
    }
}

impl<P: PathParameters, Q> Op<P, Q> {
    /// Asks for a right to what the path names.
    ///
    /// # Errors
    /// 403 with the words of the contract, or 404 when the caller may not learn whether the resource exists.
    pub(crate) fn authorize<R: Right>(&self) -> impl Future<Output = Result<Permission<R>, ApiError>> + Send {
        let target = target::<R>(&self.caller, self.path.org(), self.path.id());
        authorize(&self.exchange, &self.caller, target)
    }
}
