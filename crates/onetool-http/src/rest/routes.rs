//! Routes, each declared once: path, method, parameters and documentation in its `#[utoipa::path]`, its scope where it
//! is added here. The OpenAPI document and the access check are both derived from that.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::Request;
use axum::http::{Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::MethodRouter;
use onetool_sdk::EntryPoint;
use onetool_state::audit::{AuditEvent, AuditLog, AuditRecord};
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::SecurityRequirement;
use utoipa::openapi::{Content, PathItem, Ref, RefOr, ResponseBuilder};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use super::RestState;
use crate::access::Asking;
use crate::{AccessPolicy, ApiError, Identity, PeerAddress, Scope};

/// The routes of one topic.
#[derive(Default)]
pub(super) struct Routes {
    documented: Vec<(Option<Scope>, UtoipaMethodRouter<RestState>)>,
    aliases: Vec<(Scope, &'static str, MethodRouter<RestState>)>,
}

impl Routes {
    /// Adds routes that need no token.
    pub(super) fn open(mut self, routes: UtoipaMethodRouter<RestState>) -> Self {
        self.documented.push((None, routes));
        self
    }

    /// Adds routes that only read.
    pub(super) fn read(self, routes: UtoipaMethodRouter<RestState>) -> Self {
        self.with(Scope::Read, routes)
    }

    /// Adds routes that call tools. They have their own time limit.
    pub(super) fn invoke(self, routes: UtoipaMethodRouter<RestState>) -> Self {
        self.with(Scope::Invoke, routes)
    }

    /// Adds routes that change something, or show the activity of others.
    pub(super) fn admin(self, routes: UtoipaMethodRouter<RestState>) -> Self {
        self.with(Scope::Admin, routes)
    }

    /// Adds a second path to handlers that are documented elsewhere.
    pub(super) fn alias(mut self, path: &'static str, scope: Scope, handlers: MethodRouter<RestState>) -> Self {
        self.aliases.push((scope, path, handlers));
        self
    }

    fn with(mut self, scope: Scope, routes: UtoipaMethodRouter<RestState>) -> Self {
        self.documented.push((Some(scope), routes));
        self
    }

    /// Adds everything to `router`, each route behind its scope and its time limit.
    pub(super) fn mount(self, mut router: OpenApiRouter<RestState>, limits: &Limits) -> OpenApiRouter<RestState> {
        for (scope, (schemas, mut paths, handlers)) in self.documented {
            if let Some(scope) = scope {
                for item in paths.paths.values_mut() {
                    operations(item).for_each(|operation| describe_access(operation, scope));
                }
            }
            router = router.routes((schemas, paths, limits.apply(scope, handlers)));
        }
        for (scope, path, handlers) in self.aliases {
            router = router.route(path, limits.apply(Some(scope), handlers));
        }
        router
    }
}

/// The checks that apply to every route.
pub(super) struct Limits {
    pub(super) access: Arc<AccessPolicy>,
    pub(super) request_timeout: Duration,
}

impl Limits {
    fn apply(&self, scope: Option<Scope>, handlers: MethodRouter<RestState>) -> MethodRouter<RestState> {
        let access = self.access.clone();
        let limit = (scope != Some(Scope::Invoke)).then_some(self.request_timeout);
        handlers.route_layer(middleware::from_fn(move |mut request: Request, next: Next| {
            let access = access.clone();
            async move {
                let identity = match scope {
                    Some(scope) => access.authenticate(Asking::of(&request), scope).await,
                    None => Ok(Identity::anyone()),
                };
                match identity {
                    Ok(identity) => {
                        request.extensions_mut().insert(identity.principal);
                        let change = (scope == Some(Scope::Admin) && request.method() != Method::GET)
                            .then(|| Change::of(&request, &identity));
                        request.extensions_mut().insert(Arc::new(identity));
                        let response = within(limit, request, next).await;
                        if let (Some(change), Some(audit)) = (change, access.audit()) {
                            change.write_down(audit, response.status());
                        }
                        response
                    }
                    Err(error) => error.into_response(),
                }
            }
        }))
    }
}

/// A change requested by an administrator.
struct Change {
    record: AuditRecord,
    began: Instant,
}

impl Change {
    fn of(request: &Request, identity: &Identity) -> Self {
        let agent = request.headers().get(header::USER_AGENT).and_then(|agent| agent.to_str().ok());
        let path: String = request.uri().path().chars().take(200).collect();
        let record = AuditRecord {
            principal: identity.name.clone(),
            client: agent.map(|agent| agent.chars().take(200).collect()),
            door: Some(EntryPoint::Rest.name().to_owned()),
            address: request.extensions().get::<PeerAddress>().map(|address| address.0.ip().to_string()),
            tool: Some(format!("{} {path}", request.method())),
            ..AuditRecord::new(AuditEvent::Admin, "ok")
        };
        Self { record, began: Instant::now() }
    }

    fn write_down(mut self, audit: &AuditLog, status: StatusCode) {
        if !status.is_success() {
            self.record.outcome = "error".to_owned();
            self.record.error = Some(status.to_string());
        }
        self.record.ts = chrono::Utc::now();
        self.record.duration_ms = Some(self.began.elapsed().as_secs_f64() * 1e3);
        audit.record(self.record);
    }
}

async fn within(limit: Option<Duration>, request: Request, next: Next) -> Response {
    let answer = next.run(request);
    let Some(limit) = limit else { return answer.await };
    match tokio::time::timeout(limit, answer).await {
        Ok(response) => response,
        Err(_) => ApiError::timeout("the request took too long").into_response(),
    }
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.put, &mut item.post, &mut item.delete, &mut item.patch].into_iter().flatten()
}

fn describe_access(operation: &mut Operation, scope: Scope) {
    operation.security = Some(vec![SecurityRequirement::default(), SecurityRequirement::new("bearer", [scope.name()])]);
    for (status, description) in
        [("401", "a bearer token is required"), ("403", "the token lacks the scope, or the Host or Origin is foreign")]
    {
        operation.responses.responses.entry(status.to_owned()).or_insert_with(|| {
            let content = Content::new(Some(Ref::from_schema_name("ErrorReply")));
            RefOr::T(ResponseBuilder::new().description(description).content("application/json", content).build())
        });
    }
}
