//! The HTTP client that all requests are built on.

use std::sync::Once;

static TLS_PROVIDER: Once = Once::new();

/// A client builder with this program's user agent and TLS provider. The caller sets timeouts, redirects and pooling.
pub fn client_builder() -> reqwest::ClientBuilder {
    TLS_PROVIDER.call_once(|| {
        // An error means that a provider is installed already, and any provider will do.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
    reqwest::Client::builder().user_agent(concat!("onetool/", env!("CARGO_PKG_VERSION")))
}
