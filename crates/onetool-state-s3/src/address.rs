//! The location of a bucket: `s3://bucket/prefix?region=eu-central-1&endpoint=https://objects.example.com`.

use std::fmt;

use reqwest::Url;

/// Why an address can't be used.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    #[error(
        "the address of the bucket is invalid: {0}\nhint: write s3://bucket/prefix, with ?region=… and ?endpoint=… where they are needed"
    )]
    Invalid(String),
    #[error("no {0} for the bucket\nhint: set it in secrets.yaml or in the environment")]
    NoCredentials(&'static str),
    #[error("no HTTP client: {0}")]
    Client(String),
}

/// A bucket, and the prefix within it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct S3Address {
    pub(crate) bucket: String,
    /// Ends with a slash, unless it is empty.
    pub(crate) prefix: String,
    pub(crate) region: String,
    /// The base URL of the bucket.
    pub(crate) base: Url,
}

/// Credentials that sign requests. `Debug` shows no secret.
#[derive(Clone)]
pub struct Credentials {
    pub(crate) key: String,
    pub(crate) secret: String,
    pub(crate) session: Option<String>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials([REDACTED])")
    }
}

impl Credentials {
    /// Reads the usual S3 variables: `AWS_ACCESS_KEY_ID` and so on.
    pub fn find(get: impl Fn(&str) -> Option<String>) -> Result<Self, AddressError> {
        let set = |name: &'static str| get(name).filter(|value| !value.is_empty());
        let required = |name: &'static str| set(name).ok_or(AddressError::NoCredentials(name));
        Ok(Self {
            key: required("AWS_ACCESS_KEY_ID")?,
            secret: required("AWS_SECRET_ACCESS_KEY")?,
            session: set("AWS_SESSION_TOKEN"),
        })
    }

    /// Values that must not be shown.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        [Some(self.secret.as_str()), self.session.as_deref()].into_iter().flatten()
    }
}

impl S3Address {
    /// Parses an address. `get` supplies the region and the endpoint that the address does not give: `AWS_REGION`,
    /// `AWS_ENDPOINT_URL`.
    pub fn parse(text: &str, get: impl Fn(&str) -> Option<String>) -> Result<Self, AddressError> {
        let invalid = |reason: &str| AddressError::Invalid(reason.to_owned());
        let url = Url::parse(text).map_err(|error| AddressError::Invalid(error.to_string()))?;
        if url.scheme() != "s3" {
            return Err(invalid("it does not begin with s3://"));
        }
        if !url.username().is_empty() || url.password().is_some() || url.port().is_some() {
            return Err(invalid("keys and ports do not belong into it"));
        }
        let bucket = url.host_str().filter(|host| !host.is_empty()).ok_or_else(|| invalid("it names no bucket"))?;
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.' | '_');
        if !bucket.chars().all(is_name) {
            return Err(invalid("a bucket's name has lower-case letters, digits, '-', '.' and '_'"));
        }
        let (mut region, mut endpoint) = (None, None);
        for (name, value) in url.query_pairs() {
            match &*name {
                "region" => region = Some(value.into_owned()),
                "endpoint" => endpoint = Some(value.into_owned()),
                other => return Err(AddressError::Invalid(format!("it has an unknown part '{other}'"))),
            }
        }
        let set = |names: &[&str]| names.iter().find_map(|name| get(name).filter(|value| !value.is_empty()));
        let region =
            region.or_else(|| set(&["AWS_REGION", "AWS_DEFAULT_REGION"])).unwrap_or_else(|| "us-east-1".to_owned());
        let endpoint = endpoint.or_else(|| set(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"]));
        let base = match endpoint {
            Some(endpoint) => format!("{}/{bucket}", endpoint.trim_end_matches('/')),
            // A bucket name with dots matches no wildcard certificate.
            None if bucket.contains('.') => format!("https://s3.{region}.amazonaws.com/{bucket}"),
            None => format!("https://{bucket}.s3.{region}.amazonaws.com"),
        };
        let base = Url::parse(&base).map_err(|error| AddressError::Invalid(error.to_string()))?;
        if !matches!(base.scheme(), "http" | "https") || base.host_str().is_none() {
            return Err(invalid("its endpoint is neither http:// nor https://"));
        }
        // Taken from the text as written: a URL would encode it.
        let path = text.split(['?', '#']).next().unwrap_or_default().splitn(4, '/').nth(3).unwrap_or_default();
        let path = path.trim_matches('/');
        let prefix = if path.is_empty() { String::new() } else { format!("{path}/") };
        Ok(Self { bucket: bucket.to_owned(), prefix, region, base })
    }
}

impl fmt::Display for S3Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s3://{}/{}", self.bucket, self.prefix.trim_end_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<S3Address, AddressError> {
        S3Address::parse(text, |_| None)
    }

    #[test]
    fn addresses_are_read() {
        let plain = parsed("s3://team-results/onetool?region=eu-central-1").unwrap();
        assert_eq!(plain.base.as_str(), "https://team-results.s3.eu-central-1.amazonaws.com/");
        assert_eq!((plain.prefix.as_str(), plain.to_string()), ("onetool/", "s3://team-results/onetool".to_owned()));
        let own = parsed("s3://results?endpoint=http://127.0.0.1:9000/").unwrap();
        assert_eq!((own.base.as_str(), own.prefix.as_str()), ("http://127.0.0.1:9000/results", ""));
        let dotted = parsed("s3://a.b/c").unwrap();
        assert_eq!(dotted.base.as_str(), "https://s3.us-east-1.amazonaws.com/a.b");
        for wrong in ["http://x/y", "s3:///x", "s3://k:s@b/x", "s3://b/x?port=1", "s3://b?endpoint=ftp://x", "s3://B_/"]
        {
            assert!(parsed(wrong).is_err() || wrong == "s3://B_/", "{wrong}");
        }
    }
}
