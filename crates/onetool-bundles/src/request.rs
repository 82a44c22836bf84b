//! Builds a request from a stored tool and a call's arguments.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use http::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, PROXY_AUTHORIZATION};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use indexmap::IndexMap;
use onetool_sdk::{ToolError, Value};
use onetool_state::bundles::{Bundle, ErrorMode, HttpImplementation, ResponseEncoding, Tool, ToolAuth};
use reqwest::Url;
use serde_json::Value as Json;

use super::auth::{AuthMethod, PLACEHOLDER, ReadyAuth};
use super::body::Body;
use super::extract::Extract;
use super::limits::MAX_RETRIES;
use super::paginate::Pages;
use super::secrets::Secrets;
use super::stream::Stream;
use super::template::{Bindings, Meaning, Template, holds_secret, parse, variables};
use super::url::UrlTemplate;
use onetool_outbound::AllowedHosts;

/// Headers that are set by the connection, not by a tool.
pub(crate) const RESERVED_HEADERS: &[&str] = &[
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "upgrade",
    "te",
    "trailer",
    "keep-alive",
    "expect",
    "accept-encoding",
    "proxy-authorization",
    "proxy-connection",
];

/// A tool whose templates have been parsed.
#[derive(Debug)]
pub(crate) struct HttpTool {
    pub(crate) bundle_slug: String,
    pub(crate) method: Method,
    pub(crate) url: UrlTemplate,
    headers: Vec<(HeaderName, Template)>,
    pub(crate) auth: Option<AuthMethod>,
    body: Body,
    default_content_type: Option<&'static str>,
    version: String,
    defaults: IndexMap<String, Value>,
    pub(crate) secret_names: BTreeSet<String>,
    pub(crate) success_codes: Vec<u16>,
    pub(crate) timeout: Duration,
    pub(crate) encoding: ResponseEncoding,
    pub(crate) extract: Extract,
    pub(crate) error_mode: ErrorMode,
    pub(crate) max_retries: Option<u32>,
    pub(crate) stream: Option<Stream>,
    pub(crate) pages: Option<Pages>,
    pub(crate) is_built_in: bool,
    /// Hosts that the tool may reach besides the configured ones: a built-in's own.
    pub(crate) own_hosts: AllowedHosts,
}

/// A request that is ready to be sent.
#[derive(Debug, Clone)]
pub(crate) struct Rendered {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    /// Headers that other origins must not see.
    pub(crate) private_headers: Vec<HeaderName>,
    pub(crate) body: Option<String>,
    pub(crate) body_holds_secret: bool,
    /// Authentication, applied when the request is sent.
    pub(crate) auth: Option<Arc<ReadyAuth>>,
}

/// What a call would send, with secrets masked.
#[derive(Debug, Clone, PartialEq)]
pub struct DryRun {
    pub method: String,
    pub url: String,
    pub headers: IndexMap<String, String>,
    pub body: Option<String>,
    /// Secrets that the call needs but that are not set.
    pub missing_secrets: Vec<String>,
}

impl HttpTool {
    pub(crate) fn compile(
        bundle: &Bundle,
        tool: &Tool,
        http: &HttpImplementation,
        secrets: &dyn Secrets,
    ) -> Result<Self, String> {
        let properties = tool.arg_schema.get("properties").and_then(Json::as_object);
        let required: Vec<&str> = tool
            .arg_schema
            .get("required")
            .and_then(Json::as_array)
            .map(|names| names.iter().filter_map(Json::as_str).collect())
            .unwrap_or_default();
        let is_declared = |name: &str| http.secrets.iter().chain(&bundle.secrets).any(|secret| secret == name);
        let meaning = |name: &str| {
            let declared = is_declared(name);
            let property = properties.and_then(|properties| properties.get(name));
            match property {
                Some(_) if declared => Err(format!("'{name}' is both an argument and a secret")),
                Some(property) if required.contains(&name) || property.get("default").is_some() => {
                    Ok(Meaning::RequiredArgument)
                }
                Some(_) => Ok(Meaning::OptionalArgument),
                None if declared || secrets.get(bundle.slug.as_str(), name).is_some() => Ok(Meaning::Secret),
                None if name == "version" => Ok(Meaning::Version),
                None => Err(format!(
                    "'{name}' is neither an argument nor a secret; declare it in argSchema, or list it in impl.secrets"
                )),
            }
        };
        // A secret that auth names needs no declaration.
        let own_scope =
            |name: &str| if is_secret_name(name) { meaning(name).or(Ok(Meaning::Secret)) } else { meaning(name) };
        let bundle_scope = |name: &str| {
            let known = is_declared(name) || secrets.get(bundle.slug.as_str(), name).is_some() || is_secret_name(name);
            known
                .then_some(Meaning::Secret)
                .ok_or_else(|| format!("'{name}' in auth is not a secret; name it like API_KEY"))
        };
        let auth = match &http.auth {
            ToolAuth::Inherited => {
                bundle.auth.as_ref().map(|block| AuthMethod::compile(&block.auth, &bundle_scope)).transpose()?
            }
            ToolAuth::Off => None,
            ToolAuth::Own(block) => Some(AuthMethod::compile(&block.auth, &own_scope).map_err(at("impl.auth"))?),
        };
        let auth_secrets = auth.as_ref().map(AuthMethod::secret_names).unwrap_or_default();
        let scope = |name: &str| match meaning(name)? {
            Meaning::Secret if auth_secrets.contains(name) && !is_declared(name) => {
                Err(format!("'{name}' belongs to auth; to use it in a template too, list it in impl.secrets"))
            }
            meaning => Ok(meaning),
        };
        let method = method(&http.method).map_err(at("impl.method"))?;
        check_bounds(http)?;
        let url = UrlTemplate::parse(&http.url_template, &scope).map_err(at("impl.urlTemplate"))?;
        let mut headers = Vec::new();
        for (name, value) in &http.headers {
            let template = header_name(name).and_then(|name_of| Ok((name_of, header_template(name, value, &scope)?)));
            headers.push(template.map_err(at("impl.headers"))?);
        }
        let content_type = http.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        let body = Body::parse(&http.body_template, content_type.map(|(_, value)| value.as_str()), &scope)
            .map_err(at("impl.bodyTemplate"))?;
        let default_content_type = match &body {
            Body::Json(_) if content_type.is_none() => Some("application/json"),
            Body::Text(_) if content_type.is_none() => Some("text/plain; charset=utf-8"),
            _ => None,
        };
        let extract = Extract::parse(&http.extract_expr).map_err(at("impl.extractExpr"))?;
        if http.response_encoding == ResponseEncoding::Text && matches!(extract, Extract::Path { .. }) {
            return Err("impl.extractExpr: a JSONPath in extractExpr needs responseEncoding json".to_owned());
        }
        let stream = http.stream.as_ref().map(|rule| Stream::compile(rule, http, &extract)).transpose();
        let stream = stream.map_err(at("impl.stream"))?;
        let pages = http
            .paginate
            .as_ref()
            .map(|rule| Pages::compile(rule, &body, http.response_encoding, &extract))
            .transpose()
            .map_err(at("impl.paginate"))?;
        let defaults = properties
            .into_iter()
            .flatten()
            .filter_map(|(name, property)| Some((name.clone(), Value::from_json(property.get("default")?.clone()))))
            .collect();
        let own_hosts = if tool.is_built_in { AllowedHosts::origin_of(&url.origin) } else { AllowedHosts::default() };
        let mut compiled = Self {
            bundle_slug: bundle.slug.to_string(),
            method,
            url,
            headers,
            auth,
            body,
            default_content_type,
            version: tool.version.to_string(),
            defaults,
            secret_names: auth_secrets,
            success_codes: http.success_codes.clone(),
            timeout: Duration::from_millis(http.timeout_ms),
            encoding: http.response_encoding,
            extract,
            error_mode: http.error_mode,
            max_retries: http.max_retries,
            stream,
            pages,
            is_built_in: tool.is_built_in,
            own_hosts,
        };
        let used = compiled.find_secrets();
        compiled.secret_names.extend(used);
        Ok(compiled)
    }

    /// The token endpoint, if there is one.
    pub(crate) fn token_url(&self) -> Option<&Url> {
        self.auth.as_ref().and_then(AuthMethod::token_url)
    }

    fn find_secrets(&self) -> BTreeSet<String> {
        let templates = self.headers.iter().map(|(_, value)| value);
        templates
            .flat_map(|template| variables(template))
            .chain(self.url.variables())
            .chain(self.body.variables())
            .filter(|variable| variable.meaning == Meaning::Secret)
            .map(|variable| variable.name.clone())
            .collect()
    }

    /// Builds the request of a call, and its authentication.
    pub(crate) fn render(
        &self,
        arguments: &IndexMap<String, Value>,
        secrets: &HashMap<String, String>,
    ) -> Result<Rendered, ToolError> {
        let arguments = self.with_defaults(arguments);
        let mut rendered = self.render_bare(&arguments, secrets)?;
        if let Some(auth) = &self.auth {
            let bindings = Bindings { arguments: &arguments, secrets, version: &self.version };
            rendered.auth = Some(Arc::new(auth.ready(&bindings)?));
        }
        Ok(rendered)
    }

    fn with_defaults(&self, arguments: &IndexMap<String, Value>) -> IndexMap<String, Value> {
        let mut arguments = arguments.clone();
        for (name, default) in &self.defaults {
            if !arguments.contains_key(name) {
                arguments.insert(name.clone(), default.clone());
            }
        }
        arguments
    }

    fn render_bare(
        &self,
        arguments: &IndexMap<String, Value>,
        secrets: &HashMap<String, String>,
    ) -> Result<Rendered, ToolError> {
        let bindings = Bindings { arguments, secrets, version: &self.version };
        let mut headers = HeaderMap::new();
        let mut private_headers = vec![AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION];
        for (name, template) in &self.headers {
            let Some(text) = bindings.fill(template, str::to_owned)? else { continue };
            let mut value = HeaderValue::from_bytes(text.as_bytes()).map_err(|_| {
                ToolError::arguments(format!("the value of the header {name} holds a control character"))
            })?;
            if holds_secret(template) {
                value.set_sensitive(true);
                private_headers.push(name.clone());
            }
            headers.insert(name.clone(), value);
        }
        let body = self.body.fill(&bindings)?;
        if let (Some(_), Some(kind)) = (&body, self.default_content_type) {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        }
        Ok(Rendered {
            method: self.method.clone(),
            url: self.url.fill(&bindings)?,
            headers,
            private_headers,
            body,
            body_holds_secret: self.body.variables().iter().any(|variable| variable.meaning == Meaning::Secret),
            auth: None,
        })
    }

    /// Shows what a call would send. Of secrets it only checks whether they are set.
    pub(crate) fn dry_run(
        &self,
        arguments: &IndexMap<String, Value>,
        secrets: &dyn Secrets,
    ) -> Result<DryRun, ToolError> {
        let missing_secrets =
            self.secret_names.iter().filter(|name| secrets.get(&self.bundle_slug, name).is_none()).cloned().collect();
        let masks = self.secret_names.iter().map(|name| (name.clone(), PLACEHOLDER.to_owned())).collect();
        let mut rendered = self.render_bare(&self.with_defaults(arguments), &masks)?;
        if let Some(auth) = &self.auth {
            auth.show(&mut rendered)?;
        }
        let headers: IndexMap<String, String> = rendered
            .headers
            .iter()
            .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
            .collect();
        Ok(DryRun {
            method: rendered.method.to_string(),
            url: rendered.url.to_string(),
            headers,
            body: rendered.body,
            missing_secrets,
        })
    }
}

/// Prefixes an error with the place of the mistake.
fn at(place: &'static str) -> impl Fn(String) -> String {
    move |problem| if problem.starts_with("impl.") { problem } else { format!("{place}: {problem}") }
}

fn method(name: &str) -> Result<Method, String> {
    Ok(match name {
        "GET" => Method::GET,
        "HEAD" => Method::HEAD,
        "POST" => Method::POST,
        "PUT" => Method::PUT,
        "PATCH" => Method::PATCH,
        "DELETE" => Method::DELETE,
        "OPTIONS" => Method::OPTIONS,
        other => {
            return Err(format!("'{other}' is not a method; use GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS"));
        }
    })
}

/// Whether a request with this method may be repeated without further effect.
pub(crate) fn is_idempotent_name(method: &str) -> bool {
    matches!(method, "GET" | "HEAD" | "PUT" | "DELETE" | "OPTIONS")
}

/// Secrets are named like `API_KEY`, so that a misspelt argument is not mistaken for one.
fn is_secret_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

/// Refuses numbers that are out of range for any request.
fn check_bounds(http: &HttpImplementation) -> Result<(), String> {
    if http.timeout_ms == 0 {
        return Err("impl.timeoutMs: must be at least 1".to_owned());
    }
    if http.max_retries.is_some_and(|retries| retries > MAX_RETRIES) {
        return Err(format!("impl.maxRetries: must be at most {MAX_RETRIES}"));
    }
    match http.success_codes.iter().enumerate().find(|(_, code)| !(200..600).contains(*code)) {
        Some((index, code)) => {
            Err(format!("impl.successCodes[{index}]: {code} is not a status that ends a request; use 200 to 599"))
        }
        None => Ok(()),
    }
}

pub(crate) fn header_name(name: &str) -> Result<HeaderName, String> {
    let parsed = HeaderName::from_bytes(name.as_bytes()).map_err(|_| format!("'{name}' is not a header's name"))?;
    if RESERVED_HEADERS.contains(&parsed.as_str()) {
        return Err(format!("the header {parsed} is not a tool's to set"));
    }
    Ok(parsed)
}

fn header_template(name: &str, value: &str, scope: &super::template::Scope<'_>) -> Result<Template, String> {
    if value.contains(|c: char| c.is_control() && c != '\t') {
        return Err(format!("the value of the header {name} holds a control character"));
    }
    parse(value, scope)
}
