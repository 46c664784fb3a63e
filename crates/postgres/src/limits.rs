//! The limits of core in texts of SQL: `:NAME` stands for the constant of that name, so that each is written once.

use windlass_core::limits;

/// The constants that texts of SQL may name.
macro_rules! named {
    ($($name:ident),* $(,)?) => {
        [$((concat!(":", stringify!($name)), limits::$name as i64)),*]
    };
}

/// A text with the limits that it names.
pub(crate) fn with_limits(sql: &str) -> String {
    let limits = named![
        COST_MAX,
        EVENT_PAYLOAD_MAX_BYTES,
        GRACE_MAX_MS,
        HORIZON_MS,
        ID_TEXT_MAX_BYTES,
        JSON_DEPTH_MAX,
        KEY_MAX_BYTES,
        LEASE_MAX_MS,
        LEASE_MIN_MS,
        MAX_RETRIES_DEFAULT,
        MAX_RETRIES_MAX,
        METADATA_MAX_BYTES,
        NAME_MAX_BYTES,
        PAYLOAD_MAX_BYTES,
        PRIORITY_MAX,
        PRIORITY_MIN,
        TAGS_MAX,
        TEXT_MAX_BYTES,
        TIMEOUT_MAX_MS,
    ];
    limits.iter().fold(sql.to_owned(), |text, (name, value)| text.replace(name, &value.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (operations): every limit that the SQL API names exists, and no number of core's stands there by itself.
    #[test]
    fn every_limit_is_put_in() {
        let api = include_str!("../api.sql");
        let put_in = with_limits(api);
        let is_name = |text: &str| text.bytes().next().is_some_and(|byte| byte.is_ascii_uppercase());
        let left: Vec<&str> = put_in.split(':').skip(1).filter(|text| is_name(text)).collect();
        assert!(left.is_empty(), "{left:?}");
        for (before, after) in api.lines().filter_map(|line| line.split_once("check_within('")) {
            let numbers = after
                .split(", ")
                .filter(|part| part.trim_end_matches([')', ';', ',']).parse::<i64>().is_ok());
            assert!(numbers.count() <= 1, "only 0 and 1 are written out: {before}check_within('{after}");
        }
    }
}
