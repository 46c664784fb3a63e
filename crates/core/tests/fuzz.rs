//! What parses text from outside, with a small budget of generated texts: it answers or refuses, never panics, and what it
//! writes it reads back.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;
use std::cmp::Reverse;
use windlass_core::span::{parse_moment, parse_ms, to_text};
use windlass_core::{ApprovalId, Cursor, FeedCursor, JobId, Key, Name, Order, Timestamp, Token, Who};

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
    fn a_refusal_shows_no_hidden_character(text in any::<String>()) {
        let told = windlass_core::Invalid::new("f", &text, "must be something").to_string();
        prop_assert!(!told.chars().any(windlass_core::limits::is_hidden), "{told:?}");
        prop_assert!(told.chars().count() < 1_200, "{told:?}");
    }
}
