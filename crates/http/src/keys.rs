//! Access keys and sessions: `/v1/keys`, `/v1/session`.

use crate::access::{Principal, known, unauthorized};
use crate::call::{Call, Reply, json, ok};
use crate::codes;
use crate::gate::KeyText;
use crate::origin;
use crate::problem::Problem;
use crate::route::{ROLES, role_word};
use crate::shape::object::objects;
use crate::shape::registry::KeyShape;
use crate::shape::time::Time;
use axum::http::StatusCode;
use axum::http::header::{self, HeaderValue};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass_core::limits::count;
use windlass_core::{Invalid, Name, Role, Who};
use windlass_store::{PutAccessKey, RevokeAccessKey};

objects!(NewKey, SignIn);

/// How long a browser keeps a session, in seconds (12 hours).
const SESSION_SECONDS: u32 = 43_200;
/// The most queues of one key.
const QUEUES_MAX: usize = 1_000;

/// Every key, by name.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AccessKeys)]
pub(crate) struct KeysPage {
    keys: Vec<KeyShape>,
}

/// `GET /v1/keys`
pub(crate) async fn keys(call: Call) -> Reply {
    let keys = call.store().access_keys((), None).await?;
    ok(&KeysPage { keys: keys.iter().map(KeyShape::from).collect() })
}

/// A key to make.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = NewAccessKey)]
pub(crate) struct NewKey {
    /// Its name: who it stands for in logs and audit. Taken once, also after it was revoked.
    #[schema(min_length = 1, max_length = 128)]
    name: String,
    /// What it may do: `viewer`, `producer`, `worker`, `approver`, `operator`, `admin`.
    #[schema(min_items = 1)]
    roles: Vec<String>,
    /// Only for these queues; for all when it is absent.
    #[serde(default)]
    queues: Option<Vec<String>>,
    /// Until when; for ever when it is absent.
    #[serde(default)]
    expires_at: Option<Time>,
}

/// A key that was made.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = MadeAccessKey)]
pub(crate) struct MadeKey {
    key: KeyShape,
    /// The key itself. It is shown this once and kept nowhere.
    secret: String,
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
    let text = KeyText::fresh();
    let request = PutAccessKey {
        name: name.clone(),
        hash: text.hash(),
        roles,
        queues: queues.transpose()?,
        expires_at: body.expires_at.map(|time| time.0),
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

fn role(word: &str) -> Result<Role, Invalid> {
    let all = || ROLES.map(role_word).join(", ");
    let wrong = || Invalid::new("roles", word, format!("must be some of {}", all()));
    ROLES.into_iter().find(|role| role_word(*role) == word).ok_or_else(wrong)
}

fn gone(name: &Who) -> Problem {
    Problem::new(codes::NOT_FOUND, format!("there is no key {name}"))
}

/// One key.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = OneAccessKey)]
pub(crate) struct OneKey {
    key: KeyShape,
}

/// `DELETE /v1/keys/{name}`
pub(crate) async fn revoke(call: Call) -> Reply {
    let name = Who::parse("name", call.segment("name"))?;
    let request = RevokeAccessKey { name: name.clone(), actor: call.actor() };
    let key = call.store().revoke_access_key(request, None).await?.ok_or_else(|| gone(&name))?;
    call.app.gate.forget();
    ok(&OneKey { key: KeyShape::from(&key) })
}

/// Who signs in.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = SignIn)]
pub(crate) struct SignIn {
    /// The key, unless it is the bearer.
    #[serde(default)]
    key: Option<String>,
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
            Principal::Key(key) => Some(Self {
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

/// `POST /v1/session`: gives a browser a cookie that stands for the key. The page never sees the key again.
pub(crate) async fn sign_in(call: Call) -> Reply {
    let body: SignIn = call.body()?;
    let bearer = call.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let bearer = bearer.and_then(|text| text.split_once(' ')).map(|(_, key)| key.trim().to_owned());
    // A cookie that another site planted would sign somebody in as somebody else.
    origin::check_sign_in(&call.headers)?;
    let key = body.key.or(bearer).ok_or_else(|| unauthorized("send the key to sign in with"))?;
    let who = known(&call.app, &key).await?;
    let session = Session::of(&who).ok_or_else(|| unauthorized("send the key to sign in with"))?;
    let mut response = json(StatusCode::CREATED, &session)?;
    set_cookie(&call, &mut response, &key, SESSION_SECONDS)?;
    Ok(response)
}

/// `DELETE /v1/session`
pub(crate) async fn sign_out(call: Call) -> Reply {
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
