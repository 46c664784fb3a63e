//! Who calls, and whether that is enough: keys, sessions, lease tokens, and nobody at all on a local server without keys.
//!
//! Deny by default: a route that names no role is for admins, a store that does not answer lets nobody in.

use crate::app::App;
use crate::codes;
use crate::origin;
use crate::pass::{Bearer, Pass};
use crate::problem::Problem;
use crate::route::{Access, ROLES, Route, role_word};
use crate::session::{self, SessionHash};
use crate::throttle::{Caller, Peer};
use axum::http::header::{self, HeaderMap};
use axum::http::request::Parts;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use windlass_core::{AccessKey, Actor, Name, Role, Token, Who};
use windlass_store::{StoreError, fresh};

/// How long the store has to say who calls.
const PATIENCE: Duration = Duration::from_secs(5);
/// The same for what anybody may ask, also whether the server is alive.
const PATIENCE_ANYBODY: Duration = Duration::from_millis(150);

/// Who calls.
#[derive(Debug, Clone)]
pub(crate) enum Principal {
    /// Whoever has opened the store itself. May everything.
    Owner(Actor),
    /// Anybody on this machine, while no key was ever made. May everything.
    Local,
    /// Whoever has this key, perhaps by a session that was begun with it.
    Key(Arc<AccessKey>, Option<SessionHash>),
    /// The holder of a job, for that job.
    Lease(Token),
    /// Nobody is known; what the body brings must be enough.
    Nobody,
}

impl Principal {
    /// As the log shows it.
    pub(crate) fn actor(&self) -> Actor {
        match self {
            Self::Key(key, _) => Actor::key(&key.name),
            Self::Owner(actor) => actor.clone(),
            _ => Actor::api(),
        }
    }

    /// The name that idempotency keys are kept apart by.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Owner(actor) => format!("owner:{actor}"),
            Self::Local => "local".to_owned(),
            Self::Key(key, _) => format!("key:{}", key.name),
            Self::Lease(token) => format!("lease:{:?}", token.hash()),
            Self::Nobody => "nobody".to_owned(),
        }
    }

    /// The key that was sent, if one was.
    pub(crate) fn key(&self) -> Option<&Who> {
        if let Self::Key(key, _) = self { Some(&key.name) } else { None }
    }

    /// The voter it is: a name and the words for its roles.
    pub(crate) fn voter(&self) -> Option<(Who, Vec<String>)> {
        let words = |roles: &[Role]| roles.iter().map(|role| role_word(*role).to_owned()).collect();
        match self {
            Self::Owner(actor) => Who::parse("name", actor.as_str()).ok().map(|name| (name, words(&ROLES))),
            Self::Local => Who::parse("name", "local").ok().map(|name| (name, words(&ROLES))),
            Self::Key(key, _) => Some((key.name.clone(), words(&key.roles))),
            Self::Lease(_) | Self::Nobody => None,
        }
    }

    /// The lease token that was shown as bearer.
    pub(crate) fn lease(&self) -> Option<Token> {
        if let Self::Lease(token) = self { Some(*token) } else { None }
    }

    /// Whether it has one of these roles.
    pub(crate) fn has(&self, roles: &[Role]) -> bool {
        match self {
            Self::Owner(_) | Self::Local => true,
            Self::Key(key, _) => key.roles.iter().any(|role| *role == Role::Admin || roles.contains(role)),
            Self::Lease(_) | Self::Nobody => false,
        }
    }

    /// Whether it is for some queues only.
    pub(crate) fn is_for_some_queues(&self) -> bool {
        matches!(self, Self::Key(key, _) if key.queues.is_some())
    }

    /// Whether it may touch this queue.
    pub(crate) fn sees(&self, queue: &Name) -> bool {
        match self {
            Self::Key(key, _) => key.queues.as_ref().is_none_or(|queues| queues.contains(queue)),
            _ => true,
        }
    }

    /// The caller that limits are counted for: the key where there is one, for many may share an address.
    pub(crate) fn caller(&self, address: &Caller) -> Caller {
        match self {
            Self::Key(key, _) => Caller::Key(key.name.clone()),
            _ => address.clone(),
        }
    }

    /// What must stay good for what this caller keeps open.
    pub(crate) fn pass(&self, app: &App) -> Pass {
        app.passes.give(match self {
            Self::Key(_, Some(session)) => Some(Bearer::Session(*session)),
            Self::Key(key, None) => Some(Bearer::Key(key.hash)),
            Self::Local => Some(Bearer::NoKey),
            Self::Owner(_) | Self::Lease(_) | Self::Nobody => None,
        })
    }

    /// Refuses something of a queue that is not its own, without a word about which that is.
    pub(crate) fn check_sees(&self, queue: &Name) -> Result<(), Problem> {
        if self.sees(queue) {
            return Ok(());
        }
        let detail = "this is in a queue that this key is not for; use one that is, or one for all queues";
        Err(Problem::new(codes::QUEUE_FORBIDDEN, detail))
    }

    /// Refuses a queue that is not its own, by the name that the caller gave.
    pub(crate) fn check_queue(&self, queue: &Name) -> Result<(), Problem> {
        if self.sees(queue) {
            return Ok(());
        }
        let detail = format!("this key is not for queue {queue}; use one that is, or one for all queues");
        Err(Problem::new(codes::QUEUE_FORBIDDEN, detail).with("queue", queue.as_str()))
    }

    /// Refuses a key that is for some queues only, where something concerns all of them.
    pub(crate) fn check_all_queues(&self) -> Result<(), Problem> {
        if !self.is_for_some_queues() {
            return Ok(());
        }
        let detail = "this concerns every queue and this key is for some only; use a key for all queues";
        Err(Problem::new(codes::QUEUE_FORBIDDEN, detail))
    }
}

/// Marks a request that did not come over a network: who called has opened the store. No bytes of a connection become this.
#[derive(Debug, Clone)]
pub(crate) struct Owner(pub(crate) Actor);

/// What a request shows of itself.
enum Shown {
    Nothing,
    Lease(Token),
    Bearer(String),
    Cookie(String),
}

/// Says who asks, or why nobody of that kind is let in. What the key may do is for [`check_role`]. Nothing of the body was
/// read yet.
pub(crate) async fn enter(app: &App, route: &Route, parts: &Parts) -> Result<Principal, Problem> {
    if let Some(Owner(actor)) = parts.extensions.get() {
        return Ok(Principal::Owner(actor.clone()));
    }
    if route.access == Access::Everybody {
        return enter_anybody(app, parts).await;
    }
    let caller = caller_of(parts);
    let is_keyed = soon(app.gate.is_keyed()).await?;
    if !is_keyed {
        check_local(app, parts)?;
    }
    match shown(&parts.headers)? {
        Shown::Lease(token) if route.by_lease => Ok(Principal::Lease(token)),
        Shown::Lease(_) => {
            let detail = "a lease token opens only the worker verbs of its own job; use a key";
            Err(Problem::new(codes::FORBIDDEN, detail))
        }
        // Cookies know no ports: one of another server on this machine means nothing here.
        Shown::Nothing | Shown::Cookie(_) if !is_keyed => Ok(Principal::Local),
        Shown::Bearer(_) if !is_keyed => {
            Err(unauthorized("no key was made here yet; leave the key out, or make one with `windlass keys`"))
        }
        Shown::Nothing if route.by_link => Ok(Principal::Nobody),
        Shown::Nothing => Err(unauthorized("send a key: `authorization: Bearer KEY`")),
        Shown::Bearer(key) => known(app, &caller, &key).await,
        Shown::Cookie(id) => {
            origin::check_same(&parts.method, &parts.headers)?;
            known_session(app, &caller, &id).await
        }
    }
}

/// Whether a key has a role that the route asks for.
pub(crate) fn check_role(route: &Route, principal: &Principal) -> Result<(), Problem> {
    match (principal, route.access) {
        // Whoever has the link may vote, whatever else it shows; without the link the handler says the same.
        (Principal::Key(..), Access::Roles(roles)) if !principal.has(roles) && !route.by_link => {
            Err(forbidden(&format!("{} {}", route.method, route.path), &route.who()))
        }
        _ => Ok(()),
    }
}

/// 403, with who may.
pub(crate) fn forbidden(what: &str, who: &str) -> Problem {
    Problem::new(codes::FORBIDDEN, format!("{what} is for {who}; this key is not"))
}

/// Lets anybody in: also while the store does not answer, for somebody may ask just that.
async fn enter_anybody(app: &App, parts: &Parts) -> Result<Principal, Problem> {
    let is_keyed = match app.gate.known_keyed() {
        Some(known) => known,
        // A store that says nothing must not keep anybody from hearing that the server is alive.
        None => {
            timeout(PATIENCE_ANYBODY, app.gate.is_keyed()).await.is_ok_and(|known| known.unwrap_or(false))
        }
    };
    if app.is_loopback() && !is_keyed {
        origin::check_local(&parts.method, &parts.headers)?;
    }
    Ok(Principal::Nobody)
}

/// Without keys, only whoever is on this machine and speaks to it by its local name.
fn check_local(app: &App, parts: &Parts) -> Result<(), Problem> {
    if !app.is_loopback() {
        return Err(unauthorized("this server has no key yet; make one with `windlass keys create`"));
    }
    origin::check_local(&parts.method, &parts.headers)
}

/// Who a request comes from, as far as its connection tells.
pub(crate) fn caller_of(parts: &Parts) -> Caller {
    parts.extensions.get().map_or(Caller::Here, |Peer(address)| Caller::at(*address))
}

/// The answer of the store, or that there was none in time.
async fn soon<T>(answer: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    let silent = || StoreError::Unavailable("the store did not say in time who calls".into());
    timeout(PATIENCE, answer).await.unwrap_or_else(|_| Err(silent()))
}

/// The key that a text is, if it opens anything now. Whoever showed many wrong ones is not even looked up, unless the key
/// was seen before: others may come from the same address.
pub(crate) async fn known(app: &App, caller: &Caller, text: &str) -> Result<Principal, Problem> {
    if !app.gate.was_known(text) {
        app.throttle.check_wrong(caller)?;
    }
    let key = soon(app.gate.find(text)).await?.filter(|key| key.is_valid(fresh::wall_clock()));
    key.map(|key| Principal::Key(key, None)).ok_or_else(|| {
        app.throttle.wrong(caller);
        unauthorized("the key is unknown, expired or revoked; use another")
    })
}

/// The key of the session that a cookie names, if both are good now.
async fn known_session(app: &App, caller: &Caller, id: &str) -> Result<Principal, Problem> {
    let session = session::hash(id);
    if !app.sessions.was_known(session) {
        app.throttle.check_wrong(caller)?;
    }
    let key = match soon(app.sessions.find(session)).await? {
        Some(hash) => soon(app.gate.find_hash(hash)).await?,
        None => None,
    };
    let key = key.filter(|key| key.is_valid(fresh::wall_clock()));
    key.map(|key| Principal::Key(key, Some(session))).ok_or_else(|| {
        app.throttle.wrong(caller);
        unauthorized("the session is over, or its key is; sign in again")
    })
}

/// 401 for whoever waited under a key that ended meanwhile.
pub(crate) fn revoked() -> Problem {
    unauthorized("the key or session ended while this request waited; use another")
}

/// 401, with the way to do better.
pub(crate) fn unauthorized(detail: &str) -> Problem {
    Problem::new(codes::UNAUTHORIZED, detail).header(header::WWW_AUTHENTICATE, "Bearer realm=\"windlass\"")
}

fn shown(headers: &HeaderMap) -> Result<Shown, Problem> {
    let Some(value) = headers.get(header::AUTHORIZATION) else {
        return Ok(cookie(headers).map_or(Shown::Nothing, Shown::Cookie));
    };
    let text = value.to_str().unwrap_or_default();
    let token = match text.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => token.trim(),
        _ => return Err(unauthorized("the authorization header must be `Bearer KEY`")),
    };
    Ok(Token::parse(token).map_or_else(|_| Shown::Bearer(token.to_owned()), Shown::Lease))
}

/// The session cookie that fits how the server is spoken to.
pub(crate) fn cookie(headers: &HeaderMap) -> Option<String> {
    let name = origin::cookie_name(headers);
    let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = all.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(known, _)| *known == name).map(|(_, value)| value.to_owned())
}
