//! Tests a block step by step: its configuration, its token, and a request.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::Utc;
use indexmap::IndexMap;
use onetool_sdk::{CallReport, Redactor, ToolError};
use onetool_state::bundles::{AuthBlock, Bundle, HttpImplementation, Implementation, Tool, ToolAuth, ToolId, Version};
use serde_json::json;

use super::{ReadyAuth, TokenOrder, Wanted};
use crate::engine::HttpEngine;
use crate::exchange::{Reading, Trip, not_allowed};
use crate::reply::require_success;
use crate::request::HttpTool;
use onetool_outbound::AllowedHosts;

/// Time limit of a test.
const PATIENCE: Duration = Duration::from_secs(30);

/// The result of a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthReport {
    /// Configuration, token and request, in this order. Steps after a failure are skipped.
    pub steps: Vec<AuthStep>,
}

impl AuthReport {
    pub fn is_ok(&self) -> bool {
        self.steps.iter().all(|step| step.state != StepState::Failed)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthStep {
    pub name: &'static str,
    pub state: StepState,
    pub message: String,
    pub hint: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepState {
    Ok,
    Failed,
    Skipped,
}

impl StepState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}

const STEPS: [&str; 3] = ["configuration", "token", "request"];

/// The steps that passed so far.
#[derive(Default)]
struct Steps(Vec<AuthStep>);

impl Steps {
    fn put(&mut self, state: StepState, message: impl Into<String>) {
        let name = STEPS.get(self.0.len()).copied().unwrap_or_default();
        self.0.push(AuthStep { name, state, message: message.into(), hint: None });
    }

    fn fail(mut self, error: ToolError) -> AuthReport {
        self.put(StepState::Failed, error.message);
        if let Some(step) = self.0.last_mut() {
            step.hint = error.hint;
        }
        while self.0.len() < STEPS.len() {
            self.put(StepState::Skipped, "an earlier step failed");
        }
        AuthReport { steps: self.0 }
    }
}

impl HttpEngine {
    /// Tests the authentication of a bundle, or of one of its tools.
    pub async fn test_auth(self: &Arc<Self>, bundle: &Bundle, tool: Option<&Tool>) -> AuthReport {
        let mut steps = Steps::default();
        let block = match tool.map(|tool| &tool.implementation) {
            Some(Implementation::Http(http)) => match &http.auth {
                ToolAuth::Own(block) => Some(block.as_ref()),
                ToolAuth::Off => None,
                ToolAuth::Inherited => bundle.auth.as_ref(),
            },
            Some(_) => None,
            None => bundle.auth.as_ref(),
        };
        let Some(block) = block else {
            let what = tool.map_or_else(|| format!("bundle {}", bundle.slug), |tool| format!("tool {}", tool.slug));
            return steps
                .fail(ToolError::not_found(format!("{what} has no auth")).with_hint("name a tool that has its own"));
        };
        // A block without a test request is tested up to its token.
        let url = block.test.as_ref().map_or("https://test.invalid/", |test| test.url.as_str());
        let compiled = match self.trial(bundle, block, url) {
            Ok(compiled) => compiled,
            Err(problem) => return steps.fail(ToolError::arguments(problem)),
        };
        let missing: Vec<&str> = compiled
            .secret_names
            .iter()
            .filter(|name| self.secrets.get(&compiled.bundle_slug, name).is_none())
            .map(String::as_str)
            .collect();
        if !missing.is_empty() {
            let error = ToolError::unavailable(format!("secrets that are not set: {}", missing.join(", ")));
            return steps.fail(error.with_hint("add them to secrets.yaml"));
        }
        if block.test.is_some() && !self.permits(&compiled, &compiled.url.origin) {
            return steps.fail(not_allowed(&compiled.url.origin));
        }
        let secrets: HashMap<String, String> = compiled
            .secret_names
            .iter()
            .filter_map(|name| Some((name.clone(), self.secrets.get(&compiled.bundle_slug, name)?)))
            .collect();
        let request = match compiled.render(&IndexMap::new(), &secrets) {
            Ok(request) => request,
            Err(error) => return steps.fail(error),
        };
        let secrets_are_set = match compiled.secret_names.len() {
            0 => String::new(),
            1 => ", and its secret is set".to_owned(),
            count => format!(", and its {count} secrets are set"),
        };
        steps.put(StepState::Ok, format!("the block is valid{secrets_are_set}"));
        let mut masks: Vec<String> = secrets.into_values().collect();
        match request.auth.as_deref() {
            Some(ReadyAuth::OAuth2 { method, ready }) => {
                let own_hosts = AllowedHosts::default();
                let (method, ready) = (method.clone(), ready.clone());
                match self.token(TokenOrder { method, ready, wanted: Wanted::Probe, own_hosts }).await {
                    Ok((token, _)) => {
                        let seconds = (token.expires - Utc::now()).num_seconds();
                        steps.put(StepState::Ok, format!("there is a token; it expires in {seconds} s"));
                        masks.push(token.value);
                        masks.extend(token.refresh);
                    }
                    Err(error) => return steps.fail(error),
                }
            }
            _ => steps.put(StepState::Skipped, "this type needs no token"),
        }
        if block.test.is_none() {
            steps.put(StepState::Skipped, "auth.test names no request to try");
            return AuthReport { steps: steps.0 };
        }
        let mut report = CallReport::default();
        let mut trip = Trip::new(&compiled, Instant::now() + PATIENCE, &mut report);
        let reply = tokio::time::timeout(PATIENCE, self.attempts(&mut trip, &request, Reading::Whole)).await;
        masks.append(&mut trip.masks);
        let outcome = match reply {
            Ok(reply) => reply.and_then(|reply| {
                require_success(&compiled, &request.url, &reply)?;
                Ok(reply.status)
            }),
            Err(_) => Err(ToolError::new(onetool_sdk::ErrorKind::Timeout, "the host did not answer in time")),
        };
        match outcome {
            Ok(status) => {
                steps.put(
                    StepState::Ok,
                    format!("{} answered {status}", compiled.url.origin.host_str().unwrap_or("it")),
                );
                AuthReport { steps: steps.0 }
            }
            Err(mut error) => {
                error.message = Redactor::new(masks.iter().map(String::as_str)).text(&error.message).into_owned();
                // A hint that names this command does not help here.
                error.hint = error.hint.filter(|hint| !hint.contains("auth test"));
                steps.fail(error)
            }
        }
    }

    /// Checks a bundle's block.
    pub(crate) fn check_block(&self, bundle: &Bundle, block: &AuthBlock) -> Result<(), String> {
        let url = block.test.as_ref().map_or("https://test.invalid/", |test| test.url.as_str());
        let compiled = self.trial(bundle, block, url)?;
        let allowed = &self.settings.allowed_hosts;
        if block.test.is_some() && !allowed.permits(&compiled.url.origin) {
            return Err(format!("auth.test: {}", not_allowed(&compiled.url.origin).message));
        }
        match compiled.token_url() {
            Some(url) if !allowed.permits(url) => Err(format!("auth.tokenUrl: {}", not_allowed(url).message)),
            _ => Ok(()),
        }
    }

    /// Builds a tool that sends the test request.
    fn trial(&self, bundle: &Bundle, block: &AuthBlock, url: &str) -> Result<HttpTool, String> {
        let mut http = HttpImplementation::get(url);
        http.auth = ToolAuth::Own(Box::new(block.clone()));
        if let Some(test) = &block.test {
            http.method.clone_from(&test.method);
            http.success_codes.clone_from(&test.expect);
        }
        let version: Version = "v1".parse().map_err(|_| "no version".to_owned())?;
        let tool = Tool {
            schema_version: String::new(),
            id: ToolId::generate(),
            bundle_id: bundle.id,
            slug: bundle.slug.clone(),
            version,
            display_name: String::new(),
            description: String::new(),
            tags: Vec::new(),
            implementation: Implementation::Http(Box::new(http.clone())),
            is_enabled: true,
            is_built_in: bundle.is_built_in,
            arg_schema: json!({"type": "object"}),
            output_schema: None,
            max_calls_per_minute: None,
            example: None,
            translations: onetool_state::bundles::Translations::default(),
            created_at: Utc::now(),
            modified_at: Utc::now(),
        };
        HttpTool::compile(bundle, &tool, &http, self.secrets.as_ref())
    }
}
