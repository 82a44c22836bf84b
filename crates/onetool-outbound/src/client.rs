//! The HTTP client that everything is built on.

use std::sync::Once;

static TLS_PROVIDER: Once = Once::new();

/// A client with this program's name and TLS provider. Time-outs, redirects and pooling are the caller's to set.
pub fn client_builder() -> reqwest::ClientBuilder {
    TLS_PROVIDER.call_once(|| {
        // An error means that a provider is installed already, and any provider will do.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
    reqwest::Client::builder().user_agent(concat!("onetool/", env!("CARGO_PKG_VERSION")))
}
