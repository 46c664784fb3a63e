//! Bodies are objects and nothing else: code derived for a struct also takes an array, field by field, and so would accept
//! what the document does not know.

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};
use std::fmt;
use std::marker::PhantomData;

/// A shape whose fields can be read; [`objects`] makes its `Deserialize` of it.
pub(crate) trait Fields: Sized {
    /// Reads the fields.
    fn fields<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;
}

/// Reads a shape from an object.
pub(crate) fn object<'de, T: Fields, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    struct Objects<T>(PhantomData<T>);
    impl<'de, T: Fields> Visitor<'de> for Objects<T> {
        type Value = T;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
            T::fields(MapAccessDeserializer::new(map))
        }
    }
    deserializer.deserialize_map(Objects(PhantomData))
}

/// Lets shapes that derive with `remote = "Self"` be read from objects only.
macro_rules! objects {
    ($($shape:ty),* $(,)?) => {
        $(
            impl $crate::wire::object::Fields for $shape {
                fn fields<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                    // The derived one: what is the type's own goes before what is a trait's.
                    <$shape>::deserialize(deserializer)
                }
            }

            impl<'de> serde::Deserialize<'de> for $shape {
                fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                    $crate::wire::object::object(deserializer)
                }
            }
        )*
    };
}
pub(crate) use objects;

/// The same for shapes that are written too.
macro_rules! two_way {
    ($($shape:ty),* $(,)?) => {
        $crate::wire::object::objects!($($shape),*);
        $(
            impl serde::Serialize for $shape {
                fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    <$shape>::serialize(self, serializer)
                }
            }
        )*
    };
}
pub(crate) use two_way;
