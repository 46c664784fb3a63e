//! Parameters that know their own PostgreSQL type, so that a statement needs no preparing: transaction-mode poolers
//! hand every transaction another server, where nothing prepared before exists.

use crate::row::Ts;
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

/// A value with its type.
pub(crate) trait Param: ToSql + Sync {
    const TYPE: Type;
}

macro_rules! typed {
    ($($rust:ty => $one:ident, $many:ident;)*) => {
        $(
            impl Param for $rust {
                const TYPE: Type = Type::$one;
            }
            impl Param for Option<$rust> {
                const TYPE: Type = Type::$one;
            }
            impl Param for Vec<$rust> {
                const TYPE: Type = Type::$many;
            }
            impl Param for Vec<Option<$rust>> {
                const TYPE: Type = Type::$many;
            }
        )*
    };
}

typed! {
    Uuid => UUID, UUID_ARRAY;
    &str => TEXT, TEXT_ARRAY;
    String => TEXT, TEXT_ARRAY;
    &[u8] => BYTEA, BYTEA_ARRAY;
    i64 => INT8, INT8_ARRAY;
    i32 => INT4, INT4_ARRAY;
    i16 => INT2, INT2_ARRAY;
    bool => BOOL, BOOL_ARRAY;
    Ts => TIMESTAMPTZ, TIMESTAMPTZ_ARRAY;
}

/// A parameter list for [`crate::db::Db`].
pub(crate) type Params<'a> = [(&'a (dyn ToSql + Sync), Type)];

/// A value with its type, as [`Params`] holds it.
pub(crate) fn param<P: Param>(value: &P) -> (&(dyn ToSql + Sync), Type) {
    (value, P::TYPE)
}

/// `params![a, b]`: values in the order of `$1`, `$2`.
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        &[$($crate::param::param(&$value)),*]
    };
}
pub(crate) use params;
