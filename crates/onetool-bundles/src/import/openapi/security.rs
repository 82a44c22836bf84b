//! Converts `securitySchemes` to `auth` blocks.

use std::collections::{BTreeSet, HashMap};

use onetool_state::bundles::{ApiKeyPlace, Auth, AuthBlock, Implementation, OAuth2Auth, OAuth2Grant, Slug, ToolAuth};
use serde_json::{Map, Value as Json};

use super::super::schemas::follow;
use super::super::{ImportedTool, naming};
use super::inherited;
use crate::template::percent_encode;

pub(super) struct Security<'a> {
    document: &'a Json,
    schemes: Option<&'a Map<String, Json>>,
    bundle: String,
}

/// The authentication that an operation needs.
#[derive(Default)]
pub(super) struct Needed {
    pub(super) auth: ToolAuth,
    /// Additional keys, as templates.
    pub(super) headers: Vec<(String, String)>,
    pub(super) query: Vec<String>,
    pub(super) notes: Vec<String>,
}

impl<'a> Security<'a> {
    pub(super) fn read(document: &'a Json, bundle: &Slug) -> Self {
        let schemes = document.pointer("/components/securitySchemes").and_then(Json::as_object);
        Self { document, schemes, bundle: bundle.to_string() }
    }

    /// Uses the first of an operation's alternatives that can be expressed.
    pub(super) fn of(&self, operation: &Json, secrets: &mut BTreeSet<String>) -> Needed {
        let alternatives = operation.get("security").or_else(|| self.document.get("security")).and_then(Json::as_array);
        let mut needed = Needed::default();
        let Some(alternatives) = alternatives.filter(|alternatives| !alternatives.is_empty()) else { return needed };
        let mut reasons = Vec::new();
        for alternative in alternatives {
            match self.expressed(alternative) {
                Ok((found, names)) => {
                    secrets.extend(names);
                    return found;
                }
                Err(reason) => reasons.push(reason),
            }
        }
        needed.notes = reasons;
        needed
    }

    fn expressed(&self, alternative: &Json) -> Result<(Needed, Vec<String>), String> {
        let mut needed = Needed::default();
        let mut secrets = Vec::new();
        for (name, scopes) in alternative.as_object().into_iter().flatten() {
            let scheme = self.schemes.and_then(|schemes| schemes.get(name));
            let scheme = scheme
                .and_then(|scheme| follow(self.document, scheme))
                .ok_or_else(|| format!("the security scheme '{name}' is not described"))?;
            let (auth, names) = self.scheme(name, scheme, scopes)?;
            secrets.extend(names);
            if needed.auth == ToolAuth::Inherited {
                needed.auth = auth.into();
                continue;
            }
            // Only one block authenticates; additional keys become headers and query parameters.
            match auth {
                Auth::ApiKey { place: ApiKeyPlace::Header, name, value } => needed.headers.push((name, value)),
                Auth::ApiKey { place: ApiKeyPlace::Query, name, value } => {
                    needed.query.push(format!("{}={value}", percent_encode(&name)));
                }
                _ => return Err(format!("the security scheme '{name}' is needed beside another")),
            }
        }
        Ok((needed, secrets))
    }

    fn scheme(&self, name: &str, scheme: &Json, scopes: &Json) -> Result<(Auth, Vec<String>), String> {
        let text = |key: &str| scheme.get(key).and_then(Json::as_str).unwrap_or_default();
        let secret = |word: &str| naming::secret(&self.bundle, word);
        let template = |secret: &str| format!("${{{secret}}}");
        Ok(match (text("type"), text("scheme").to_ascii_lowercase().as_str(), text("in")) {
            ("apiKey", _, place @ ("header" | "query")) => {
                let key = secret(if naming::is_secret(name) { name } else { "api_key" });
                let place = if place == "header" { ApiKeyPlace::Header } else { ApiKeyPlace::Query };
                (Auth::ApiKey { place, name: text("name").to_owned(), value: template(&key) }, vec![key])
            }
            ("http", "basic", _) => {
                let (user, password) = (secret("username"), secret("password"));
                (Auth::Basic { username: template(&user), password: template(&password) }, vec![user, password])
            }
            ("http", "bearer", _) | ("openIdConnect", _, _) => {
                let token = secret("token");
                (Auth::Bearer { token: template(&token) }, vec![token])
            }
            ("oauth2", _, _) => {
                let flow = scheme.pointer("/flows/clientCredentials");
                let url = flow.and_then(|flow| flow.get("tokenUrl")).and_then(Json::as_str);
                match url.filter(|url| url.starts_with("http")) {
                    Some(url) => {
                        let (id, key) = (secret("client_id"), secret("client_secret"));
                        let scopes = scopes.as_array().into_iter().flatten().filter_map(Json::as_str);
                        let auth = OAuth2Auth {
                            grant: OAuth2Grant::ClientCredentials,
                            token_url: url.to_owned(),
                            client_id: template(&id),
                            client_secret: Some(template(&key)),
                            scopes: scopes.map(str::to_owned).collect(),
                            ..OAuth2Auth::default()
                        };
                        (Auth::OAuth2(Box::new(auth)), vec![id, key])
                    }
                    // The user signs in elsewhere; only the token can be stored.
                    None => {
                        let token = secret("token");
                        (Auth::Bearer { token: template(&token) }, vec![token])
                    }
                }
            }
            (kind, _, place) => {
                let place = if place.is_empty() { String::new() } else { format!(" in {place}") };
                return Err(format!("the security scheme '{name}' ({kind}{place}) is not supported"));
            }
        })
    }

    /// Moves the block that most tools share to the bundle.
    pub(super) fn shared(&self, tools: Vec<ImportedTool>) -> (Option<AuthBlock>, Vec<ImportedTool>) {
        let mut counts: HashMap<String, (usize, ToolAuth)> = HashMap::new();
        for tool in &tools {
            if let Implementation::Http(http) = tool.draft.implementation()
                && http.auth != ToolAuth::Inherited
            {
                let key = serde_json::to_string(&http.auth).unwrap_or_default();
                counts.entry(key).or_insert_with(|| (0, http.auth.clone())).0 += 1;
            }
        }
        let most = counts.into_iter().max_by(|(a, (m, _)), (b, (n, _))| m.cmp(n).then_with(|| b.cmp(a)));
        match most {
            Some((_, (_, shared @ ToolAuth::Own(_)))) => {
                let tools = inherited(tools, &shared);
                let ToolAuth::Own(block) = shared else { return (None, tools) };
                (Some(*block), tools)
            }
            _ => (None, tools),
        }
    }
}
