//! Takes an access key out of what other processes can read about this one.
//!
//! The arguments and the environment that a process was started with stay readable in `/proc` while it runs, whatever the
//! process forgets. So a key that came that way is written into a pipe, and the program replaces itself, without the key and
//! with the pipe as the file of the key. The pipe is empty as soon as the settings are read.

use crate::args::Global;
use crate::settings::environment;
use rustix::io::{FdFlags, fcntl_setfd};
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The variable with a key.
const KEY: &str = "WINDLASS_KEY";
/// The variable with the path of a file with one.
const KEY_FILE: &str = "WINDLASS_KEY_FILE";
/// What a pipe holds in any case before anybody reads.
const PIPE_BYTES: usize = 4_096;

/// Starts this program again, in this process, if its arguments or its environment show a key. Returns if they do not, and
/// with an error if it cannot be started again.
pub fn start_again_without_key(global: &Global) -> io::Result<()> {
    let flag = global.key.as_deref().filter(|key| *key != "-");
    let variable = environment(KEY);
    // Both a key and a file in the environment: the settings refuse that.
    let is_unclear = flag.is_none() && variable.is_some() && environment(KEY_FILE).is_some();
    if (flag.is_none() && variable.is_none()) || is_unclear {
        return Ok(());
    }
    let mut arguments = std::env::args_os();
    let mut command = Command::new(std::env::current_exe()?);
    command.arg0(arguments.next().unwrap_or_default()).env_remove(KEY);
    let mut pipe = None;
    if let Some(key) = flag {
        let file = pipe.insert(filled(key)?);
        command.arg("--key-file").arg(file_of(file)).args(without_key(arguments));
    } else {
        // A stronger setting of the command line leaves the variable without effect.
        if let Some(key) = variable.filter(|_| global.key.is_none() && global.key_file.is_none()) {
            command.env(KEY_FILE, file_of(pipe.insert(filled(&key)?)));
        }
        command.args(arguments);
    }
    Err(command.exec())
}

/// A pipe with a key in it, which stays open in the program that replaces this one.
fn filled(key: &str) -> io::Result<io::PipeReader> {
    if key.len() >= PIPE_BYTES {
        return Err(io::Error::other("it is too long"));
    }
    let (reader, mut writer) = io::pipe()?;
    writer.write_all(key.as_bytes())?;
    fcntl_setfd(&reader, FdFlags::empty())?;
    Ok(reader)
}

/// The path under which the replacing program reads it.
fn file_of(pipe: &io::PipeReader) -> String {
    format!("/proc/self/fd/{}", pipe.as_raw_fd())
}

/// The arguments without `--key KEY`. What stands behind `--exec` is another program's.
fn without_key(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let (mut kept, mut arguments) = (Vec::new(), arguments);
    while let Some(argument) = arguments.next() {
        if argument == "--exec" || argument.as_bytes().starts_with(b"--exec=") {
            kept.push(argument);
            kept.extend(arguments);
            break;
        }
        if argument == "--key" {
            arguments.next();
        } else if !argument.as_bytes().starts_with(OsStr::new("--key=").as_bytes()) {
            kept.push(argument);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_key_goes() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        let typed = words("--json --key wl_a work --key=wl_b --queue q --exec sh --key mine");
        let kept = words("--json work --queue q --exec sh --key mine");
        assert_eq!(without_key(typed.into_iter()), kept);
    }
}
