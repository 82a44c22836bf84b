//! Connections: a pool on its own thread, so that blocking threads can wait for it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime, Timeouts,
};
use onetool_state::StateError;
use onetool_state::interface::PoolStatus;
use parking_lot::Mutex;
use tokio::sync::OnceCell;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Config, NoTls};

use crate::migrations;
use crate::tls::RustlsConnect;

/// Maximum number of connections of one server.
const CONNECTIONS: usize = 8;
/// How long a call waits for a free or a new connection.
const CONNECT_WAIT: Duration = Duration::from_secs(3);
/// How long the database may work on one statement.
const STATEMENT_MILLIS: u32 = 30_000;
/// Attempts at a read whose connection breaks.
const READ_ATTEMPTS: usize = 2;

/// Why an address can't be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(
        "the address of the state database is invalid: {0}\nhint: write postgres://user:password@host:5432/database"
    )]
    Address(String),
    #[error("the thread for the state database can't be started: {0}")]
    Thread(#[from] std::io::Error),
    #[error("TLS can't be set up for the state database: {0}")]
    Tls(String),
}

pub(crate) struct Database {
    pool: Pool,
    /// Drives the connections. Its threads end with it.
    runtime: Option<tokio::runtime::Runtime>,
    place: String,
    pub(crate) blob_key: OnceCell<[u8; 32]>,
    /// When a sweep for expired blobs last started.
    pub(crate) swept: Mutex<Option<Instant>>,
    /// When removals were last forgotten.
    pub(crate) tidied: Mutex<Option<Instant>>,
}

impl Drop for Database {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A runtime must not be dropped where blocking is not allowed.
            runtime.shutdown_background();
        }
    }
}

impl Database {
    pub(crate) fn new(url: &str) -> Result<Self, OpenError> {
        let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| {
            OpenError::Address(std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string))
        })?;
        if config.get_hosts().is_empty() {
            return Err(OpenError::Address("it names no host".to_owned()));
        }
        let place = place(&config);
        let options = format!(
            "-c statement_timeout={STATEMENT_MILLIS} -c idle_in_transaction_session_timeout={STATEMENT_MILLIS}"
        );
        let options = config.get_options().map_or_else(|| options.clone(), |own| format!("{options} {own}"));
        config.options(options).application_name("onetool").connect_timeout(CONNECT_WAIT);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("onetool-state")
            .enable_all()
            .build()?;
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = if config.get_ssl_mode() == SslMode::Disable {
            Manager::from_config(config, NoTls, recycling)
        } else {
            Manager::from_config(config, RustlsConnect::new().map_err(OpenError::Tls)?, recycling)
        };
        let pool = Pool::builder(manager)
            .max_size(CONNECTIONS)
            .runtime(Runtime::Tokio1)
            .timeouts(Timeouts { wait: Some(CONNECT_WAIT), create: Some(CONNECT_WAIT), recycle: Some(CONNECT_WAIT) })
            .post_create(migrate_first())
            .build()
            .map_err(|error| OpenError::Address(error.to_string()))?;
        Ok(Self {
            pool,
            runtime: Some(runtime),
            place,
            blob_key: OnceCell::new(),
            swept: Mutex::default(),
            tidied: Mutex::default(),
        })
    }

    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    pub(crate) fn pool_status(&self) -> PoolStatus {
        let status = self.pool.status();
        PoolStatus { max: status.max_size, open: status.size, idle: status.available, waiting: status.waiting }
    }

    /// Runs work with a connection on the pool's runtime, and waits for it from any thread.
    pub(crate) async fn run<T, F, W>(&self, work: W) -> Result<T, StateError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Failure>> + Send + 'static,
        W: FnOnce(Object) -> F + Send + 'static,
    {
        let Some(runtime) = &self.runtime else { return Err(self.unavailable("it is shutting down")) };
        let pool = self.pool.clone();
        let task = runtime.spawn(async move {
            let connection = pool.get().await.map_err(Failure::Pool)?;
            work(connection).await
        });
        let outcome = task.await.map_err(|_| self.unavailable("its thread has ended"))?;
        outcome.map_err(|failure| self.explain(failure))
    }

    /// Like [`Self::run`] for work that changes nothing: it is retried if the connection breaks.
    pub(crate) async fn read<T, F, W>(&self, work: W) -> Result<T, StateError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Failure>> + Send + 'static,
        W: Fn(Object) -> F + Clone + Send + 'static,
    {
        for _ in 1..READ_ATTEMPTS {
            match self.run(work.clone()).await {
                Err(StateError::Unavailable { .. }) => {}
                outcome => return outcome,
            }
        }
        self.run(work).await
    }

    /// Starts work in the background.
    pub(crate) fn spawn<F, W>(&self, work: W)
    where
        F: Future<Output = Result<(), Failure>> + Send + 'static,
        W: FnOnce(Object) -> F + Send + 'static,
    {
        let Some(runtime) = &self.runtime else { return };
        let pool = self.pool.clone();
        runtime.spawn(async move {
            if let Ok(connection) = pool.get().await
                && let Err(failure) = work(connection).await
            {
                tracing::debug!(?failure, "background work on the state database failed");
            }
        });
    }

    fn unavailable(&self, reason: impl ToString) -> StateError {
        StateError::Unavailable {
            reason: format!("{}: {}", self.place, reason.to_string()),
            hint: "check that the database runs and accepts connections; the next use retries".to_owned(),
        }
    }

    fn explain(&self, failure: Failure) -> StateError {
        match failure {
            Failure::State(error) => error,
            Failure::Pool(PoolError::Timeout(_)) => self.unavailable(format!("no connection within {CONNECT_WAIT:?}")),
            Failure::Pool(PoolError::Backend(error)) => self.unavailable(told(&error)),
            Failure::Pool(PoolError::PostCreateHook(error)) => self.unavailable(match error {
                HookError::Backend(error) => told(&error),
                error => error.to_string(),
            }),
            Failure::Pool(error) => self.unavailable(error),
            Failure::Database(error) if is_connection(&error) => self.unavailable(told(&error)),
            Failure::Database(error) => StateError::Invalid(format!("the state database refused: {}", told(&error))),
        }
    }
}

/// Has the first connection bring the tables up to date while others wait.
fn migrate_first() -> Hook {
    let is_ready = Arc::new(OnceCell::new());
    Hook::async_fn(move |client, _| {
        let is_ready = is_ready.clone();
        Box::pin(async move {
            let migrate = move || async move { migrations::run(client).await.map_err(HookError::Backend) };
            is_ready.get_or_try_init(migrate).await.map(|()| ())
        })
    })
}

/// How work with a connection can fail.
#[derive(Debug)]
pub(crate) enum Failure {
    Pool(PoolError),
    Database(tokio_postgres::Error),
    State(StateError),
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error)
    }
}

impl From<StateError> for Failure {
    fn from(error: StateError) -> Self {
        Self::State(error)
    }
}

/// Whether the connection, not the statement, caused the error.
fn is_connection(error: &tokio_postgres::Error) -> bool {
    let Some(code) = error.code() else { return true };
    let class = &code.code()[..2];
    class == "08"
        || class == "53"
        || [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN, SqlState::CANNOT_CONNECT_NOW, SqlState::QUERY_CANCELED]
            .contains(code)
}

/// The database's own message, which never contains its address or password.
fn told(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(error) => format!("{} ({})", error.message(), error.code().code()),
        None => {
            std::error::Error::source(error).map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
        }
    }
}

/// The address without its password.
fn place(config: &Config) -> String {
    let host = config.get_hosts().first().map_or_else(String::new, |host| match host {
        Host::Tcp(name) => name.clone(),
        #[cfg(unix)]
        Host::Unix(path) => path.display().to_string(),
    });
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let database = config.get_dbname().or_else(|| config.get_user()).unwrap_or_default();
    format!("postgres://{host}:{port}/{database}")
}
