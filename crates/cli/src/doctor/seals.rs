//! Seals over the log: whether they are made, and whether the last ones hold together.

use super::{Finding, ago, ok, problem, warning};
use crate::fail::Outcome;
use std::sync::Arc;
use windlass_store::{ReadSeals, Store, fresh};

/// So many of the last seals are looked at; `windlass verify` looks at all.
const LOOKED: i64 = 20;

/// Looks at the end of the chain.
pub async fn look(store: &Arc<dyn Store>) -> Outcome<Vec<Finding>> {
    let is_on = store.settings((), None).await?.settings.seals;
    let Some(last) = store.last_seal((), None).await? else {
        return Ok(vec![if is_on {
            ok("seals", "nothing is sealed yet; a server that leads seals the log")
        } else {
            ok("seals", "the setting `seals` is off: the log is not sealed")
        }]);
    };
    let after = (last.number - LOOKED).max(0);
    let chain = store.seals(ReadSeals { after, limit: LOOKED as usize }, None).await?;
    let holds = chain.windows(2).all(|two| two[1].follows(Some(&two[0].head())));
    if !holds {
        return Ok(vec![problem(
            "seals",
            format!("the last seals, up to {}, do not follow each other", last.number),
            "somebody changed the store past the engine: run `windlass verify`, see docs/operate/seals.md",
        )]);
    }
    let said = format!("{} seals, the last one from {} ago", last.number, ago(last.at, fresh::wall_clock()));
    Ok(vec![if is_on {
        ok("seals", said)
    } else {
        warning("seals", format!("{said}; the setting `seals` is off"), "windlass settings set seals=true")
    }])
}
