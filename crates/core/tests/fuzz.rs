//! What parses text from outside, with a small budget of generated texts: it answers or refuses, never panics, and what it
//! writes it reads back.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;
use proptest::string::string_regex;
use serde_json::{Value, json};
use std::cmp::Reverse;
use windlass_core::schedule::cron::Cron;
use windlass_core::span::{parse_moment, parse_ms, to_text};
use windlass_core::trigger::webhook::{Signed, WebhookSecret};
use windlass_core::trigger::{TriggerEvent, TriggerEventDetail, template};
use windlass_core::{
    Actor, ApprovalId, Cursor, FeedCursor, JobId, Key, Name, Order, Payload, Rate, Timestamp, Token,
    TriggerEventId, Who,
};

const ORDERS: [Order; 5] = [Order::Created, Order::Finished, Order::Due, Order::Worker, Order::Parked];

/// Any text, and texts that look like lengths of time, dates and ids.
fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[-+]?[0-9.]{0,20}(ms|s|m|min|h|d|x)?([0-9]{1,3}(ms|s|m|h))?",
        "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{0,20}(Z|[+-][0-9:]{0,5})?",
        "[0-9a-f]{0,70}",
        "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
        "[a-z]1[0-9a-f]{0,200}",
    ]
}

/// Texts that look like the clock of a schedule.
fn crons() -> impl Strategy<Value = String> {
    let field =
        "([*?LW]|[0-9]{1,3}|[0-9]{1,2}-[0-9]{1,2}|MON|mon-fri|FEB|5#3|5L|15W)(/[0-9]{1,3})?(,[0-9]{1,2})?";
    prop_oneof![
        any::<String>(),
        "@[a-z]{1,8}",
        string_regex(&format!("({field} ){{4,6}}{field}")).unwrap(),
        "[0-9]{1,2} [0-9]{1,2} [0-9]{1,2} [0-9]{1,2} [0-9*]"
    ]
}

fn rates() -> impl Strategy<Value = String> {
    prop_oneof![any::<String>(), "[-+ ]?[0-9]{0,12} ?/ ?[0-9]{0,9}(ms|s|m|h|d|x)?( in bursts of [0-9]{1,9})?"]
}

/// Texts with places in them.
fn templates() -> impl Strategy<Value = String> {
    let place = "\\{\\{ ?(payload|event|trigger)(\\.(a|b|0|1|id|dedupe_key|received_at|))?(\\.[a-c0-9]{0,3})?\\?? ?\\}?\\}?";
    prop_oneof![
        any::<String>(),
        place,
        string_regex(&format!("[a-z{{}}]{{0,4}}{place}\\PC{{0,4}}{place}")).unwrap()
    ]
}

fn payloads() -> impl Strategy<Value = Value> {
    let texts = any::<String>().prop_map(Value::from);
    prop_oneof![
        Just(Value::Null),
        texts.clone(),
        any::<i64>().prop_map(Value::from),
        prop::collection::vec(texts.clone(), 0..3).prop_map(Value::from),
        texts.prop_map(|text| json!({ "a": { "b": text }, "b": [1, { "c": null }] })),
    ]
}

/// What stands in the header with signatures.
fn signatures() -> impl Strategy<Value = String> {
    prop_oneof![any::<String>(), "(v[0-9]a?,[A-Za-z0-9+/=]{0,60} ?){0,12}", "whsec_[A-Za-z0-9+/=]{0,60}"]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_text_breaks_a_parser(text in texts(), now in any::<i64>()) {
        let now = Timestamp::from_micros(now);
        let _ = (parse_ms("f", &text), parse_moment("f", &text, now), Timestamp::parse("f", &text));
        let _ = (JobId::parse(&text), ApprovalId::parse(&text), Token::parse(&text), FeedCursor::parse(&text));
        let _ = (Name::parse("f", &text), Who::parse("f", &text), Key::parse("f", &text));
        for order in ORDERS {
            let _ = Cursor::parse(&text, order);
        }
    }

    #[test]
    fn spans_are_never_negative_and_read_back(text in texts(), ms in 0i64..600_000_000_000) {
        if let Ok(ms) = parse_ms("f", &text) {
            prop_assert!(ms >= 0, "{text}");
        }
        prop_assert_eq!(parse_ms("f", &to_text(ms)).unwrap(), ms);
    }

    #[test]
    fn cursors_read_back_and_no_changed_one_breaks(at in any::<i64>(), id in any::<[u8; 8]>(), cut in 0usize..80, change in any::<char>()) {
        let id = JobId::from_parts(Timestamp::from_micros(at.rem_euclid(1 << 50)), id);
        let cursors = [
            (Cursor::Created(Reverse(id)), Order::Created),
            (Cursor::Finished(Reverse((Timestamp::from_micros(at), id))), Order::Finished),
        ];
        for (cursor, order) in cursors {
            let text = cursor.to_text();
            prop_assert_eq!(&Cursor::parse(&text, order).unwrap(), &cursor);
            let changed: String = text.chars().enumerate().map(|(n, c)| if n == cut { change } else { c }).collect();
            let shorter: String = text.chars().take(cut).collect();
            for order in ORDERS {
                let _ = (Cursor::parse(&changed, order), Cursor::parse(&shorter, order));
            }
        }
    }

    #[test]
    fn no_cron_text_breaks_its_parser_and_slots_only_go_on(text in crons(), at in 0i64..4_000_000_000_000_000) {
        let Ok(cron) = Cron::parse(&text) else { return Ok(()) };
        let zone = jiff::tz::TimeZone::get("Europe/Berlin").unwrap();
        let at = jiff::Timestamp::from_microsecond(at).unwrap();
        if let Some(next) = cron.next(at, &zone) {
            prop_assert!(next > at, "{text}: {next} is not after {at}");
        }
    }

    #[test]
    fn no_rate_breaks_its_parser(text in rates()) {
        let Ok(rate) = Rate::parse("rate", &text) else { return Ok(()) };
        if rate.check("rate").is_ok() {
            prop_assert_eq!(Rate::parse("rate", &rate.to_string()).unwrap(), rate, "{} reads back", text);
        }
    }

    #[test]
    fn no_template_breaks_a_trigger(text in templates(), payload in payloads()) {
        let template = json!({ "a": text, "b": [text] });
        let checked = template::check("payload", &template);
        let event = TriggerEvent {
            id: TriggerEventId::from_parts(Timestamp::from_micros(0), [0; 8]),
            trigger: Name::parse("trigger", "t").unwrap(),
            dedupe_key: None,
            payload: Some(Payload::json("payload", payload.to_string().into_bytes(), 1 << 20).unwrap()),
            actor: Actor::parse("actor", "api").unwrap(),
            received_at: Timestamp::from_micros(0),
            due_at: None,
            processed_at: None,
            detail: TriggerEventDetail::default(),
        };
        let filled = template::fill("payload", &template, &event);
        prop_assert!(checked.is_ok() || filled.is_err(), "what is refused when it is put is not filled in: {text}");
        if let Ok(filled) = filled {
            prop_assert!(serde_json::from_slice::<Value>(filled.as_bytes()).is_ok());
        }
    }

    #[test]
    fn no_header_breaks_a_webhook_and_only_the_right_one_opens(
        id in any::<String>(), timestamp in "[-+]?[0-9]{0,20}|\\PC{0,9}", signatures in signatures(), body in any::<Vec<u8>>(), secret in any::<[u8; 24]>(), now in 0i64..4_000_000_000_000_000
    ) {
        let secrets = [WebhookSecret::from_bytes(secret).unwrap()];
        let now = Timestamp::from_micros(now);
        let signed = Signed { id: &id, timestamp: &timestamp, body: &body };
        prop_assert!(signed.verify(&signatures, &secrets, 300_000, now).is_err(), "{signatures}");
        let timestamp = (now.as_micros() / 1_000_000).to_string();
        let signed = Signed { timestamp: &timestamp, ..signed };
        prop_assert!(signed.verify(&signatures, &secrets, 300_000, now).is_err(), "{signatures}");
        let right = format!("v1,wrong {}", secrets[0].sign(&signed));
        prop_assert!(signed.verify(&right, &secrets, 300_000, now).is_ok());
        let _ = WebhookSecret::parse(&signatures);
    }

    #[test]
    fn a_refusal_shows_no_hidden_character(text in any::<String>()) {
        let told = windlass_core::Invalid::new("f", &text, "must be something").to_string();
        prop_assert!(!told.chars().any(windlass_core::limits::is_hidden), "{told:?}");
        prop_assert!(told.chars().count() < 1_200, "{told:?}");
    }
}
