//! Access keys and sessions: `/v1/keys`, `/v1/session`.

use crate::access::{Principal, cookie, known, unauthorized};
use crate::call::{Call, Reply, json, ok};
use crate::codes;
use crate::gate::KeyText;
use crate::origin;
use crate::problem::Problem;
use crate::route::{ROLES, role_word};
use crate::session;
use crate::wire::control::{NewKey, SignIn};
use crate::wire::registry::{KeyShape, KeysPage, MadeKey, OneKey};
use crate::wire::time::Time;
use axum::http::StatusCode;
use axum::http::header::{self, HeaderValue};
use serde::Serialize;
use utoipa::ToSchema;
use windlass_core::limits::count;
use windlass_core::{AccessKey, Invalid, Name, Role, Timestamp, Who};
use windlass_store::{PutAccessKey, RevokeAccessKey};

/// The most queues of one key.
const QUEUES_MAX: usize = 1_000;

/// `GET /v1/keys`
pub(crate) async fn keys(call: Call) -> Reply {
    let keys = call.store().access_keys((), None).await?;
    let visible = keys.iter().filter(|key| grants(&call.who, (*key).into()).is_ok());
    ok(&KeysPage { keys: visible.map(KeyShape::from).collect() })
}

/// `POST /v1/keys`
pub(crate) async fn make(call: Call) -> Reply {
    let body: NewKey = call.body()?;
    let name = Who::parse("name", &body.name)?;
    let roles = body.roles.iter().map(|word| role(word)).collect::<Result<Vec<_>, _>>()?;
    if roles.is_empty() {
        return Err(Invalid::new("roles", "empty", "must name at least one role").into());
    }
    let queues = body.queues.map(|queues| {
        count("queues", queues.len(), QUEUES_MAX)?;
        queues.iter().map(|queue| Name::parse("queues", queue)).collect::<Result<Vec<_>, _>>()
    });
    let (queues, expires_at) = (queues.transpose()?, body.expires_at.map(|time| time.0));
    grants(&call.who, Grant { roles: &roles, queues: queues.as_deref(), expires_at })?;
    let text = KeyText::fresh();
    let request = PutAccessKey {
        name: name.clone(),
        hash: text.hash(),
        roles,
        queues,
        expires_at,
        actor: call.actor(),
    };
    // A lost answer is asked for again: nobody else could ever show this key.
    let is_made = crate::app::known(|| call.app.store.put_access_key(request.clone(), None)).await?;
    call.app.gate.forget();
    if !is_made {
        let detail =
            format!("there is a key {name}, perhaps a revoked one; a name is used once, take another");
        return Err(Problem::new(codes::KEY_EXISTS, detail));
    }
    let made = call.store().access_key(text.hash(), None).await?.ok_or_else(|| gone(&name))?;
    json(StatusCode::CREATED, &MadeKey { key: KeyShape::from(&made), secret: text.as_str().to_owned() })
}

/// What a key grants.
#[derive(Debug, Clone, Copy)]
struct Grant<'a> {
    roles: &'a [Role],
    queues: Option<&'a [Name]>,
    expires_at: Option<Timestamp>,
}

impl<'a> From<&'a AccessKey> for Grant<'a> {
    fn from(key: &'a AccessKey) -> Self {
        // Whoever sees or revokes a key gives nothing, so how long it lasts does not matter.
        let expires_at = Some(Timestamp::from_micros(0));
        Self { roles: &key.roles, queues: key.queues.as_deref(), expires_at }
    }
}

/// Refuses a grant that goes beyond the caller's own key: a role, a queue, or a day longer.
fn grants(who: &Principal, grant: Grant<'_>) -> Result<(), Problem> {
    let Principal::Key(own, _) = who else { return Ok(()) };
    let refused = |what: &str| {
        let detail = format!("no key grants more than it has: {what}; ask somebody whose key has it");
        Err(Problem::new(codes::FORBIDDEN, detail))
    };
    if !grant.roles.iter().all(|role| who.has(&[*role])) {
        return refused("this one has not all of these roles");
    }
    if let Some(own) = &own.queues {
        let Some(queues) = grant.queues else { return refused("this one is for some queues, not for all") };
        if !queues.iter().all(|queue| own.contains(queue)) {
            return refused("this one is not for all of these queues");
        }
    }
    match own.expires_at {
        Some(end) if grant.expires_at.is_none_or(|at| at > end) => {
            let until = Time(end);
            refused(&format!("this one expires at {}, so name an expires_at that is not later", until.0))
        }
        _ => Ok(()),
    }
}

fn role(word: &str) -> Result<Role, Invalid> {
    let all = || ROLES.map(role_word).join(", ");
    let wrong = || Invalid::new("roles", word, format!("must be some of {}", all()));
    ROLES.into_iter().find(|role| role_word(*role) == word).ok_or_else(wrong)
}

fn gone(name: &Who) -> Problem {
    Problem::new(codes::NOT_FOUND, format!("there is no key {name}"))
}

/// `DELETE /v1/keys/{name}`
pub(crate) async fn revoke(call: Call) -> Reply {
    let name = Who::parse("name", call.segment("name"))?;
    let keys = call.store().access_keys((), None).await?;
    let key = keys.iter().find(|key| key.name == name).ok_or_else(|| gone(&name))?;
    grants(&call.who, key.into())?;
    let request = RevokeAccessKey { name: name.clone(), actor: call.actor() };
    let key = call.store().revoke_access_key(request, None).await?.ok_or_else(|| gone(&name))?;
    call.app.gate.forget();
    call.app.passes.look_now();
    ok(&OneKey { key: KeyShape::from(&key) })
}

/// Who is signed in.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Session)]
pub(crate) struct Session {
    /// The key's name.
    name: String,
    /// What it may do.
    roles: Vec<&'static str>,
    /// Only for these queues.
    queues: Option<Vec<String>>,
    /// Until when.
    expires_at: Option<Time>,
}

impl Session {
    fn of(who: &Principal) -> Option<Self> {
        let words = |roles: &[Role]| roles.iter().map(|role| role_word(*role)).collect();
        match who {
            Principal::Owner(_) | Principal::Local => Some(Self {
                name: "local".into(),
                roles: words(&[Role::Admin]),
                queues: None,
                expires_at: None,
            }),
            Principal::Key(key, _) => Some(Self {
                name: key.name.to_string(),
                roles: words(&key.roles),
                queues: key.queues.as_ref().map(|names| names.iter().map(ToString::to_string).collect()),
                expires_at: key.expires_at.map(Time),
            }),
            Principal::Lease(_) | Principal::Nobody => None,
        }
    }
}

/// `GET /v1/session`
pub(crate) async fn session(call: Call) -> Reply {
    ok(&Session::of(&call.who).ok_or_else(|| unauthorized("sign in with a key"))?)
}

/// `POST /v1/session`: begins a session, whose cookie is an id that means nothing elsewhere. The page never sees the key
/// again.
pub(crate) async fn sign_in(call: Call) -> Reply {
    let body: SignIn = call.body()?;
    let bearer = call.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let bearer = bearer.and_then(|text| text.split_once(' ')).map(|(_, key)| key.trim().to_owned());
    // A cookie that another site planted would sign somebody in as somebody else.
    origin::check_sign_in(&call.headers)?;
    let send = || unauthorized("send the key to sign in with");
    let key = body.key.or(bearer).ok_or_else(send)?;
    let who = known(&call.app, &call.caller, &key).await?;
    let (Principal::Key(key, _), Some(session)) = (&who, Session::of(&who)) else { return Err(send()) };
    let id = call.app.sessions.begin(key.hash).await?;
    let mut response = json(StatusCode::CREATED, &session)?;
    set_cookie(&call, &mut response, &id, session::SECONDS)?;
    Ok(response)
}

/// `DELETE /v1/session`
pub(crate) async fn sign_out(call: Call) -> Reply {
    if let Some(id) = cookie(&call.headers) {
        origin::check_same(&call.method, &call.headers)?;
        let session = session::hash(&id);
        // A stranger's cookie is no session, and is not written down as one that ended.
        if call.app.sessions.find(session).await?.is_some() {
            call.app.sessions.end(session).await?;
            call.app.passes.look_now();
        }
    }
    let mut response = axum::http::Response::new(axum::body::Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    set_cookie(&call, &mut response, "", 0)?;
    Ok(response)
}

fn set_cookie(
    call: &Call,
    response: &mut axum::http::Response<axum::body::Body>,
    value: &str,
    seconds: u32,
) -> Result<(), Problem> {
    let name = origin::cookie_name(&call.headers);
    let secure = if name.starts_with("__Host-") { "; Secure" } else { "" };
    let cookie = format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}");
    let cookie =
        HeaderValue::from_str(&cookie).map_err(|_| unauthorized("the key has characters that no key has"))?;
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    Ok(())
}
