//! The numbers of the SQL API are those of core.

use windlass_core::limits::{
    EVENT_PAYLOAD_MAX_BYTES, GRACE_MAX_MS, HORIZON_MS, ID_TEXT_MAX_BYTES, JSON_DEPTH_MAX, KEY_MAX_BYTES,
    LEASE_MAX_MS, LEASE_MIN_MS, MAX_RETRIES_DEFAULT, MAX_RETRIES_MAX, METADATA_MAX_BYTES, NAME_MAX_BYTES,
    PAYLOAD_MAX_BYTES, PRIORITY_MAX, PRIORITY_MIN, TAGS_MAX, TEXT_MAX_BYTES, TIMEOUT_MAX_MS,
};

/// Q6: what SQL refuses is what the library refuses.
#[test]
fn the_sql_api_has_the_limits_of_core() {
    let api = include_str!("../api.sql");
    let within = |what: &str, low: i64, high: i64| format!("check_within({what}, {low}, {high})");
    let bytes = |n: usize| i64::try_from(n).expect("a limit");
    let (payload, event) = (bytes(PAYLOAD_MAX_BYTES), bytes(EVENT_PAYLOAD_MAX_BYTES));
    let (text, key) = (bytes(TEXT_MAX_BYTES), bytes(KEY_MAX_BYTES));
    let limits = [
        within("'tags', cardinality(tags)", 0, bytes(TAGS_MAX)),
        within("'priority', priority", PRIORITY_MIN, PRIORITY_MAX),
        within("'max_retries', max_retries", 0, MAX_RETRIES_MAX),
        within("'timeout', windlass.ms(timeout)", 0, TIMEOUT_MAX_MS),
        within("'lease', windlass.ms(lease)", LEASE_MIN_MS, LEASE_MAX_MS),
        within("'grace', windlass.ms(grace)", 0, GRACE_MAX_MS),
        within("'delay', windlass.ms(delay)", 0, HORIZON_MS),
        within("'payload', length(bytes)", 0, payload),
        within("'metadata', octet_length(metadata::text)", 0, bytes(METADATA_MAX_BYTES)),
        within("'agent_id', octet_length(agent_id)", 1, bytes(ID_TEXT_MAX_BYTES)),
        within("'unique_ttl', windlass.ms(unique_ttl)", 1, HORIZON_MS),
        within("'unique_key', octet_length(unique_key)", 1, key),
        within("'result', octet_length(result::text)", 0, payload),
        within("'reason', octet_length(reason)", 0, text),
        within("'force_after', windlass.ms(force_after)", 0, LEASE_MAX_MS),
        within("'payload', octet_length(payload::text)", 0, event),
        within("'key', octet_length(key)", 1, key),
        format!("interval '{} seconds'", HORIZON_MS / 1_000),
        format!("{{1,{NAME_MAX_BYTES}}}"),
        format!("must be at most {JSON_DEPTH_MAX} levels"),
        format!("max_retries int DEFAULT {MAX_RETRIES_DEFAULT}"),
    ];
    let missing: Vec<&String> = limits.iter().filter(|limit| !api.contains(*limit)).collect();
    assert!(missing.is_empty(), "api.sql does not have these limits of core: {missing:#?}");
    let counted = limits.iter().filter(|limit| limit.starts_with("check_within(")).count();
    let calls = api.matches("windlass.check_within('").count();
    assert_eq!(calls, counted, "every check_within of api.sql is listed here");
}
