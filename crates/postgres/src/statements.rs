//! The texts of statements for the schema in use. They are written for the schema `windlass`.

use crate::{app_role, cached_plans};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, RwLock};

/// Statement texts, rewritten once per schema.
#[derive(Debug)]
pub(crate) struct Texts {
    schema: String,
    rewritten: RwLock<HashMap<&'static str, Arc<str>>>,
    /// The calls of statements whose plans the server keeps, once it is known that their functions are there.
    kept: OnceLock<Vec<(&'static str, Arc<str>)>>,
    /// The calls of functions in the place of statements that write, where this role may not write itself.
    app: OnceLock<HashMap<&'static str, Arc<str>>>,
    /// The newest incarnation of the store that was seen: what fences are made with.
    incarnation: AtomicU32,
}

impl Texts {
    pub(crate) fn new(schema: &str) -> Self {
        Self {
            schema: schema.to_owned(),
            rewritten: RwLock::default(),
            kept: OnceLock::new(),
            app: OnceLock::new(),
            incarnation: AtomicU32::new(0),
        }
    }

    /// Says that the store was seen in this incarnation.
    pub(crate) fn note_incarnation(&self, incarnation: u32) {
        self.incarnation.fetch_max(incarnation, Ordering::Relaxed);
    }

    /// The newest incarnation that was seen.
    pub(crate) fn incarnation(&self) -> u32 {
        self.incarnation.load(Ordering::Relaxed)
    }

    /// The text for the schema in use.
    pub(crate) fn of(&self, sql: &'static str) -> Text {
        if let Some(call) = self.app.get().and_then(|app| app.get(sql)) {
            return Text::Other(Arc::clone(call));
        }
        if self.schema == "windlass" {
            return Text::Same(sql);
        }
        if let Some(text) = self.rewritten.read().ok().and_then(|m| m.get(sql).cloned()) {
            return Text::Other(text);
        }
        let text: Arc<str> = self.rewrite(sql).into();
        if let Ok(mut map) = self.rewritten.write() {
            map.insert(sql, Arc::clone(&text));
        }
        Text::Other(text)
    }

    /// Says that the functions of hot statements are there.
    pub(crate) fn keep(&self) {
        let _again = self.kept.set(cached_plans::calls().map(|call| self.called(call)).collect());
    }

    /// Says that this role may not write itself, and that the functions for that are there.
    pub(crate) fn call_functions(&self) {
        let _again = self.app.set(app_role::calls().map(|call| self.called(call)).collect());
        let _none = self.kept.set(app_role::calls().map(|call| self.called(call)).collect());
    }

    fn called(&self, (sql, call): (&'static str, String)) -> (&'static str, Arc<str>) {
        (sql, Arc::from(&*self.rewrite(&call)))
    }

    /// The call of a statement whose plan the server keeps, where its function is there.
    pub(crate) fn kept(&self, sql: &'static str) -> Option<Text> {
        let kept = self.kept.get()?.iter().find(|(of, _)| *of == sql);
        kept.map(|(_, call)| Text::Other(Arc::clone(call)))
    }

    /// A text that is used once.
    pub(crate) fn rewrite<'t>(&self, sql: &'t str) -> Cow<'t, str> {
        if self.schema == "windlass" {
            return Cow::Borrowed(sql);
        }
        // Quoted, for a schema may be named like a word of SQL.
        let schema = format!("\"{}\"", self.schema);
        let mut named = sql.replace("windlass.", &format!("{schema}."));
        for before in ["SCHEMA ", "SCHEMA IF NOT EXISTS ", "search_path = "] {
            named = named.replace(&format!("{before}windlass"), &format!("{before}{schema}"));
        }
        Cow::Owned(named)
    }
}

/// A statement's text.
pub(crate) enum Text {
    Same(&'static str),
    Other(Arc<str>),
}

impl std::ops::Deref for Text {
    type Target = str;
    fn deref(&self) -> &str {
        match self {
            Self::Same(text) => text,
            Self::Other(text) => text,
        }
    }
}
