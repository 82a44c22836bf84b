//! Routes, each declared once: path, method, parameters and documentation by its `#[utoipa::path]`, its scope where it
//! is added here. The OpenAPI document and the access check both come from that.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::MethodRouter;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::SecurityRequirement;
use utoipa::openapi::{Content, PathItem, Ref, RefOr, ResponseBuilder};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use super::RestState;
use crate::{AccessPolicy, ApiError, Principal, Scope};

/// The routes of one topic.
#[derive(Default)]
pub(super) struct Routes {
    documented: Vec<(Option<Scope>, UtoipaMethodRouter<RestState>)>,
    aliases: Vec<(Scope, &'static str, MethodRouter<RestState>)>,
}

impl Routes {
    /// Routes that need no token.
    pub(super) fn open(mut self, routes: UtoipaMethodRouter<RestState>) -> Self {
        self.documented.push((None, routes));
        self
    }

    /// Routes that show something.
    pub(super) fn read(self, routes: UtoipaMethodRouter<RestState>) -> Self {
        self.with(Scope::Read, routes)
    }

    /// Routes that call tools. They have a time limit of their own.
    pub(super) fn invoke(self, routes: UtoipaMethodRouter<RestState>) -> Self {
        self.with(Scope::Invoke, routes)
    }

    /// Routes that change something, or show what others do.
    pub(super) fn admin(self, routes: UtoipaMethodRouter<RestState>) -> Self {
        self.with(Scope::Admin, routes)
    }

    /// A second path to handlers that are documented elsewhere.
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

/// What every route is checked by.
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
                let principal = match scope {
                    Some(scope) => access.check_token(request.headers(), scope),
                    None => Ok(Principal::Anyone),
                };
                match principal {
                    Ok(principal) => {
                        request.extensions_mut().insert(principal);
                        within(limit, request, next).await
                    }
                    Err(error) => error.into_response(),
                }
            }
        }))
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
