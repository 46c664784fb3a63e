//! The document of the API, OpenAPI 3.1, made from the table of routes.

use crate::call::{Call, Reply, json_bytes};
use crate::codes::CODES;
use crate::problem::ProblemShape;
use crate::route::{Access, Gives, Is, Param, Route, Schemas, Shape, role_word};
use crate::routes;
use axum::http::StatusCode;
use serde_json::{Map, Value, json};
use std::sync::OnceLock;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// What names, ids and tokens look like. Whether such a thing exists is another question.
const NAME: &str = "^[A-Za-z0-9._:-]{1,128}$";
const UUID_V7: &str =
    "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-7[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}$";
const LEASE_TOKEN: &str = "^[0-9a-fA-F]{32}$";

/// `GET /openapi.json`
pub(crate) async fn openapi(_: Call) -> Reply {
    static DOCUMENT: OnceLock<Vec<u8>> = OnceLock::new();
    let document = DOCUMENT.get_or_init(|| document().to_string().into_bytes());
    Ok(json_bytes(StatusCode::OK, document.clone()))
}

/// The document: every route with what it takes and gives, its refusals, and who may call it.
pub fn document() -> Value {
    let mut schemas: Schemas = vec![(ProblemShape::name().into_owned(), ProblemShape::schema())];
    let mut paths: Map<String, Value> = Map::new();
    for route in routes::table() {
        let collect = |shape: &Shape, schemas: &mut Schemas| (shape.schemas)(schemas);
        route.takes.iter().for_each(|shape| collect(shape, &mut schemas));
        route
            .gives
            .iter()
            .filter_map(|gives| gives.shape.as_ref())
            .for_each(|shape| collect(shape, &mut schemas));
        let item = paths.entry(route.path).or_insert_with(|| Value::Object(Map::new()));
        item[route.method.as_str().to_lowercase()] = operation(&route);
    }
    let schemas: Map<String, Value> = schemas
        .into_iter()
        .map(|(name, schema)| {
            let schema = exact(&name, &schema);
            (name, schema)
        })
        .collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Windlass",
            "description": "Durable background jobs in a database. Errors are problem+json (RFC 9457) with a stable `code`.",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "MIT OR Apache-2.0" }
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "key": { "type": "http", "scheme": "bearer", "description": "an access key" },
                "lease": { "type": "http", "scheme": "bearer", "description": "the lease token of the job" },
                "session": { "type": "apiKey", "in": "cookie", "name": "windlass" }
            }
        },
        "x-codes": CODES.iter().map(|code| (code.code.to_owned(), json!({ "status": code.status, "title": code.title })))
            .collect::<Map<_, _>>()
    })
}

fn operation(route: &Route) -> Value {
    let mut operation = json!({
        "operationId": operation_id(route),
        "summary": route.about,
        "x-roles": roles(route),
        "responses": responses(route),
    });
    let mut parameters: Vec<Value> = path_parameters(route.path);
    parameters.extend(route.params.iter().map(parameter));
    if route.creates {
        parameters.push(json!({
            "name": "Idempotency-Key", "in": "header", "required": false,
            "description": "the same key means the same request, for 24 hours",
            "schema": { "type": "string", "minLength": 1, "maxLength": 255 }
        }));
    }
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    if let Some(shape) = &route.takes {
        operation["requestBody"] = json!({
            "required": must_be_sent(shape),
            "content": { "application/json": { "schema": reference(&shape.name) } }
        });
    }
    let mut security = Vec::new();
    if route.access != Access::Everybody {
        security = vec![json!({ "key": [] }), json!({ "session": [] })];
    }
    if route.by_lease {
        security.push(json!({ "lease": [] }));
    }
    if route.by_link || route.access == Access::Everybody {
        security.push(json!({}));
    }
    operation["security"] = security.into();
    operation
}

/// `POST /v1/jobs/{id}/cancel` becomes `post_jobs_id_cancel`.
fn operation_id(route: &Route) -> String {
    let words = route.path.trim_start_matches("/v1").split('/').filter(|word| !word.is_empty());
    let words = words.map(|word| word.trim_matches(['{', '}']).replace('.', "_"));
    let path = words.collect::<Vec<_>>().join("_");
    let method = route.method.as_str().to_lowercase();
    if path.is_empty() { format!("{method}_page") } else { format!("{method}_{path}") }
}

fn roles(route: &Route) -> Vec<&'static str> {
    let mut roles = match route.access {
        Access::Everybody => vec!["everybody"],
        Access::AnyKey => vec!["any key"],
        Access::Roles(roles) => {
            let mut words: Vec<_> = roles.iter().map(|role| role_word(*role)).collect();
            words.push("admin");
            words
        }
    };
    if route.by_lease {
        roles.push("lease token");
    }
    if route.by_link {
        roles.push("link token");
    }
    roles
}

/// Whether a body has fields that must be there; without any, no body is an empty one.
fn must_be_sent(shape: &Shape) -> bool {
    let mut schemas = Schemas::new();
    (shape.schemas)(&mut schemas);
    let own = schemas.iter().find(|(name, _)| *name == shape.name).map(|(name, schema)| exact(name, schema));
    own.is_some_and(|schema| schema["required"].as_array().is_some_and(|names| !names.is_empty()))
}

/// A schema whose fields say what their names tell.
fn exact(name: &str, schema: &RefOr<Schema>) -> Value {
    let mut schema = serde_json::to_value(schema).unwrap_or_default();
    if let Some(fields) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        for (field, schema) in fields {
            // An item of a settle is refused for itself; the request is not.
            if !["SettleItem", "SettledItem"].contains(&name) {
                refine(field, schema);
            }
            if let Some(any) = any_json(schema) {
                *schema = any;
            }
        }
    }
    schema
}

/// The schema of a field that is any JSON or null, which is any JSON: as one of the two, null would be both.
fn any_json(schema: &Value) -> Option<Value> {
    let is_any = |one: &&Value| {
        let name = one["$ref"].as_str().unwrap_or_default();
        name.ends_with("/Json") || name.ends_with("/Raw")
    };
    schema["oneOf"].as_array()?.iter().find(is_any).cloned()
}

/// What is known of a field or parameter by its name, wherever it stands.
fn refine(name: &str, schema: &mut Value) {
    match name {
        "kind" | "queue" | "tag" => schema["pattern"] = NAME.into(),
        "job_id" | "parent_id" => schema["pattern"] = UUID_V7.into(),
        "lease_token" => schema["pattern"] = LEASE_TOKEN.into(),
        "worker_id" | "agent_id" => {
            schema["minLength"] = 1.into();
            schema["maxLength"] = 128.into();
        }
        _ => {}
    }
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

fn path_parameters(path: &str) -> Vec<Value> {
    let names = path.split('/').filter_map(|word| word.strip_prefix('{')?.strip_suffix('}'));
    let parameter = |name: &str| {
        let schema = match name {
            "id" if !path.starts_with("/v1/workers") => {
                json!({ "type": "string", "format": "uuid", "pattern": UUID_V7 })
            }
            "queue" => json!({ "type": "string", "pattern": NAME }),
            "name" if path.contains("/steps/") => json!({ "type": "string", "pattern": NAME }),
            _ => json!({ "type": "string", "minLength": 1, "maxLength": 128 }),
        };
        json!({ "name": name, "in": "path", "required": true, "schema": schema })
    };
    names.map(parameter).collect()
}

fn parameter(param: &Param) -> Value {
    let mut schema = json!({ "type": param.is_a.schema_type() });
    match param.is_a {
        Is::Time => schema["format"] = "date-time".into(),
        Is::Id => schema["format"] = "uuid".into(),
        Is::Number if param.name == "limit" => {
            schema["minimum"] = 1.into();
            schema["maximum"] = 1_000.into();
        }
        Is::Number => schema["minimum"] = 0.into(),
        Is::Text | Is::Flag | Is::Span => {}
    }
    refine(param.name, &mut schema);
    if param.is_many {
        schema = json!({ "type": "array", "items": schema });
    }
    json!({ "name": param.name, "in": "query", "required": false, "description": param.about, "schema": schema })
}

fn responses(route: &Route) -> Value {
    let mut responses: Map<String, Value> = Map::new();
    for Gives { status, media_type, shape } in &route.gives {
        let about =
            StatusCode::from_u16(*status).ok().and_then(|status| status.canonical_reason()).unwrap_or("ok");
        let response = responses.entry(status.to_string()).or_insert_with(|| json!({ "description": about }));
        if media_type.is_empty() {
            continue;
        }
        let schema =
            shape.as_ref().map_or_else(|| json!({ "type": "string" }), |shape| reference(&shape.name));
        response["content"][*media_type] = json!({ "schema": schema });
    }
    let refuses = match route.refuses {
        [] => "a problem with a stable code".to_owned(),
        codes => format!("a problem with a stable code, among them {}", codes.join(", ")),
    };
    let problem = json!({
        "description": refuses,
        "content": { "application/problem+json": { "schema": reference(&ProblemShape::name()) } }
    });
    responses.insert("4XX".to_owned(), problem.clone());
    responses.insert("5XX".to_owned(), problem);
    Value::Object(responses)
}
