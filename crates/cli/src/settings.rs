//! Where each setting comes from: flags, then `WINDLASS_*`, then `windlass.toml`, then `DB_*`, then defaults.

use crate::args::Global;
use crate::fail::{Failure, Outcome};
use crate::s3::{Address, S3};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use windlass_core::limits::Limits;
use windlass_core::span::{parse_ms, to_text};
use windlass_core::{Invalid, LeaseMs};
use windlass_engine::archive::{Archive, Directory};

/// The store when nothing is said.
pub const STORE: &str = "sqlite:windlass-data/windlass.db";
/// The file that is read when there is one.
const FILE: &str = "windlass.toml";
/// The other way to say where PostgreSQL is.
pub const DB_VARIABLES: [&str; 5] = ["DB_HOST", "DB_PORT", "DB_USER", "DB_PASSWORD", "DB_NAME"];

/// Where a value came from, the strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// Typed.
    Flag,
    /// A variable `WINDLASS_…`.
    Environment,
    /// `windlass.toml`.
    File,
    /// The variables `DB_…`.
    Database,
    /// Nobody said anything.
    Default,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flag => "flag",
            Self::Environment => "environment",
            Self::File => "file",
            Self::Database => "DB_* variables",
            Self::Default => "default",
        })
    }
}

/// A value and where it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The value.
    pub value: String,
    /// Where it came from.
    pub source: Source,
}

/// What is in force.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where jobs are kept.
    pub store: Setting,
    /// A direct connection for wake-ups, beside a pooler.
    pub notify_url: Option<Setting>,
    /// The schema in PostgreSQL.
    pub schema: Option<Setting>,
    /// The server to go through.
    pub url: Option<Setting>,
    /// The key for it.
    pub key: Option<Setting>,
    /// Where finished jobs are kept once they left the store: a folder, or `s3://…`.
    pub archive: Option<Setting>,
    /// How logs are written.
    pub log_format: Setting,
    /// The largest payload of a job, in bytes.
    pub payload_max_bytes: Setting,
    /// The largest result, checkpoint and step value, in bytes.
    pub result_max_bytes: Setting,
    /// The most retries a job or queue may ask for.
    pub retries_max: Setting,
    /// How long a lease lasts when nobody says.
    pub lease: Setting,
    /// The three limits, within the hard bounds.
    pub limits: Limits,
    /// The file that was read.
    pub file: Option<PathBuf>,
}

/// `windlass.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    store: Option<String>,
    notify_url: Option<String>,
    schema: Option<String>,
    url: Option<String>,
    key: Option<String>,
    key_file: Option<String>,
    archive: Option<String>,
    log_format: Option<String>,
    payload_max_bytes: Option<i64>,
    result_max_bytes: Option<i64>,
    retries_max: Option<i64>,
    lease: Option<String>,
}

/// Reads the environment; tests bring their own.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The environment of this process. An empty variable says nothing.
pub fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

impl Settings {
    /// What is in force for these flags.
    pub fn read(flags: &Global, env: Environment<'_>) -> Outcome<Self> {
        let (file, path) = read_file(flags.config.as_deref(), env)?;
        let pick = |flag: &Option<String>, variable: &str, in_file: Option<String>| {
            let setting = |source| move |value| Setting { value, source };
            let flag = flag.clone().map(setting(Source::Flag));
            flag.or_else(|| env(variable).map(setting(Source::Environment)))
                .or_else(|| in_file.map(setting(Source::File)))
        };
        let store = pick(&flags.store, "WINDLASS_STORE", file.store)
            .or_else(|| database(env).map(|value| Setting { value, source: Source::Database }))
            .unwrap_or_else(|| Setting { value: STORE.to_owned(), source: Source::Default });
        let log_format = pick(&flags.log_format, "WINDLASS_LOG_FORMAT", file.log_format)
            .unwrap_or_else(|| Setting { value: "text".to_owned(), source: Source::Default });
        if !["text", "json"].contains(&log_format.value.as_str()) {
            let told = format!("the log format is {}: must be text or json", log_format.value);
            return Err(Failure::usage(told));
        }
        let flag = flags.key_file.as_ref().map(|path| path.display().to_string());
        let key_file = pick(&flag, "WINDLASS_KEY_FILE", file.key_file);
        let number = |flag: &Option<String>, variable: &str, in_file: Option<i64>, default: i64| {
            pick(flag, variable, in_file.map(|n| n.to_string()))
                .unwrap_or_else(|| Setting { value: default.to_string(), source: Source::Default })
        };
        let default = Limits::default();
        let payload_max_bytes = number(
            &flags.payload_max_bytes,
            "WINDLASS_PAYLOAD_MAX_BYTES",
            file.payload_max_bytes,
            default.payload_bytes as i64,
        );
        let result_max_bytes = number(
            &flags.result_max_bytes,
            "WINDLASS_RESULT_MAX_BYTES",
            file.result_max_bytes,
            default.result_bytes as i64,
        );
        let retries_max =
            number(&flags.retries_max, "WINDLASS_RETRIES_MAX", file.retries_max, default.max_retries);
        let limits = limits(&payload_max_bytes, &result_max_bytes, &retries_max)?;
        let lease = pick(&flags.lease, "WINDLASS_LEASE", file.lease)
            .unwrap_or_else(|| Setting { value: to_text(LeaseMs::DEFAULT.get()), source: Source::Default });
        parse_lease(&lease)?;
        Ok(Self {
            store,
            payload_max_bytes,
            result_max_bytes,
            retries_max,
            limits,
            lease,
            notify_url: pick(&flags.notify_url, "WINDLASS_NOTIFY_URL", file.notify_url),
            schema: pick(&flags.schema, "WINDLASS_SCHEMA", file.schema),
            url: pick(&flags.url, "WINDLASS_URL", file.url),
            key: key_text(pick(&flags.key, "WINDLASS_KEY", file.key), key_file)?,
            archive: pick(&flags.archive, "WINDLASS_ARCHIVE", file.archive),
            log_format,
            file: path,
        })
    }

    /// Whether commands go through a server: it was named, and a store was not named more strongly.
    pub fn goes_through_server(&self) -> Outcome<bool> {
        let Some(url) = &self.url else { return Ok(false) };
        if self.store.source == url.source {
            let both = format!("both a store and a server are named ({}); name one of them", url.source);
            return Err(Failure::usage(both));
        }
        Ok(url.source < self.store.source)
    }

    /// The archive, if one is named: a folder, or a part of an object store.
    pub fn archive(&self) -> Outcome<Option<Arc<dyn Archive>>> {
        let Some(Setting { value, .. }) = &self.archive else { return Ok(None) };
        let archive: Arc<dyn Archive> = match self.object_store()? {
            Some(store) => Arc::new(store),
            None => Arc::new(Directory::new(value)),
        };
        Ok(Some(archive))
    }

    /// The archive, if it is a part of an object store.
    pub fn object_store(&self) -> Outcome<Option<S3>> {
        let named = self.archive.as_ref().filter(|archive| Address::is_one(&archive.value));
        named.map(|archive| S3::new(Address::parse(&archive.value, &environment)?)).transpose()
    }

    /// How long a lease lasts when nobody says.
    pub fn lease_ms(&self) -> LeaseMs {
        // It was read before.
        parse_lease(&self.lease).unwrap_or(LeaseMs::DEFAULT)
    }

    /// Everything in force, secrets masked, by name.
    pub fn shown(&self) -> Vec<(&'static str, Option<String>, Source)> {
        let shown = |setting: &Option<Setting>| setting.as_ref().map(|s| masked(&s.value));
        let source = |setting: &Option<Setting>| setting.as_ref().map_or(Source::Default, |s| s.source);
        let number = |name, setting: &Setting| (name, Some(setting.value.clone()), setting.source);
        vec![
            ("store", Some(masked(&self.store.value)), self.store.source),
            ("notify_url", shown(&self.notify_url), source(&self.notify_url)),
            ("schema", shown(&self.schema), source(&self.schema)),
            ("url", shown(&self.url), source(&self.url)),
            ("archive", shown(&self.archive), source(&self.archive)),
            ("log_format", Some(self.log_format.value.clone()), self.log_format.source),
            number("payload_max_bytes", &self.payload_max_bytes),
            number("result_max_bytes", &self.result_max_bytes),
            number("retries_max", &self.retries_max),
            number("lease", &self.lease),
            ("key", self.key.as_ref().map(|_| "***".to_owned()), source(&self.key)),
        ]
    }
}

/// The key itself, or what a file or standard input says it is. A file that is named as strongly as a key is one too many.
fn key_text(key: Option<Setting>, file: Option<Setting>) -> Outcome<Option<Setting>> {
    let (source, text) = match (key, file) {
        (Some(key), Some(file)) if key.source == file.source => {
            let both = format!("both a key and a file with one are named ({}); name one of them", key.source);
            return Err(Failure::usage(both));
        }
        (key, Some(file)) if key.as_ref().is_none_or(|key| file.source < key.source) => {
            let why = |error| format!("the file {} with the key cannot be read: {error}", file.value);
            (file.source, std::fs::read_to_string(&file.value).map_err(|e| Failure::usage(why(e)))?)
        }
        (Some(key), _) if key.value == "-" => {
            let mut line = String::new();
            let why = |error| format!("the key cannot be read from standard input: {error}");
            std::io::stdin().read_line(&mut line).map_err(|e| Failure::usage(why(e)))?;
            (key.source, line)
        }
        (key, _) => return Ok(key),
    };
    match text.trim() {
        "" => Err(Failure::usage("the key is empty; put it on the first line")),
        value => Ok(Some(Setting { value: value.to_owned(), source })),
    }
}

/// The limits that three settings name.
fn limits(payload: &Setting, result: &Setting, retries: &Setting) -> Outcome<Limits> {
    let number = |name: &str, setting: &Setting| {
        let wrong = || format!("{name} is {} ({}): must be a whole number", setting.value, setting.source);
        setting.value.parse::<i64>().map_err(|_| Failure::usage(wrong()))
    };
    let bytes = |name, setting| number(name, setting).map(|n| usize::try_from(n).unwrap_or(0));
    let limits = Limits {
        payload_bytes: bytes("payload_max_bytes", payload)?,
        result_bytes: bytes("result_max_bytes", result)?,
        max_retries: number("retries_max", retries)?,
    };
    Ok(limits.check()?)
}

fn parse_lease(lease: &Setting) -> Result<LeaseMs, Invalid> {
    LeaseMs::new(parse_ms("lease", &lease.value)?)
}

fn read_file(flag: Option<&Path>, env: Environment<'_>) -> Outcome<(File, Option<PathBuf>)> {
    let named = flag.map(Path::to_owned).or_else(|| env("WINDLASS_CONFIG").map(PathBuf::from));
    let path = named.clone().unwrap_or_else(|| PathBuf::from(FILE));
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && named.is_none() => {
            return Ok((File::default(), None));
        }
        Err(error) => return Err(Failure::usage(format!("{} cannot be read: {error}", path.display()))),
    };
    // The message of the parser shows the line, which may hold a key: only its first line is told.
    let parsed = toml::from_str(&text).map_err(|error| {
        let line = error.span().map_or(1, |span| text[..span.start].lines().count().max(1));
        Failure::usage(format!("{}, line {line}: {}", path.display(), error.message()))
    })?;
    Ok((parsed, Some(path)))
}

/// A URL from `DB_HOST` and its friends, if any says where a server is.
fn database(env: Environment<'_>) -> Option<String> {
    let [host, port, user, password, name] = DB_VARIABLES.map(env);
    if host.is_none() && name.is_none() {
        return None;
    }
    let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let who = match (user, password) {
        (Some(user), Some(password)) => format!("{}:{}@", encoded(&user), encoded(&password)),
        (Some(user), None) => format!("{}@", encoded(&user)),
        (None, _) => String::new(),
    };
    let host = host.unwrap_or_else(|| "localhost".to_owned());
    let port = port.unwrap_or_else(|| "5432".to_owned());
    let name = name.map(|name| encoded(&name)).unwrap_or_default();
    // A path is the folder of a socket, which a URL can only name encoded.
    let host = if host.starts_with('/') { encoded(&host) } else { host };
    Some(format!("postgres://{who}{host}:{port}/{name}"))
}

/// A URL without its password.
pub fn masked(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let end = rest.find('/').unwrap_or(rest.len());
    let shown = match rest[..end].rsplit_once('@') {
        Some((who, host)) if who.contains(':') => {
            let user = who.split(':').next().unwrap_or_default();
            format!("{scheme}://{user}:***@{host}{}", &rest[end..])
        }
        _ => url.to_owned(),
    };
    match shown.split_once("password=") {
        None => shown,
        Some((before, after)) => {
            let end = after.find('&').unwrap_or(after.len());
            format!("{before}password=***{}", &after[end..])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(flags: Global, variables: &[(&str, &str)]) -> Settings {
        let env = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
        Settings::read(&flags, &env).unwrap()
    }

    /// T12, J1: where the store is comes from a URL, or else from the `DB_*` variables.
    #[test]
    fn the_strongest_source_counts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("windlass.toml");
        std::fs::write(&path, "store = \"sqlite:of-file.db\"\n").unwrap();
        let config = Some(path.clone());
        let flags = |store: Option<&str>| Global {
            store: store.map(str::to_owned),
            config: config.clone(),
            ..Global::default()
        };
        let env = [("WINDLASS_STORE", "sqlite:of-env.db"), ("DB_HOST", "db")];
        let of = |settings: Settings| (settings.store.value, settings.store.source);
        assert_eq!(of(read(flags(Some("memory:")), &env)), ("memory:".into(), Source::Flag));
        assert_eq!(of(read(flags(None), &env)), ("sqlite:of-env.db".into(), Source::Environment));
        assert_eq!(of(read(flags(None), &[("DB_HOST", "db")])), ("sqlite:of-file.db".into(), Source::File));
        std::fs::write(&path, "").unwrap();
        assert_eq!(
            of(read(flags(None), &[("DB_HOST", "db")])),
            ("postgres://db:5432/".into(), Source::Database)
        );
        assert_eq!(of(read(flags(None), &[])), (STORE.into(), Source::Default));
    }

    /// T12
    #[test]
    fn a_password_is_carried_over_and_never_shown() {
        let env = [("DB_HOST", "db"), ("DB_USER", "app"), ("DB_PASSWORD", "p@ss:w/rd"), ("DB_NAME", "jobs")];
        let settings = read(Global::default(), &env);
        assert_eq!(settings.store.value, "postgres://app:p%40ss%3Aw%2Frd@db:5432/jobs");
        assert_eq!(masked(&settings.store.value), "postgres://app:***@db:5432/jobs");
        assert_eq!(
            masked("postgres://db/jobs?user=a&password=hunter2&x=1"),
            "postgres://db/jobs?user=a&password=***&x=1"
        );
        assert_eq!(masked("sqlite:a.db"), "sqlite:a.db");
    }

    /// The port of `DB_PORT`, and the usual one without.
    #[test]
    fn a_port_is_carried_over() {
        let of = |env: &[(&str, &str)]| read(Global::default(), env).store.value;
        assert_eq!(of(&[("DB_HOST", "db"), ("DB_PORT", "6543")]), "postgres://db:6543/");
        assert_eq!(of(&[("DB_NAME", "jobs"), ("DB_PORT", "6543")]), "postgres://localhost:6543/jobs");
        assert_eq!(of(&[("DB_PORT", "6543")]), STORE, "a port alone names no server");
    }

    #[test]
    fn a_key_comes_from_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        std::fs::write(&path, "wl_of-file\n").unwrap();
        let flags = |key: Option<&str>, file: bool| Global {
            key: key.map(str::to_owned),
            key_file: file.then(|| path.clone()),
            ..Global::default()
        };
        let of = |settings: Settings| settings.key.map(|key| (key.value, key.source));
        let env = [("WINDLASS_KEY", "wl_of-env")];
        assert_eq!(of(read(flags(None, true), &env)), Some(("wl_of-file".into(), Source::Flag)));
        assert_eq!(of(read(flags(Some("wl_k"), false), &env)), Some(("wl_k".into(), Source::Flag)));
        assert_eq!(of(read(flags(None, false), &env)), Some(("wl_of-env".into(), Source::Environment)));
        let named = [("WINDLASS_KEY_FILE", path.to_str().unwrap())];
        assert_eq!(of(read(flags(None, false), &named)), Some(("wl_of-file".into(), Source::Environment)));
        std::fs::write(&path, "\n").unwrap();
        let env = |_: &str| None;
        let refused = |flags| Settings::read(&flags, &env).unwrap_err().detail;
        assert!(refused(flags(None, true)).contains("is empty"));
        std::fs::remove_file(&path).unwrap();
        assert!(refused(flags(None, true)).contains("cannot be read"));
    }

    /// Q15: limits come from flag, environment or file, and never pass the hard bounds.
    #[test]
    fn limits_are_settings_within_hard_bounds() {
        let settings = read(Global::default(), &[]);
        assert_eq!(settings.limits, Limits::default());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("windlass.toml");
        std::fs::write(&path, "payload_max_bytes = 2097152\nresult_max_bytes = 100\nretries_max = 5\n")
            .unwrap();
        let flags = |retries: Option<&str>| Global {
            config: Some(path.clone()),
            retries_max: retries.map(str::to_owned),
            ..Global::default()
        };
        let settings = read(flags(Some("7")), &[("WINDLASS_RESULT_MAX_BYTES", "200")]);
        let limits = Limits { payload_bytes: 2 << 20, result_bytes: 200, max_retries: 7 };
        assert_eq!(settings.limits, limits);
        let sources = [&settings.payload_max_bytes, &settings.result_max_bytes, &settings.retries_max];
        assert_eq!(sources.map(|s| s.source), [Source::File, Source::Environment, Source::Flag]);
        for (name, value) in [
            ("WINDLASS_PAYLOAD_MAX_BYTES", "0"),
            ("WINDLASS_PAYLOAD_MAX_BYTES", "16777217"),
            ("WINDLASS_RESULT_MAX_BYTES", "-1"),
            ("WINDLASS_RESULT_MAX_BYTES", "1MiB"),
            ("WINDLASS_RETRIES_MAX", "101"),
        ] {
            let env = |asked: &str| (asked == name).then(|| value.to_owned());
            let told = Settings::read(&Global::default(), &env).unwrap_err().detail;
            let setting = name.trim_start_matches("WINDLASS_").to_lowercase();
            assert!(told.starts_with(&format!("{setting} is ")), "{told}");
        }
    }

    /// J14: how long a lease lasts comes from flag, environment or file.
    #[test]
    fn the_default_lease_is_a_setting() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("windlass.toml");
        std::fs::write(&path, "lease = \"2m\"\n").unwrap();
        let flags = |lease: Option<&str>, is_file: bool| Global {
            config: is_file.then(|| path.clone()),
            lease: lease.map(str::to_owned),
            ..Global::default()
        };
        let of = |settings: Settings| (settings.lease_ms().get(), settings.lease.source);
        let env = [("WINDLASS_LEASE", "45")];
        assert_eq!(of(read(flags(Some("1h"), true), &env)), (3_600_000, Source::Flag));
        assert_eq!(of(read(flags(None, true), &env)), (45_000, Source::Environment));
        assert_eq!(of(read(flags(None, true), &[])), (120_000, Source::File));
        assert_eq!(of(read(flags(None, false), &[])), (30_000, Source::Default));
        for bad in ["1ms", "2d", "soon"] {
            let told = Settings::read(&flags(Some(bad), false), &|_| None).unwrap_err().detail;
            assert!(told.starts_with("lease is "), "{told}");
        }
    }

    #[test]
    fn a_server_and_a_store_of_the_same_strength_are_refused() {
        let named = |store: Option<&str>, url: Option<&str>| Global {
            store: store.map(str::to_owned),
            url: url.map(str::to_owned),
            ..Global::default()
        };
        assert!(
            read(named(None, Some("http://h")), &[("WINDLASS_STORE", "memory:")])
                .goes_through_server()
                .unwrap()
        );
        assert!(
            !read(named(Some("memory:"), None), &[("WINDLASS_URL", "http://h")])
                .goes_through_server()
                .unwrap()
        );
        assert!(read(named(Some("memory:"), Some("http://h")), &[]).goes_through_server().is_err());
    }
}
