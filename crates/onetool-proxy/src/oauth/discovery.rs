//! Discovers the authorization server of an MCP server: protected resource metadata (RFC 9728), then the metadata of
//! the authorization server (RFC 8414, or OpenID Connect).

use reqwest::Url;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::challenge::Challenge;
use super::web::{OAuthError, Web};

/// The endpoints and capabilities of an authorization server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AuthorizationServer {
    pub(crate) issuer: String,
    pub(crate) authorization_endpoint: String,
    pub(crate) token_endpoint: String,
    #[serde(default)]
    pub(crate) registration_endpoint: Option<String>,
    #[serde(default)]
    pub(crate) revocation_endpoint: Option<String>,
    /// Supported client authentication methods at the token endpoint.
    #[serde(default)]
    pub(crate) token_auth_methods: Vec<String>,
    #[serde(default)]
    pub(crate) scopes_supported: Vec<String>,
    /// Whether responses name their issuer (RFC 9207).
    #[serde(default)]
    pub(crate) names_issuer: bool,
    /// Whether an address may be used as a client id (client id metadata documents).
    #[serde(default)]
    pub(crate) takes_metadata_url: bool,
    /// Whether it advertises PKCE with S256.
    #[serde(default)]
    pub(crate) advertises_s256: bool,
}

/// The result of discovery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Discovered {
    pub(crate) server: AuthorizationServer,
    /// The resource identifier, byte for byte as in its metadata, if there is any.
    pub(crate) resource: Option<String>,
    /// Scopes that the resource's metadata names.
    pub(crate) resource_scopes: Vec<String>,
    /// Whether there was no metadata, so that the endpoints are the defaults of the first protocol revision.
    pub(crate) is_assumed: bool,
}

pub(crate) async fn discover(web: &Web, server: &Url, challenge: &Challenge) -> Result<Discovered, OAuthError> {
    let protected = protected_resource(web, server, challenge).await?;
    let issuers = protected.as_ref().map(|metadata| texts(metadata, "authorization_servers")).unwrap_or_default();
    let resource_scopes = protected.as_ref().map(|metadata| texts(metadata, "scopes_supported")).unwrap_or_default();
    let resource = match &protected {
        Some(metadata) => Some(checked_resource(metadata, server)?),
        None => None,
    };
    let found = |server, is_assumed| Discovered { server, resource, resource_scopes, is_assumed };
    if let Some(issuer) = issuers.first() {
        let metadata = authorization_server(web, issuer).await?;
        let metadata = metadata.ok_or_else(|| {
            OAuthError::Invalid(format!("the authorization server {issuer} has no metadata where it should be"))
        })?;
        return Ok(found(metadata, false));
    }
    // Before resource metadata existed, the server itself was its authorization server.
    let origin = server.origin().ascii_serialization();
    if let Some(metadata) = authorization_server(web, &origin).await? {
        return Ok(found(metadata, false));
    }
    let at = |path: &str| format!("{origin}{path}");
    let assumed = AuthorizationServer {
        issuer: origin.clone(),
        authorization_endpoint: at("/authorize"),
        token_endpoint: at("/token"),
        registration_endpoint: Some(at("/register")),
        revocation_endpoint: None,
        token_auth_methods: Vec::new(),
        scopes_supported: Vec::new(),
        names_issuer: false,
        takes_metadata_url: false,
        advertises_s256: true,
    };
    Ok(found(assumed, true))
}

async fn protected_resource(web: &Web, server: &Url, challenge: &Challenge) -> Result<Option<Json>, OAuthError> {
    let mut places = Vec::new();
    if let Some(address) = &challenge.resource_metadata {
        let url = match Url::parse(address) {
            Ok(url) => url,
            Err(_) => server.join(address).map_err(|error| OAuthError::Invalid(error.to_string()))?,
        };
        let is_own = url.origin() == server.origin();
        places.push(if is_own { url } else { web.checked(url.as_str())? });
    }
    places.extend(well_known(server, "oauth-protected-resource"));
    places.dedup();
    for place in places {
        if let Some(document) = document(web, &place).await? {
            return Ok(Some(document));
        }
    }
    Ok(None)
}

/// `/.well-known/NAME/path`, and the same at the root.
fn well_known(url: &Url, name: &str) -> Vec<Url> {
    let path = url.path().trim_end_matches('/');
    let mut places = Vec::new();
    for path in [format!("/.well-known/{name}{path}"), format!("/.well-known/{name}")] {
        let mut place = url.clone();
        place.set_path(&path);
        place.set_query(None);
        place.set_fragment(None);
        if !places.contains(&place) {
            places.push(place);
        }
    }
    places
}

/// Fetches a document; `None` if it does not exist.
async fn document(web: &Web, url: &Url) -> Result<Option<Json>, OAuthError> {
    let answer = web.get(url).await?;
    Ok(answer.body.filter(|body| answer.status.is_success() && body.is_object()))
}

/// The resource must be the requested server, or a parent of it: tokens for another must not be obtained here.
fn checked_resource(metadata: &Json, server: &Url) -> Result<String, OAuthError> {
    let text = metadata.get("resource").and_then(Json::as_str).unwrap_or_default();
    let matches = Url::parse(text).is_ok_and(|resource| {
        let (whole, part) = (server.path().trim_end_matches('/'), resource.path().trim_end_matches('/'));
        let rest = whole.strip_prefix(part);
        resource.origin() == server.origin() && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    });
    if matches {
        return Ok(text.to_owned());
    }
    Err(OAuthError::Invalid(format!("its metadata is that of another resource, {text:.200}")))
}

async fn authorization_server(web: &Web, issuer: &str) -> Result<Option<AuthorizationServer>, OAuthError> {
    let url = web.checked(issuer)?;
    let path = url.path().trim_end_matches('/').to_owned();
    let mut paths = vec![
        format!("/.well-known/oauth-authorization-server{path}"),
        format!("/.well-known/openid-configuration{path}"),
    ];
    if !path.is_empty() {
        paths.push(format!("{path}/.well-known/openid-configuration"));
    }
    for path in paths {
        let mut place = url.clone();
        place.set_path(&path);
        place.set_query(None);
        if let Some(metadata) = document(web, &place).await? {
            return read(web, &metadata, issuer).map(Some);
        }
    }
    Ok(None)
}

fn read(web: &Web, metadata: &Json, issuer: &str) -> Result<AuthorizationServer, OAuthError> {
    let text = |key: &str| metadata.get(key).and_then(Json::as_str).map(str::to_owned);
    let flag = |key: &str| metadata.get(key).and_then(Json::as_bool) == Some(true);
    let said = text("issuer").unwrap_or_default();
    // The only insignificant difference: a trailing slash that means an empty path.
    let is_bare = Url::parse(issuer).is_ok_and(|url| url.path() == "/");
    let is_same = said == issuer || is_bare && said.trim_end_matches('/') == issuer.trim_end_matches('/');
    if !is_same {
        return Err(OAuthError::Invalid(format!(
            "the metadata of the authorization server {issuer} names another issuer, {said:.200}"
        )));
    }
    let endpoint = |key: &str| -> Result<String, OAuthError> {
        let address = text(key).ok_or_else(|| OAuthError::Invalid(format!("{issuer} names no {key}")))?;
        web.checked(&address).map(|_| address)
    };
    let optional = |key: &str| text(key).filter(|address| web.checked(address).is_ok());
    Ok(AuthorizationServer {
        authorization_endpoint: endpoint("authorization_endpoint")?,
        token_endpoint: endpoint("token_endpoint")?,
        registration_endpoint: optional("registration_endpoint"),
        revocation_endpoint: optional("revocation_endpoint"),
        token_auth_methods: texts(metadata, "token_endpoint_auth_methods_supported"),
        scopes_supported: texts(metadata, "scopes_supported"),
        names_issuer: flag("authorization_response_iss_parameter_supported"),
        takes_metadata_url: flag("client_id_metadata_document_supported"),
        advertises_s256: texts(metadata, "code_challenge_methods_supported").iter().any(|method| method == "S256"),
        issuer: said,
    })
}

/// Maximum number of entries kept of a list.
const LISTED: usize = 200;

fn texts(json: &Json, key: &str) -> Vec<String> {
    let items = json.get(key).and_then(Json::as_array).into_iter().flatten().take(LISTED);
    items.filter_map(Json::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_resource_is_the_server_or_what_it_is_a_part_of() {
        let server = Url::parse("https://x.org/a/b?c=d").unwrap();
        let check = |resource: &str| checked_resource(&json!({"resource": resource}), &server);
        for good in ["https://x.org/a/b", "https://x.org/a", "https://x.org", "https://x.org/"] {
            assert_eq!(check(good).as_deref(), Ok(good));
        }
        for bad in ["https://y.org/a/b", "http://x.org/a/b", "https://x.org/a/bc", "https://x.org/a/b/c", "", "x"] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn well_known_places_have_the_path_behind_them() {
        let places = |url: &str| -> Vec<String> {
            well_known(&Url::parse(url).unwrap(), "n").into_iter().map(String::from).collect()
        };
        assert_eq!(places("https://x.org/mcp/?q"), ["https://x.org/.well-known/n/mcp", "https://x.org/.well-known/n"]);
        assert_eq!(places("https://x.org"), ["https://x.org/.well-known/n"]);
    }
}
