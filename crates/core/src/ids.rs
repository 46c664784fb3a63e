//! Identities. Jobs and approvals are UUIDv7: sortable by creation, never an ordering guarantee.

use crate::limits::Invalid;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::fmt;
use uuid::Uuid;

macro_rules! uuid_v7 {
    ($(#[$doc:meta])* $name:ident, $field:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// A version 7 id from its parts: when, to the microsecond, and 62 random bits. The application makes
            /// ids, so that a repeated request is recognised. They sort by creation within a millisecond too.
            pub fn from_parts(at: Timestamp, random: [u8; 8]) -> Self {
                let micros = u64::try_from(at.as_micros()).unwrap_or(0);
                let fraction = (micros % 1_000 * 4_096 / 1_000) as u16;
                let mut bytes = [0u8; 16];
                bytes[..6].copy_from_slice(&(micros / 1_000).to_be_bytes()[2..]);
                bytes[6..8].copy_from_slice(&(0x7000 | fraction).to_be_bytes());
                bytes[8..].copy_from_slice(&random);
                bytes[8] = 0x80 | (bytes[8] & 0x3f);
                Self(Uuid::from_bytes(bytes))
            }

            /// Parses the textual form.
            pub fn parse(value: &str) -> Result<Self, Invalid> {
                let id = Uuid::try_parse(value).map_err(|_| Invalid::new($field, value, "must be a UUID"))?;
                Self::from_uuid(id)
            }

            /// Accepts a UUID of version 7.
            pub fn from_uuid(id: Uuid) -> Result<Self, Invalid> {
                if id.get_version_num() != 7 {
                    return Err(Invalid::new($field, id, "must be a UUID of version 7"));
                }
                Ok(Self(id))
            }

            /// The UUID.
            pub const fn as_uuid(&self) -> &Uuid {
                &self.0
            }

            /// The sixteen bytes.
            pub const fn as_bytes(&self) -> &[u8; 16] {
                self.0.as_bytes()
            }

            /// From bytes that a store wrote.
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(Uuid::from_bytes(bytes))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

uuid_v7!(
    /// The identity of a job.
    JobId,
    "id"
);
uuid_v7!(
    /// The identity of an approval.
    ApprovalId,
    "approval id"
);
uuid_v7!(
    /// The identity of an event of a trigger.
    TriggerEventId,
    "event id"
);
