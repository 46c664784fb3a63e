//! Settings of the store: one document, of which nobody's change is lost.

use crate::{Bed, at, is_invalid, time, together};
use windlass_core::settings::Settings;
use windlass_core::{Actor, LeaseMs, Refusal};
use windlass_store::{PutSettings, SettingsState};

/// This module's laws, as tests.
#[macro_export]
macro_rules! settings_laws {
    ($($make:tt)*) => {
        $crate::law_tests!(
            [$($make)*],
            settings: settings_are_changed_as_a_whole_under_a_version,
            of_racing_changes_none_is_lost,
            settings_out_of_bounds_are_refused,
            every_change_of_settings_is_in_the_audit,
        );
    };
}

fn ann() -> Actor {
    Actor::try_from("key:ann").expect("an actor")
}

impl Bed {
    async fn sets(
        &self,
        settings: Settings,
        expected_version: i64,
        ms: i64,
    ) -> Result<SettingsState, Refusal> {
        let request = PutSettings { settings, expected_version, actor: ann() };
        self.store.put_settings(request, at(ms)).await.expect("the store answers")
    }

    async fn set(&self) -> SettingsState {
        self.store.settings((), at(0)).await.expect("the store answers")
    }
}

/// R12
pub async fn settings_are_changed_as_a_whole_under_a_version(bed: Bed) {
    assert_eq!(bed.set().await, SettingsState::default(), "nobody changed anything");
    let short = Settings { missed_after_ms: 5_000, ..Settings::default() };
    let first = bed.sets(short.clone(), 0, 10).await.expect("set");
    assert_eq!((first.version, &first.changed), (1, &Some((time(10), ann()))));
    assert_eq!(bed.set().await, first);
    let lease =
        Settings { default_lease_ms: Some(LeaseMs::new(5_000).expect("a lease")), ..Settings::default() };
    assert_eq!(
        bed.sets(lease.clone(), 0, 20).await,
        Err(Refusal::SettingsChanged(1)),
        "made from an older one"
    );
    assert_eq!(bed.set().await, first, "nothing was written");
    assert_eq!(bed.sets(short, 0, 30).await, Ok(first), "a repeat changes nothing");
    let second = bed.sets(lease.clone(), 1, 40).await.expect("set");
    assert_eq!((second.version, second.settings), (2, lease));
}

/// R12: many who read and write at once; whoever is refused reads again. Each change is there in the end.
pub async fn of_racing_changes_none_is_lost(bed: Bed) {
    let racers = (0..8).map(|_| {
        let bed = bed.clone();
        async move {
            loop {
                let SettingsState { settings, version, .. } = bed.set().await;
                let more = settings.webhooks_per_minute + 1;
                match bed.sets(Settings { webhooks_per_minute: more, ..settings }, version, 1).await {
                    Ok(state) if state.version == version + 1 => return,
                    // Somebody else wrote the very same: that was theirs.
                    Ok(_) | Err(Refusal::SettingsChanged(_)) => {}
                    Err(other) => panic!("{other}"),
                }
            }
        }
    });
    together(racers).await;
    let state = bed.set().await;
    let grown = state.settings.webhooks_per_minute - Settings::default().webhooks_per_minute;
    assert_eq!((i64::from(grown), bed.audit().await.len() as i64), (state.version, state.version));
    assert!(state.version >= 1 && state.version <= 8, "{}", state.version);
}

/// R12
pub async fn settings_out_of_bounds_are_refused(bed: Bed) {
    let usual = Settings::default;
    for (settings, field) in [
        (Settings { missed_after_ms: 10, ..usual() }, "missed_after"),
        (Settings { missed_max: 0, ..usual() }, "missed_max"),
        (Settings { missed_max: 1_001, ..usual() }, "missed_max"),
        (Settings { reassign_after_ms: 999, ..usual() }, "reassign_after"),
        (Settings { reassign_after_ms: 86_400_001, ..usual() }, "reassign_after"),
        (Settings { trigger_events_kept_ms: 0, ..usual() }, "trigger_events_kept"),
        (Settings { webhook_tolerance_ms: 7_200_000, ..usual() }, "webhook_tolerance"),
        (Settings { webhooks_per_minute: 0, ..usual() }, "webhooks_per_minute"),
    ] {
        is_invalid(&bed.sets(settings, 0, 0).await, field);
    }
    assert_eq!(bed.set().await, SettingsState::default());
    assert_eq!(bed.audit().await, []);
}

/// R12
pub async fn every_change_of_settings_is_in_the_audit(bed: Bed) {
    bed.sets(Settings { missed_max: 5, ..Settings::default() }, 0, 1).await.expect("set");
    bed.sets(Settings { missed_max: 6, ..Settings::default() }, 1, 2).await.expect("set");
    let mut audit = bed.audit().await;
    audit.sort_by_key(|entry| entry.seq);
    let said: Vec<_> = audit
        .iter()
        .map(|entry| {
            let of = |when: &str| entry.detail[when]["missed_max"].as_i64().expect("a number");
            (entry.action.as_str(), entry.actor.as_str(), entry.at, of("before"), of("after"))
        })
        .collect();
    let put = "settings.put";
    assert_eq!(said, [(put, "key:ann", time(1), 1_000, 5), (put, "key:ann", time(2), 5, 6)]);
}
