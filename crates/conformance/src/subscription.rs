//! Subscriptions: what people set, what the leader notes, and what goes when one is removed.

use crate::unreadable::Planter;
use crate::{Bed, at, is_invalid, name, time};
use windlass_core::subscription::{Begin, GIVE_UP_MS, Selection, Subscription, TIMEOUT_MS, Target};
use windlass_core::{Actor, Refusal};
use windlass_store::{
    Advance, Credential, Delivery, Findings, PauseSubscription, PutSubscription, ReadAudit,
    RemoveSubscription, ReportSubscription, SubscriptionState,
};

/// This module's laws, as tests.
#[macro_export]
macro_rules! subscription_laws {
    ($($make:tt)*) => {
        $crate::law_tests!(
            [$($make)*],
            subscription: a_subscription_is_changed_under_a_version,
            a_subscription_that_cannot_be_delivered_is_refused,
            a_credential_is_kept_until_another_is_given,
            what_fails_for_too_long_is_paused,
            what_is_gone_is_paused_at_once,
            a_stale_leader_or_version_notes_nothing,
            a_removed_subscription_takes_its_place_along,
            what_people_do_to_subscriptions_is_in_the_audit,
        );
    };
}

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn ann() -> Actor {
    Actor::try_from("key:ann").expect("an actor")
}

fn to(url: &str) -> Subscription {
    Subscription {
        select: Selection { queues: vec![name("mail")], ..Selection::default() },
        target: Target::Webhook { url: url.to_owned(), timeout_ms: TIMEOUT_MS },
        from: Begin::Start,
        give_up_ms: GIVE_UP_MS,
    }
}

fn put(which: &str, subscription: Subscription, secret: Option<&str>) -> PutSubscription {
    let credential = secret.map(|text| Credential::parse(&subscription.target, text).expect("a secret"));
    PutSubscription { name: name(which), subscription, credential, expected_version: None, actor: ann() }
}

impl Bed {
    async fn puts_subscription(
        &self,
        request: PutSubscription,
        ms: i64,
    ) -> Result<SubscriptionState, Refusal> {
        self.store.put_subscription(request, at(ms)).await.expect("the store answers")
    }

    async fn notes(&self, epoch: i64, delivery: Delivery, ms: i64) -> Result<SubscriptionState, Refusal> {
        let version = 1;
        let request = ReportSubscription { term: name("leader"), epoch, name: name("a"), version, delivery };
        self.store.report_subscription(request, at(ms)).await.expect("the store answers")
    }

    async fn pauses_subscription(&self, why: Option<&str>, ms: i64) -> Result<SubscriptionState, Refusal> {
        let request = PauseSubscription { name: name("a"), why: why.map(str::to_owned), actor: ann() };
        self.store.pause_subscription(request, at(ms)).await.expect("the store answers")
    }
}

/// (subscriptions) Made, shown, changed; a change from another version is refused, and the same again changes nothing.
pub async fn a_subscription_is_changed_under_a_version(bed: Bed) {
    let one = put("a", to("https://a.example/1"), Some(SECRET));
    let made = bed.puts_subscription(one.clone(), 1).await.expect("made");
    assert_eq!((made.version, made.created_at, made.paused.is_none()), (1, time(1), true));
    assert_eq!(bed.puts_subscription(one.clone(), 2).await.expect("the same").version, 1);
    let other = put("a", to("https://a.example/2"), None);
    let stale = PutSubscription { expected_version: Some(0), ..other.clone() };
    assert_eq!(bed.puts_subscription(stale, 3).await, Err(Refusal::VersionMismatch(1)));
    let changed = bed.puts_subscription(other, 3).await.expect("changed");
    assert_eq!((changed.version, changed.created_at, changed.updated_at), (2, time(1), time(3)));
    bed.puts_subscription(put("b", to("https://b.example"), Some(SECRET)), 4).await.expect("made");
    let all = bed.store.subscriptions((), at(4)).await.expect("the store answers");
    assert_eq!(all.iter().map(|state| state.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    let found = bed.store.subscription(name("a"), at(4)).await.expect("the store answers");
    assert_eq!(found, Some(changed));
    assert_eq!(bed.store.subscription(name("c"), at(4)).await.expect("the store answers"), None);
}

/// (subscriptions) No address with a password in it, no webhook without a secret, no patience without end.
pub async fn a_subscription_that_cannot_be_delivered_is_refused(bed: Bed) {
    let refused = async |request: PutSubscription, field: &str| {
        is_invalid(&bed.puts_subscription(request, 1).await, field);
    };
    refused(put("a", to("https://u:p@a.example"), Some(SECRET)), "url").await;
    refused(put("a", to("https://a.example"), None), "secret").await;
    let hasty = Subscription { give_up_ms: 1, ..to("https://a.example") };
    refused(put("a", hasty, Some(SECRET)), "give_up_after").await;
    refused(put(&"n".repeat(101), to("https://a.example"), Some(SECRET)), "name").await;
    assert!(bed.store.subscriptions((), at(1)).await.expect("the store answers").is_empty());
}

/// (subscriptions) What it signs with stays through changes, and is read by nobody but who asks for it by name.
pub async fn a_credential_is_kept_until_another_is_given(bed: Bed) {
    let kept = async || bed.store.credential(name("a"), at(9)).await.expect("the store answers");
    assert_eq!(kept().await, None);
    bed.puts_subscription(put("a", to("https://a.example/1"), Some(SECRET)), 1).await.expect("made");
    bed.puts_subscription(put("a", to("https://a.example/2"), None), 2).await.expect("changed");
    bed.pauses_subscription(Some("why"), 3).await.expect("paused");
    assert_eq!(kept().await.expect("a secret").reveal(), SECRET);
    let other = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    let changed = bed.puts_subscription(put("a", to("https://a.example/2"), Some(other)), 4).await;
    assert_eq!(changed.expect("changed").version, 4);
    assert_eq!(kept().await.expect("a secret").reveal(), other);
}

/// (subscriptions) Failures are noted with when they began; those of more than the patience pause it, and a person resumes it.
pub async fn what_fails_for_too_long_is_paused(bed: Bed) {
    let epoch = bed.leads("a", at(0)).await.expect("leads").epoch;
    let soon = Subscription { give_up_ms: 60_000, ..to("https://a.example") };
    bed.puts_subscription(put("a", soon, Some(SECRET)), 0).await.expect("made");
    let fails = || Delivery::Fails("it answered 500".to_owned());
    let first = bed.notes(epoch, fails(), 1_000).await.expect("noted").failing.expect("it fails");
    assert_eq!((first.since, first.why.as_str()), (time(1_000), "it answered 500"));
    let works = bed.notes(epoch, Delivery::Works, 2_000).await.expect("noted");
    assert_eq!(works.failing, None);
    bed.notes(epoch, fails(), 3_000).await.expect("noted");
    let epoch = bed.leads("a", at(9_000)).await.expect("leads").epoch;
    let later = bed.notes(epoch, Delivery::Fails("no answer".to_owned()), 9_000).await.expect("noted");
    assert_eq!(later.failing.as_ref().map(|f| (f.since, f.why.as_str())), Some((time(3_000), "no answer")));
    assert_eq!(later.paused, None);
    let epoch = bed.leads("a", at(63_000)).await.expect("leads").epoch;
    let paused = bed.notes(epoch, fails(), 63_000).await.expect("noted");
    let why = paused.paused.expect("it is paused");
    assert_eq!((why.at, why.by), (time(63_000), Actor::engine()));
    assert!(why.why.contains("it answered 500"), "{}", why.why);
    let resumed = bed.pauses_subscription(None, 64_000).await.expect("resumed");
    assert_eq!((resumed.paused, resumed.failing, resumed.version), (None, None, 2));
    assert_eq!(bed.pauses_subscription(None, 65_000).await.expect("a repeat").version, 2);
}

/// (subscriptions) Who says that it is gone is not asked again.
pub async fn what_is_gone_is_paused_at_once(bed: Bed) {
    let epoch = bed.leads("a", at(0)).await.expect("leads").epoch;
    bed.puts_subscription(put("a", to("https://a.example"), Some(SECRET)), 0).await.expect("made");
    let gone = bed.notes(epoch, Delivery::GivesUp("410 Gone".to_owned()), 10).await.expect("noted");
    assert_eq!(gone.paused.expect("paused").why, "410 Gone");
    let after = bed.notes(epoch, Delivery::Works, 20).await.expect("nothing to note");
    assert!(after.paused.is_some(), "only a person resumes it");
    // A change does not resume it either.
    let changed = bed.puts_subscription(put("a", to("https://b.example"), None), 30).await.expect("changed");
    assert!(changed.paused.is_some());
}

/// (subscriptions) A leader that leads no more, or delivered what was changed since, notes nothing.
pub async fn a_stale_leader_or_version_notes_nothing(bed: Bed) {
    let epoch = bed.leads("a", at(0)).await.expect("leads").epoch;
    let gone = || Delivery::GivesUp("gone".to_owned());
    assert_eq!(
        bed.notes(epoch, gone(), 1).await.expect_err("there is none").code(),
        "subscription_not_found"
    );
    bed.puts_subscription(put("a", to("https://a.example"), Some(SECRET)), 0).await.expect("made");
    assert_eq!(bed.notes(epoch + 1, gone(), 1).await, Err(Refusal::StaleEpoch(epoch)));
    bed.puts_subscription(put("a", to("https://b.example"), None), 2).await.expect("changed");
    assert_eq!(bed.notes(epoch, gone(), 3).await, Err(Refusal::VersionMismatch(2)));
    let stands = bed.store.subscription(name("a"), at(4)).await.expect("the store answers").expect("there");
    assert_eq!(stands.paused, None);
}

/// (subscriptions) One of the same name begins anew, and a publisher that did not notice moves no place.
pub async fn a_removed_subscription_takes_its_place_along(bed: Bed) {
    let epoch = bed.leads("a", at(0)).await.expect("leads").epoch;
    bed.puts_subscription(put("a", to("https://a.example"), Some(SECRET)), 0).await.expect("made");
    let reader = SubscriptionState::reader(&name("a"));
    let head = bed.store.feed_head((), at(1)).await.expect("the store answers");
    let (term, findings) = (name("leader"), Findings::default());
    let advance = Advance { term, epoch, reader: reader.clone(), from: None, to: head, findings };
    bed.store.advance(advance.clone(), at(1)).await.expect("the store answers").expect("moved");
    let place = async || bed.store.place(reader.clone(), at(2)).await.expect("the store answers");
    assert!(place().await.is_some());
    let remove = RemoveSubscription { name: name("a"), actor: ann() };
    assert_eq!(
        bed.store.remove_subscription(remove.clone(), at(2)).await.expect("the store answers"),
        Ok(())
    );
    assert!(
        place().await.is_none() && bed.store.credential(name("a"), at(2)).await.expect("answers").is_none()
    );
    let late = Advance { from: Some(advance.to.clone()), ..advance };
    assert!(bed.store.advance(late, at(3)).await.expect("the store answers").is_err());
    let again = bed.store.remove_subscription(remove, at(4)).await.expect("the store answers");
    assert_eq!(again.expect_err("it is gone").code(), "subscription_not_found");
}

/// (subscriptions) Every change is on record, without what is secret.
pub async fn what_people_do_to_subscriptions_is_in_the_audit(bed: Bed) {
    bed.puts_subscription(put("a", to("https://a.example/T0KEN"), Some(SECRET)), 1).await.expect("made");
    bed.pauses_subscription(Some("a release"), 2).await.expect("paused");
    bed.pauses_subscription(Some("a release"), 3).await.expect("a repeat");
    bed.pauses_subscription(None, 4).await.expect("resumed");
    let remove = RemoveSubscription { name: name("a"), actor: ann() };
    bed.store.remove_subscription(remove, at(5)).await.expect("the store answers").expect("removed");
    let entries = bed.store.audit(ReadAudit { before: None, limit: 10 }, at(6)).await;
    let entries = entries.expect("the store answers");
    let actions: Vec<_> = entries.iter().map(|entry| entry.action.as_str()).collect();
    let expected = ["subscription.remove", "subscription.resume", "subscription.pause", "subscription.put"];
    assert_eq!(actions, expected);
    let all = format!("{entries:?}");
    assert!(all.contains("a release") && all.contains("https://a.example/…"), "{all}");
    assert!(!all.contains("T0KEN") && !all.contains("MfKQ9r8"), "{all}");
}

/// A subscription that does not read back is paused in its place; the others go on, and putting it anew mends it.
pub async fn a_subscription_fails_alone(bed: &Bed, planter: &dyn Planter) {
    for which in ["a", "b"] {
        bed.puts_subscription(put(which, to("https://a.example"), Some(SECRET)), 1).await.expect("made");
    }
    planter.state("subscriptions", "a", "{}").await;
    let all = bed.store.subscriptions((), at(2)).await.expect("the others are listed");
    let paused = all[0].paused.as_ref().expect("it is paused");
    assert!(paused.why.contains("does not read back") && all[1].paused.is_none(), "{all:?}");
    assert!(
        bed.pauses_subscription(None, 3).await.expect_err("it cannot be resumed").to_string().contains("put")
    );
    let mended = bed.puts_subscription(put("a", to("https://a.example"), None), 4).await.expect("mended");
    assert_eq!((mended.version, mended.paused), (1, None));
    assert_eq!(
        bed.store.credential(name("a"), at(5)).await.expect("answers").expect("kept").reveal(),
        SECRET
    );
}
