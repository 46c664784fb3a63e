//! The files of an archive: JSON lines, packed with zstd, each on disk, read back and named before anything is removed for
//! it.

use crate::fail::{Failure, Outcome};
use ruzstd::decoding::StreamingDecoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use windlass_core::{JobId, Version};
use windlass_store::fresh;

/// What a file that gets its name has jobs noted in.
const NOTE: &str = "pending";
/// What a file is called that is being written.
const PART: &str = "part";

/// A folder of files.
pub struct Archive {
    folder: PathBuf,
    /// What the next file will hold.
    lines: Vec<u8>,
}

/// A file whose jobs may not be removed yet.
pub struct Noted {
    /// The file.
    pub file: PathBuf,
    note: PathBuf,
    /// Its jobs, at the versions that it holds.
    pub jobs: Vec<(JobId, Version)>,
}

fn failed(what: &str, path: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!(
        "{} cannot be {what}: {error}; what is not archived stays in the store",
        path.display()
    ))
}

impl Archive {
    /// Opens a folder, and makes it if it is not there.
    pub fn open(folder: &Path) -> Outcome<Self> {
        fs::create_dir_all(folder).map_err(|e| failed("made", folder, &e))?;
        Ok(Self { folder: folder.to_owned(), lines: Vec::new() })
    }

    /// The files of runs that were interrupted after they were on disk; those that were not finished go.
    pub fn interrupted(&self) -> Outcome<Vec<Noted>> {
        let mut found = Vec::new();
        let entries = fs::read_dir(&self.folder).map_err(|e| failed("read", &self.folder, &e))?;
        for entry in entries {
            let note = entry.map_err(|e| failed("read", &self.folder, &e))?.path();
            let file = note.with_extension("zst");
            match note.extension().and_then(|ending| ending.to_str()) {
                Some(PART) => fs::remove_file(&note).map_err(|e| failed("removed", &note, &e))?,
                // It was noted and got no name: nothing was removed for it.
                Some(NOTE) if !file.exists() => {
                    fs::remove_file(&note).map_err(|e| failed("removed", &note, &e))?
                }
                Some(NOTE) => {
                    let text = fs::read_to_string(&note).map_err(|e| failed("read", &note, &e))?;
                    let jobs = text.lines().filter_map(noted).collect();
                    found.push(Noted { file, note, jobs });
                }
                _ => {}
            }
        }
        Ok(found)
    }

    /// Adds a line, and answers how many bytes that is.
    pub fn add(&mut self, line: &str) -> usize {
        self.lines.extend_from_slice(line.as_bytes());
        self.lines.push(b'\n');
        line.len() + 1
    }

    /// Brings what was added to disk, looks whether it reads back, and gives it its name, with a note of its jobs beside it.
    pub fn close(&mut self, jobs: &[(JobId, Version)]) -> Outcome<Noted> {
        let lines = std::mem::take(&mut self.lines);
        let chance: String = fresh::random::<4>().iter().map(|byte| format!("{byte:02x}")).collect();
        let now = fresh::wall_clock().to_string().replace([':', '-'], "");
        let now = now.split('.').next().unwrap_or_default().trim_end_matches('Z');
        let part = self.folder.join(format!("jobs-{now}Z-{chance}.jsonl.{PART}"));
        let (file, note) = (part.with_extension("zst"), part.with_extension(NOTE));
        let text: String = jobs.iter().map(|(id, version)| format!("{id} {version}\n")).collect();
        let write = || {
            let packed = compress_to_vec(&lines[..], CompressionLevel::Fastest);
            on_disk(&part, &packed)?;
            if !reads_back(&part, &lines)? {
                return Err(io::Error::other("what was written does not read back"));
            }
            on_disk(&note, text.as_bytes())?;
            fs::rename(&part, &file)?;
            File::open(&self.folder)?.sync_all()
        };
        write().map_err(|e| failed("written", &file, &e))?;
        Ok(Noted { file: file.clone(), note, jobs: jobs.to_vec() })
    }

    /// Says that the jobs of a file are removed.
    pub fn forget(&self, noted: &Noted) -> Outcome {
        fs::remove_file(&noted.note).map_err(|e| failed("removed", &noted.note, &e))
    }
}

/// A file for its owner alone, as payloads are, that is on disk when this returns.
fn on_disk(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Whether a file holds these lines.
fn reads_back(path: &Path, lines: &[u8]) -> io::Result<bool> {
    let mut read = StreamingDecoder::new(File::open(path)?).map_err(io::Error::other)?;
    let mut found = Vec::with_capacity(lines.len());
    read.read_to_end(&mut found)?;
    Ok(found == lines)
}

/// A job as its note has it.
fn noted(line: &str) -> Option<(JobId, Version)> {
    let (id, version) = line.split_once(' ')?;
    Some((JobId::parse(id).ok()?, version.parse().ok()?))
}
