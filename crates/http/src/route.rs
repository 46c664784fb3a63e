//! One row of the table of routes: where, who may, what it takes and gives. The router, the roles and the document are
//! made from it.

use crate::call::{Call, Reply};
use axum::http::Method;
use futures_util::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;
use utoipa::ToSchema;
use utoipa::openapi::schema::Type;
use utoipa::openapi::{RefOr, Schema};
use windlass_core::Role;

/// How much of a body is read of somebody who showed nothing yet, unless a route says otherwise.
const STRANGER_MAX_BYTES: usize = 64 << 10;

/// Who may call a route. Admin may everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Anybody.
    Everybody,
    /// Whoever has a valid key, whatever its roles.
    AnyKey,
    /// Whoever has one of these roles.
    Roles(&'static [Role]),
}

type Handler = Arc<dyn Fn(Call) -> BoxFuture<'static, Reply> + Send + Sync>;
/// Schemas by name, as a route's bodies bring them.
pub(crate) type Schemas = Vec<(String, RefOr<Schema>)>;

/// A parameter behind the question mark.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Param {
    pub(crate) name: &'static str,
    pub(crate) is_a: Is,
    pub(crate) about: &'static str,
    /// Whether it may be given more than once.
    pub(crate) is_many: bool,
}

/// What a parameter is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Is {
    Text,
    Number,
    Flag,
    Time,
    Span,
    Id,
}

impl Is {
    pub(crate) fn schema_type(self) -> Type {
        match self {
            Self::Number => Type::Integer,
            Self::Flag => Type::Boolean,
            Self::Text | Self::Time | Self::Span | Self::Id => Type::String,
        }
    }
}

/// A parameter that may be given once.
pub(crate) const fn param(name: &'static str, is_a: Is, about: &'static str) -> Param {
    Param { name, is_a, about, is_many: false }
}

/// The shape of a body, by the name it has in the document.
#[derive(Clone)]
pub(crate) struct Shape {
    pub(crate) name: String,
    pub(crate) schemas: fn(&mut Schemas),
}

impl Shape {
    fn of<T: ToSchema>() -> Self {
        fn collect<T: ToSchema>(into: &mut Schemas) {
            into.push((T::name().into_owned(), T::schema()));
            T::schemas(into);
        }
        Self { name: T::name().into_owned(), schemas: collect::<T> }
    }
}

/// What a route answers when all is well.
#[derive(Clone)]
pub(crate) struct Gives {
    pub(crate) status: u16,
    pub(crate) media_type: &'static str,
    pub(crate) shape: Option<Shape>,
}

/// One row of the table.
pub struct Route {
    /// The method.
    pub method: Method,
    /// The path, with its parameters in braces.
    pub path: &'static str,
    /// Who may.
    pub access: Access,
    /// Whether a job's lease token is enough for that job.
    pub by_lease: bool,
    /// Whether an approval's link token, in the body, is enough.
    pub by_link: bool,
    /// What it does, in one line.
    pub about: &'static str,
    pub(crate) params: Vec<Param>,
    pub(crate) takes: Option<Shape>,
    pub(crate) gives: Vec<Gives>,
    /// The refusals worth naming, by code; any route may answer those of access and of the store.
    pub(crate) refuses: &'static [&'static str],
    /// Whether an `Idempotency-Key` is honoured.
    pub(crate) creates: bool,
    /// How much of a body is read of somebody who showed nothing yet.
    pub(crate) stranger_max_bytes: usize,
    pub(crate) handler: Handler,
}

impl std::fmt::Debug for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.method, self.path)
    }
}

impl Route {
    /// A route that only admins may call, until [`Route::may`] says otherwise.
    pub(crate) fn new<F>(
        method: Method,
        path: &'static str,
        about: &'static str,
        handler: fn(Call) -> F,
    ) -> Self
    where
        F: Future<Output = Reply> + Send + 'static,
    {
        Self {
            method,
            path,
            access: Access::Roles(&[]),
            by_lease: false,
            by_link: false,
            about,
            params: Vec::new(),
            takes: None,
            gives: Vec::new(),
            refuses: &[],
            creates: false,
            stranger_max_bytes: STRANGER_MAX_BYTES,
            handler: Arc::new(move |call| Box::pin(handler(call))),
        }
    }

    /// Whoever has one of these roles may call it.
    pub(crate) fn may(mut self, roles: &'static [Role]) -> Self {
        self.access = Access::Roles(roles);
        self
    }

    /// Anybody, or anybody with a key, may call it.
    pub(crate) fn open_to(mut self, access: Access) -> Self {
        self.access = access;
        self
    }

    /// The lease token of the job is enough.
    pub(crate) fn or_lease(mut self) -> Self {
        self.by_lease = true;
        self
    }

    /// The link token of the approval is enough.
    pub(crate) fn or_link(mut self) -> Self {
        self.by_link = true;
        self
    }

    /// It knows these parameters.
    pub(crate) fn asks(mut self, params: impl IntoIterator<Item = Param>) -> Self {
        self.params.extend(params);
        self
    }

    /// It takes a body of this shape.
    pub(crate) fn takes<T: ToSchema>(mut self) -> Self {
        self.takes = Some(Shape::of::<T>());
        self
    }

    /// It answers JSON of this shape.
    pub(crate) fn gives<T: ToSchema>(mut self, status: u16) -> Self {
        let shape = Some(Shape::of::<T>());
        self.gives.push(Gives { status, media_type: "application/json", shape });
        self
    }

    /// It answers something else than JSON, or nothing.
    pub(crate) fn gives_other(mut self, status: u16, media_type: &'static str) -> Self {
        self.gives.push(Gives { status, media_type, shape: None });
        self
    }

    /// Somebody who showed nothing yet may send so much.
    pub(crate) fn strangers_send(mut self, max_bytes: usize) -> Self {
        self.stranger_max_bytes = max_bytes;
        self
    }

    /// It honours an `Idempotency-Key`.
    pub(crate) fn creates(mut self) -> Self {
        self.creates = true;
        self
    }

    /// Refusals worth naming.
    pub(crate) fn refuses(mut self, codes: &'static [&'static str]) -> Self {
        self.refuses = codes;
        self
    }

    /// How long a handler may take, with the longest wait that its caller may ask for.
    pub(crate) fn deadline(&self) -> Duration {
        let seconds = match self.path {
            "/v1/bulk" => 600,
            "/v1/schedules" => 120,
            "/v1/claim" | "/v1/feed" | "/v1/jobs/{id}/feed" => 60 + 15,
            _ if self.method == Method::GET => 15,
            _ => 30,
        };
        Duration::from_secs(seconds)
    }

    /// Who may, in words: `viewer`, `producer or worker`, `–`.
    pub fn who(&self) -> String {
        let mut who: Vec<String> = match self.access {
            Access::Everybody => return "–".to_owned(),
            Access::AnyKey => vec!["any key".to_owned()],
            Access::Roles([]) => vec!["admin".to_owned()],
            Access::Roles(roles) => roles.iter().map(|role| role_word(*role).to_owned()).collect(),
        };
        if self.by_lease {
            who.push("lease token".to_owned());
        }
        if self.by_link {
            who.push("link token".to_owned());
        }
        who.join(" or ")
    }
}

/// The word for a role.
pub const fn role_word(role: Role) -> &'static str {
    match role {
        Role::Viewer => "viewer",
        Role::Producer => "producer",
        Role::Worker => "worker",
        Role::Approver => "approver",
        Role::Operator => "operator",
        Role::Admin => "admin",
    }
}

/// Every role.
pub const ROLES: [Role; 6] =
    [Role::Viewer, Role::Producer, Role::Worker, Role::Approver, Role::Operator, Role::Admin];
