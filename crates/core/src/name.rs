//! Short checked texts. A value of these types is valid by construction, so no store checks again.

use crate::limits::{self, ACTOR_MAX_BYTES, ID_TEXT_MAX_BYTES, Invalid, KEY_MAX_BYTES, NAME_MAX_BYTES};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

macro_rules! checked_text {
    ($(#[$doc:meta])* $name:ident, $check:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks `value`; `field` is what a refusal calls it.
            pub fn parse(field: &str, value: impl AsRef<str>) -> Result<Self, Invalid> {
                let value = value.as_ref();
                let check: fn(&str, &str) -> Result<(), Invalid> = $check;
                check(field, value)?;
                Ok(Self(Arc::from(value)))
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl TryFrom<String> for $name {
            type Error = Invalid;
            fn try_from(value: String) -> Result<Self, Invalid> {
                Self::parse(stringify!($name), value)
            }
        }

        impl TryFrom<&str> for $name {
            type Error = Invalid;
            fn try_from(value: &str) -> Result<Self, Invalid> {
                Self::parse(stringify!($name), value)
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> String {
                value.0.as_ref().to_owned()
            }
        }
    };
}

checked_text!(
    /// A kind, queue, tag, step, signal, approval or term name: 1–128 of `A-Za-z0-9._:-`.
    Name,
    check_name
);
checked_text!(
    /// Who holds or asks: a worker id, an agent id, a term holder. 1–128 bytes of text without controls.
    Who,
    check_who
);
checked_text!(
    /// Who did it: `api`, `worker:…`, `operator:…`, `engine`, `sql:…`. 1–160 bytes of text without controls.
    Actor,
    check_actor
);
checked_text!(
    /// A caller's key: unique key, event key, idempotency key. 1–512 bytes without NUL.
    Key,
    check_key
);

impl Actor {
    /// The engine itself: sweeps, lost leases, expiries.
    pub fn engine() -> Self {
        Self(Arc::from("engine"))
    }

    /// A caller of the API.
    pub fn api() -> Self {
        Self(Arc::from("api"))
    }

    /// A worker. A worker id is short enough for this always to be an actor.
    pub fn worker(id: &Who) -> Self {
        Self(Arc::from(format!("worker:{id}")))
    }

    /// The holder of an access key. Its name is short enough for this always to be an actor.
    pub fn key(name: &Who) -> Self {
        Self(Arc::from(format!("key:{name}")))
    }

    /// The holder of an approval's link.
    pub fn link() -> Self {
        Self(Arc::from("link"))
    }

    /// Which worker it is, if it is one.
    pub fn worker_id(&self) -> Option<Who> {
        self.0.strip_prefix("worker:").map(|id| Who(Arc::from(id)))
    }
}

/// Keys of the engine's own, such as those of recorded steps.
const ENGINE_KEYS: &str = "windlass:";

impl Key {
    /// A key of the engine's own.
    pub(crate) fn engine(text: &str) -> Self {
        Self(Arc::from(format!("{ENGINE_KEYS}{text}")))
    }

    /// A key that a store wrote, as it stands.
    pub fn stored(text: &str) -> Self {
        Self(Arc::from(text))
    }
}

impl Name {
    /// Stands where a stored name does not read back.
    pub fn unreadable() -> Self {
        Self::word("unreadable")
    }

    /// A word of the engine's own, such as an action in the audit.
    pub(crate) fn word(word: &'static str) -> Self {
        Self(Arc::from(word))
    }
}

impl Who {
    /// A word of the engine's own, such as an error code.
    pub(crate) fn word(word: &'static str) -> Self {
        Self(Arc::from(word))
    }
}

fn check_name(field: &str, value: &str) -> Result<(), Invalid> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"._:-".contains(&b);
    if value.is_empty() || value.len() > NAME_MAX_BYTES || !value.bytes().all(allowed) {
        return Err(Invalid::new(field, quoted(value), "must be 1 to 128 characters of A-Z a-z 0-9 . _ : -"));
    }
    Ok(())
}

fn check_who(field: &str, value: &str) -> Result<(), Invalid> {
    check_plain(field, value, ID_TEXT_MAX_BYTES)
}

fn check_actor(field: &str, value: &str) -> Result<(), Invalid> {
    check_plain(field, value, ACTOR_MAX_BYTES)
}

fn check_plain(field: &str, value: &str, max: usize) -> Result<(), Invalid> {
    if value.is_empty() || value.len() > max || value.chars().any(char::is_control) {
        let limit = format!("must be 1 to {max} bytes of text without control characters");
        return Err(Invalid::new(field, quoted(value), limit));
    }
    Ok(())
}

fn check_key(field: &str, value: &str) -> Result<(), Invalid> {
    if value.starts_with(ENGINE_KEYS) {
        return Err(Invalid::new(
            field,
            quoted(value),
            "must not start with windlass:, which is the engine's own",
        ));
    }
    if value.is_empty() {
        return Err(Invalid::new(field, quoted(value), "must not be empty; leave it out to have no key"));
    }
    limits::text(field, value, KEY_MAX_BYTES)
}

fn quoted(value: &str) -> String {
    let start: String = value.chars().take(60).collect();
    if start.len() < value.len() {
        format!("\"{start}…\" ({} bytes)", value.len())
    } else {
        format!("\"{start}\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_refuse_what_the_limits_refuse() {
        for bad in ["", "a b", "a\0", "ä", "a/b", &"x".repeat(129)] {
            let refused = Name::parse("queue", bad).unwrap_err();
            assert_eq!(refused.field, "queue", "{bad:?}");
        }
        assert_eq!(Name::parse("queue", "a.B_9:-").unwrap().as_str(), "a.B_9:-");
        assert!(Key::parse("key", "").is_err());
        assert!(Key::parse("key", "a\0b").is_err());
        assert!(Key::parse("key", "windlass:step:0:pay").is_err(), "nobody can stand in for a step");
        assert!(Who::parse("worker_id", "a\nb").is_err());
    }
}
