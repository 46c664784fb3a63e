//! The words of the operating system: SIGTERM once, and once more.

use std::process::Command;
use std::time::Duration;
use tokio::time::timeout;
use windlass_engine::{Level, Shutdown};

/// M13: the first signal is graceful, the second ends at once.
#[tokio::test]
async fn signals_end_in_two_steps() {
    let shutdown = Shutdown::on_signals().expect("signals are heard");
    for (signal, level) in [("-TERM", Level::Graceful), ("-INT", Level::Now)] {
        assert!(shutdown.level() < level);
        let sent = Command::new("kill").args([signal, &std::process::id().to_string()]).status();
        assert!(sent.expect("kill runs").success());
        timeout(Duration::from_secs(60), shutdown.reached(level)).await.expect("the signal is heard");
    }
}
