//! A machine with troubles: a disk that takes no writes, a clock that is off. Real processes meet them, for a library that
//! is loaded before all others answers in the system's place.
#![allow(dead_code, reason = "each test file uses a part")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// There is no room left on the device.
pub const ENOSPC: i32 = 28;
/// The file system may only be read.
pub const EROFS: i32 = 30;

/// The machine, as programs see it that were started [`Machine::under`] it.
pub struct Machine {
    library: PathBuf,
    disk: PathBuf,
}

impl Machine {
    /// Made in a folder, with a C compiler.
    pub fn new(folder: &Path) -> Self {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/machine/machine.c");
        let (library, disk) = (folder.join("machine.so"), folder.join("disk-fails"));
        let made =
            Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Self { library, disk }
    }

    /// Lets a command meet the troubles.
    pub fn under(&self, command: &mut Command) {
        command.env("LD_PRELOAD", &self.library).env("DISK_FAILS", &self.disk);
    }

    /// From now on every write to a file fails with this error.
    pub fn disk_fails(&self, error: i32) {
        std::fs::write(&self.disk, error.to_string()).unwrap();
    }

    /// From now on the disk takes writes again.
    pub fn disk_heals(&self) {
        std::fs::remove_file(&self.disk).unwrap();
    }
}
