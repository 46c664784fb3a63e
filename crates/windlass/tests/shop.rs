//! The example that has everything of the library in one program, on both stores, with its traces exported.

#[path = "support/collector.rs"]
mod collector;
mod site;
mod support;

use collector::Collector;
use opentelemetry_proto::tonic::trace::v1::Span;
use site::Site;
use std::process::Command;

on_both_stores! {
    /// J11, M5, M8 (otel): it sells what it should, and all that it does is one trace below the checkout.
    #[test]
    async fn the_shop_sells_and_is_one_trace(site: Site) {
        let collector = Collector::start();
        let mut shop = Command::new(support::built("shop"));
        let ran = shop.arg(&site.url).env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        support::is_shop(&String::from_utf8_lossy(&ran.stdout));

        let checkout = collector.span("checkout");
        // The process has ended: whatever it had to send is here.
        let spans = collector.spans();
        assert!(spans.iter().all(|span| span.trace_id == checkout.trace_id), "one trace");
        let named = |name: &'static str| spans.iter().filter(move |span| span.name == name);
        let is_below = |span: &Span, parent: &'static str| named(parent).any(|above| above.span_id == span.parent_span_id);
        for order in named("attempt order") {
            assert_eq!(order.parent_span_id, checkout.span_id);
        }
        assert_eq!(named("step reserve").filter(|step| is_below(step, "attempt order")).count(), 3);
        // Ada's two labels and Cleo's one, printed as a batch.
        assert_eq!(named("attempt label").filter(|label| is_below(label, "attempt order")).count(), 3);
    }
}
