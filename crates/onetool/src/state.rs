//! Where shared state is stored: in files below configured folders, or in a database.

use std::path::PathBuf;
use std::sync::Arc;

use onetool_config::{ConfigValue, Expandable, Reader, Section, Shape, keys};
use onetool_proxy::CREDENTIALS;
use onetool_state::State;
use onetool_state::flat::{DocumentFolder, FlatFiles, FlatPlaces};
use onetool_state::interface::{Collection, Stream};
use onetool_state_postgres::PostgresState;
use onetool_state_s3::{Credentials, S3Address, S3Chunks};
use serde_json::Value as Json;

use crate::config::Resolved;

pub const STATE: Section<Option<Json>> = Section::new("state")
    .with_shape(Shape::Either(&[Shape::Text, <StateKeys as ConfigValue>::SHAPE]))
    .with_doc(
        "Address of the PostgreSQL database that servers share, postgres://user:${PASSWORD}@host/database; without it state \
         is kept in files. With a bucket for stored results: {url: postgres://…, blobs: s3://bucket/prefix}.",
    );

keys! {
    /// Shared state with stored results in a bucket.
    pub struct StateKeys {
        /// Address of the PostgreSQL database.
        url: Option<Expandable> = None, live, example "postgres://onetool:${STATE_PASSWORD}@db.example.com/onetool";
        /// Bucket for the contents of stored results, s3://bucket/prefix?region=…&endpoint=…; its keys are AWS_ACCESS_KEY_ID
        /// and AWS_SECRET_ACCESS_KEY, from secrets or the environment. Without it they are in the database.
        blobs: Option<Expandable> = None, live, example "s3://team-results/onetool?region=eu-central-1";
    }
}

/// The address of shared state.
#[derive(Clone, PartialEq, Default)]
pub struct StateAddress {
    url: String,
    blobs: Option<Bucket>,
}

/// A bucket with its credentials. No `Debug`, which would show keys.
#[derive(Clone, PartialEq)]
pub struct Bucket {
    address: String,
    /// The `AWS_…` variables at the time the configuration was read.
    variables: Vec<(String, String)>,
}

const BUCKET_VARIABLES: &[&str] = &[
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
];

impl Bucket {
    /// Reads the keys through `get`.
    pub fn new(address: String, get: impl Fn(&str) -> Option<String>) -> Self {
        let variables = BUCKET_VARIABLES.iter().filter_map(|name| Some(((*name).to_owned(), get(name)?))).collect();
        Self { address, variables }
    }

    fn open(&self) -> anyhow::Result<S3Chunks> {
        let get = |name: &str| self.variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
        let credentials = Credentials::find(get)?;
        crate::log::hide(credentials.secrets());
        Ok(S3Chunks::open(S3Address::parse(&self.address, get)?, credentials)?)
    }
}

/// The address of the database, if one is configured.
pub fn address(reader: &mut Reader) -> Option<StateAddress> {
    let keys = match reader.read(&STATE)? {
        Json::String(url) => StateKeys { url: Some(Expandable::from(url.as_str())), blobs: None },
        written => StateKeys::read(written)?,
    };
    let mut expanded = |key: &str, written: Option<Expandable>| {
        let written = written?;
        match reader.expand(&written) {
            Ok(text) => Some(text.trim().to_owned()).filter(|text| !text.is_empty()),
            Err(name) => {
                reader.problem(&["state", key], &format!("no secret and no variable '{name}'"));
                // Falling back to files would use another state: no state is better than a wrong one.
                Some(format!("postgres://missing-{name}"))
            }
        }
    };
    let (url, blobs) = (expanded("url", keys.url), expanded("blobs", keys.blobs));
    let Some(url) = url else {
        if blobs.is_some() {
            reader.problem(&["state", "blobs"], "a bucket needs a database beside it: set state.url");
        }
        return None;
    };
    let find = |name: &str| reader.secrets().get(name).map(str::to_owned).or_else(|| std::env::var(name).ok());
    let blobs = blobs.map(|address| Bucket::new(address, find));
    Some(StateAddress { url, blobs })
}

/// The settings that determine where state is stored.
#[derive(Clone, PartialEq)]
pub struct StateSettings {
    address: Option<StateAddress>,
    /// `.onetool`, or the folder in its place.
    own: PathBuf,
    /// Cached data about servers.
    servers: PathBuf,
    bundles: PathBuf,
    stats: PathBuf,
    results: PathBuf,
    /// The sign-ins to servers. They belong to the user, and are the same in every project.
    credentials: PathBuf,
}

/// The folder of sign-ins.
pub fn credentials_home(settings: &Resolved) -> PathBuf {
    settings.global.as_ref().unwrap_or(&settings.state_home).join("credentials")
}

impl StateSettings {
    pub fn new(settings: &Resolved) -> Self {
        // A folder that is not a project stays untouched: cached data about servers is then stored for the user.
        let user = settings.global.as_ref().filter(|global| global.is_dir() && !settings.own.is_dir());
        Self {
            address: settings.state.clone(),
            own: settings.state_home.clone(),
            servers: user.unwrap_or(&settings.state_home).clone(),
            bundles: settings.bundles_dir.clone(),
            stats: settings.stats.file.clone(),
            results: settings.output.result_store_dir.clone(),
            credentials: credentials_home(settings),
        }
    }

    /// The file that records that shared state contains tokens, if that state is not local.
    pub fn token_memory(&self) -> Option<PathBuf> {
        self.address.is_some().then(|| self.own.join("state/tokens-needed"))
    }

    /// Opens the store of sign-ins and their leases: one for all projects of a user, or the shared database.
    pub fn open_credentials(&self, state: &State) -> State {
        if self.address.is_some() {
            return state.clone();
        }
        let places =
            FlatPlaces::new(&self.credentials).with_documents(CREDENTIALS, DocumentFolder::new(&self.credentials));
        Arc::new(FlatFiles::new(places))
    }

    pub fn open(&self) -> anyhow::Result<State> {
        if let Some(StateAddress { url, blobs }) = &self.address {
            return open(url, blobs.as_ref());
        }
        let places = FlatPlaces::new(&self.own)
            .with_bundles(&self.bundles)
            .with_documents(Collection::LISTINGS, DocumentFolder::new(self.servers.join("cache").join("servers")))
            .with_documents(Collection::SAVED, DocumentFolder::new(self.own.join("saved")))
            .with_documents(Collection::PINS, DocumentFolder::single(&self.servers.join("pins.json")))
            .with_documents(Collection::PINNED, DocumentFolder::new(self.servers.join("cache").join("pinned")))
            .with_documents(Collection::TOKENS, DocumentFolder::new(self.own.join("state").join("tokens")))
            .with_documents(
                Collection::ACCESS_TOKENS,
                DocumentFolder::new(self.own.join("state").join("access-tokens")),
            )
            .with_stream(Stream::STATS, &self.stats)
            .with_stream(Stream::AUDIT, &self.own.join("audit").join("audit.jsonl"))
            .with_blobs(&self.results)
            .with_runs(&self.own.join("runs"));
        Ok(Arc::new(FlatFiles::new(places)))
    }
}

/// Whether this is the address of a database rather than a folder.
pub fn is_address(place: &str) -> bool {
    place.contains("://")
}

/// Opens the state at an address, or in a folder like `.onetool`. `bucket` stores the results of a database.
pub fn open(place: &str, bucket: Option<&Bucket>) -> anyhow::Result<State> {
    match place.split_once("://") {
        None => Ok(Arc::new(FlatFiles::new(FlatPlaces::standard(std::path::absolute(place)?)))),
        Some(("postgres" | "postgresql", _)) => {
            let state = PostgresState::open(place)?;
            Ok(match bucket {
                Some(bucket) => Arc::new(state.with_contents(Arc::new(bucket.open()?))),
                None => Arc::new(state),
            })
        }
        Some((scheme, _)) => anyhow::bail!(
            "state cannot be kept at an address that begins with {scheme}://\nhint: write \
             postgres://user:password@host:5432/database, or the path of a folder"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_another_kind_is_refused_with_those_there_are() {
        let refusal = open("mysql://localhost/onetool", None).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(refusal.contains("mysql://") && refusal.contains("hint: write postgres://"), "{refusal}");
        assert!(open("postgresql://localhost/onetool", None).is_ok());
    }
}
