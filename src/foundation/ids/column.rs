//! Ids as columns of type text.

use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArgumentBuffer, PgHasArrayType, PgTypeInfo, PgValueRef};
use sqlx::{Decode, Encode, Postgres, Type};

use crate::{
    AgbotId, AgreementId, GroupId, NmpId, NodeId, OrgId, PatternId, PolicyId, ServiceId, ServiceKey, TaskId,
};

macro_rules! column {
    ($($name:ident: $read:expr,)*) => {$(
        impl Type<Postgres> for $name {
            fn type_info() -> PgTypeInfo {
                <&str as Type<Postgres>>::type_info()
            }

            fn compatible(info: &PgTypeInfo) -> bool {
                <&str as Type<Postgres>>::compatible(info)
            }
        }

        impl PgHasArrayType for $name {
            fn array_type_info() -> PgTypeInfo {
                <&str as PgHasArrayType>::array_type_info()
            }
        }

        impl Encode<'_, Postgres> for $name {
            fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
                <&str as Encode<Postgres>>::encode_by_ref(&self.as_str(), buffer)
            }
        }

        impl<'r> Decode<'r, Postgres> for $name {
            fn decode(value: PgValueRef<'r>) -> Result<Self, BoxDynError> {
                let read: fn(&str) -> Result<Self, BoxDynError> = $read;
                read(<&str as Decode<Postgres>>::decode(value)?)
            }
        }
    )*};
}

column! {
    AgbotId: |text| Ok(Self::from_text(text)),
    AgreementId: |text| Ok(Self::from_text(text)),
    GroupId: |text| Ok(Self::from_text(text)),
    NmpId: |text| Ok(Self::from_text(text)),
    NodeId: |text| Ok(Self::from_text(text)),
    OrgId: |text| Ok(text.parse()?),
    PatternId: |text| Ok(Self::from_text(text)),
    PolicyId: |text| Ok(Self::from_text(text)),
    ServiceId: |text| Ok(Self::from_text(text)),
    ServiceKey: |text| Ok(Self::from_text(text)),
    TaskId: |text| Ok(Self::from_text(text)),
}
