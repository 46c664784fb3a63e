//! The part of an address after the question mark. A route names its parameters; any other is refused.

use crate::codes;
use crate::problem::Problem;
use crate::route::Param;
use windlass_core::limits::{PAGE_MAX, within};
use windlass_core::span::{parse_moment, parse_ms, within_ms};
use windlass_core::{Invalid, JobId, Name, Timestamp, Who};
use windlass_store::fresh;

/// The parameters of one request, each known to its route.
#[derive(Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Reads the parameters that a route knows.
    pub(crate) fn parse(text: Option<&str>, known: &[Param]) -> Result<Self, Problem> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        for (name, value) in form_urlencoded::parse(text.unwrap_or_default().as_bytes()) {
            let Some(param) = known.iter().find(|param| param.name == name) else {
                let names: Vec<&str> = known.iter().map(|param| param.name).collect();
                let detail = match names.as_slice() {
                    [] => format!("there is no parameter {name:?}; this route takes none"),
                    names => format!("there is no parameter {name:?}; this route takes {}", names.join(", ")),
                };
                return Err(Problem::new(codes::UNKNOWN_FIELD, detail).with("field", name.into_owned()));
            };
            if !param.is_many && pairs.iter().any(|(known, _)| *known == name) {
                return Err(Invalid::new(param.name, "given twice", "give it once").into());
            }
            pairs.push((name.into_owned(), value.into_owned()));
        }
        Ok(Self(pairs))
    }

    /// The value as it stands.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Every value of a parameter, also where several stand behind commas.
    pub(crate) fn many(&self, name: &str) -> Vec<&str> {
        let values = self.0.iter().filter(|(known, _)| known == name).flat_map(|(_, value)| value.split(','));
        values.filter(|value| !value.is_empty()).collect()
    }

    /// A name.
    pub(crate) fn name(&self, name: &str) -> Result<Option<Name>, Invalid> {
        self.text(name).map(|value| Name::parse(name, value)).transpose()
    }

    /// Somebody's id.
    pub(crate) fn who(&self, name: &str) -> Result<Option<Who>, Invalid> {
        self.text(name).map(|value| Who::parse(name, value)).transpose()
    }

    /// A job's id.
    pub(crate) fn job(&self, name: &str) -> Result<Option<JobId>, Invalid> {
        let parse = |value| JobId::parse(value).map_err(|e| Invalid { field: name.to_owned(), ..e });
        self.text(name).map(parse).transpose()
    }

    /// A moment, also one seen from now.
    pub(crate) fn time(&self, name: &str) -> Result<Option<Timestamp>, Invalid> {
        self.text(name).map(|value| parse_moment(name, value, fresh::wall_clock())).transpose()
    }

    /// A length of time, in milliseconds.
    pub(crate) fn span_ms(&self, name: &str, max_ms: i64) -> Result<Option<i64>, Invalid> {
        let Some(value) = self.text(name) else { return Ok(None) };
        within_ms(name, parse_ms(name, value)?, 0, max_ms).map(Some)
    }

    /// Yes or no; no when it is absent.
    pub(crate) fn flag(&self, name: &str) -> Result<bool, Invalid> {
        match self.text(name) {
            None | Some("false" | "0") => Ok(false),
            Some("true" | "1" | "") => Ok(true),
            Some(other) => Err(Invalid::new(name, other, "must be true or false")),
        }
    }

    /// A whole number.
    pub(crate) fn number(&self, name: &str) -> Result<Option<i64>, Invalid> {
        let wrong = |value: &str| Invalid::new(name, value, "must be a whole number");
        self.text(name).map(|value| value.parse().map_err(|_| wrong(value))).transpose()
    }

    /// How many rows at most.
    pub(crate) fn limit(&self, default: usize) -> Result<usize, Invalid> {
        let limit = self.number("limit")?.unwrap_or(default as i64);
        within("limit", limit, 1, PAGE_MAX as i64).map(|limit| limit as usize)
    }
}
