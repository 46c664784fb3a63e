//! `windlass adopt`: begins a new incarnation of a store that was restored in a way that it cannot notice by itself.

use crate::args::AdoptArgs;
use crate::fail::{Failure, Outcome};
use crate::out::Out;
use crate::run::{actor, open};
use crate::settings::Settings;
use serde_json::json;
use windlass_store::Adopt;

/// Adopts, if that is meant.
pub async fn run(args: &AdoptArgs, settings: &Settings, out: &Out) -> Outcome {
    if !args.yes {
        return Err(Failure::usage(
            "everybody who follows the feed has to begin anew after this; say --yes if the store was restored in place",
        ));
    }
    let client = open(settings, false, None).await?;
    let life = client.store().adopt(Adopt { actor: actor()? }, None).await?;
    out.show(&json!({ "incarnation": life.incarnation }), |out| {
        out.line(format!(
            "the store is in incarnation {}: fences are higher than all before, and cursors of before are refused",
            life.incarnation
        ));
    });
    Ok(())
}
