//! An archive in a folder: each object is a file, on disk and read back before it gets its name.

use super::{Archive, ArchiveError, Edit};
use async_trait::async_trait;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The ending of a file that is being written.
const PART: &str = "part";
/// The file whose lock is held by the process that changes a file in place.
const LOCK: &str = ".lock";

/// A folder of files. It is made when the first file is written, if the folder around it is there: a mistyped path, or a disk
/// that is not mounted, is an error and no new archive.
#[derive(Debug, Clone)]
pub struct Directory {
    folder: PathBuf,
}

impl Directory {
    /// The archive in this folder.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// The path of an object. A name is a file's name and never a path.
    fn path(&self, name: &str) -> Result<PathBuf, ArchiveError> {
        let is_plain = !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', '\0']);
        if !is_plain {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "it is not the name of a file");
            return Err(ArchiveError::new(format!("{name:?}"), "used", error));
        }
        Ok(self.folder.join(name))
    }
}

/// Runs what waits for a disk where it holds up nothing else.
async fn blocking<T: Send + 'static>(
    what: PathBuf,
    tried: &'static str,
    work: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
) -> Result<T, ArchiveError> {
    let shown = what.display().to_string();
    let done = tokio::task::spawn_blocking(move || work(&what)).await;
    done.unwrap_or_else(|died| Err(io::Error::other(died))).map_err(|e| ArchiveError::new(shown, tried, e))
}

#[async_trait]
impl Archive for Directory {
    fn place(&self) -> String {
        self.folder.display().to_string()
    }

    async fn put(&self, name: &str, bytes: Vec<u8>) -> Result<(), ArchiveError> {
        let folder = self.folder.clone();
        blocking(self.path(name)?, "written", move |path| {
            make_folder(&folder)?;
            place(&folder, path, &bytes)
        })
        .await
    }

    async fn rewrite(&self, name: &str, edit: Edit) -> Result<bool, ArchiveError> {
        let folder = self.folder.clone();
        blocking(self.path(name)?, "rewritten", move |path| {
            let lock =
                File::options().write(true).create(true).truncate(false).mode(0o600).open(folder.join(LOCK));
            let lock = match lock {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
                lock => lock?,
            };
            // Of two that change one file, the second must see what the first wrote. Closing the file unlocks it.
            lock.lock()?;
            let bytes = match fs::read(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
                read => read?,
            };
            let Some(changed) = edit(&bytes)? else { return Ok(false) };
            place(&folder, path, &changed)?;
            Ok(true)
        })
        .await
    }

    async fn get(&self, name: &str) -> Result<Option<Vec<u8>>, ArchiveError> {
        let found = blocking(self.path(name)?, "read", |path| match fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some),
        });
        found.await
    }

    async fn list(&self) -> Result<Vec<String>, ArchiveError> {
        blocking(self.folder.clone(), "read", |folder| {
            let mut names = Vec::new();
            let entries = match fs::read_dir(folder) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(names),
                entries => entries?,
            };
            for entry in entries {
                let path = entry?.path();
                if path.extension().is_some_and(|ending| ending == PART) {
                    remove_if_abandoned(&path)?;
                } else if let Some(name) = path.file_name().and_then(|name| name.to_str())
                    && !name.starts_with('.')
                {
                    names.push(name.to_owned());
                }
            }
            Ok(names)
        })
        .await
    }

    async fn remove(&self, name: &str) -> Result<(), ArchiveError> {
        blocking(self.path(name)?, "removed", |path| gone(fs::remove_file(path))).await
    }
}

fn make_folder(folder: &Path) -> io::Result<()> {
    match fs::create_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let parent = folder.parent().unwrap_or(folder).display().to_string();
            let why = format!(
                "there is no folder {parent}; make it if the archive belongs there, or mount its disk"
            );
            Err(io::Error::new(io::ErrorKind::NotFound, why))
        }
        made => made,
    }
}

/// Writes a file under its name, whole or not at all.
fn place(folder: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut part = path.as_os_str().to_owned();
    part.push(format!(".{PART}"));
    let part = PathBuf::from(part);
    let written = write(&part, bytes).and_then(|()| fs::rename(&part, path));
    if written.is_err() {
        // What was not written may be what fills the disk.
        let _gone = fs::remove_file(&part);
    }
    written?;
    File::open(folder)?.sync_all()
}

/// Removes a file that somebody died writing. One who lives holds its lock.
fn remove_if_abandoned(part: &Path) -> io::Result<()> {
    let file = match File::open(part) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        file => file?,
    };
    match file.try_lock() {
        Ok(()) => gone(fs::remove_file(part)),
        Err(TryLockError::WouldBlock) => Ok(()),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn gone(removed: io::Result<()>) -> io::Result<()> {
    removed.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

/// A new file, locked as long as it is written.
fn create(path: &Path) -> io::Result<File> {
    loop {
        let file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
        file.lock()?;
        // Before it was locked, another process may have taken it for abandoned.
        if path.exists() {
            return Ok(file);
        }
    }
}

/// Writes a file for its owner alone, as payloads are, that is on disk and reads back when this returns.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = create(path)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    let mut found = Vec::with_capacity(bytes.len());
    File::open(path)?.read_to_end(&mut found)?;
    if found == bytes { Ok(()) } else { Err(io::Error::other("what was written does not read back")) }
}
