//! Dependencies of tools: a key says what is needed and how to make it; the caller may supply something else.
//!
//! A value is made once per call, or once per run if the key asks for it; concurrent callers wait for the one that
//! makes it. Failures are not cached. **Invariant**: no wait is circular. Every "the factory of a waits for b" is
//! recorded before the wait starts, and a wait that would close a cycle is refused, even when the cycle runs through
//! several tasks.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OnceCell;

use crate::{ToolContext, ToolError};

type AnyValue = Arc<dyn Any + Send + Sync>;
type Creation<T> = Pin<Box<dyn Future<Output = Result<T, ToolError>> + Send>>;
type Factory<T> = Arc<dyn Fn(ToolContext) -> Creation<T> + Send + Sync>;

/// How long a value lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lifetime {
    Call,
    Run,
}

/// What a tool needs, and how to make it if the caller did not supply it.
///
/// ```
/// use onetool_sdk::{Dependencies, DependencyKey, ToolContext};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let greeting = DependencyKey::new("greeting", || "hello".to_owned());
/// assert_eq!(*ToolContext::default().resolve(&greeting).await.unwrap(), "hello");
///
/// let deps = Dependencies::new().with_value("greeting", "moin".to_owned());
/// let ctx = ToolContext::default().with_dependencies(deps);
/// assert_eq!(*ctx.resolve(&greeting).await.unwrap(), "moin");
/// # });
/// ```
pub struct DependencyKey<T> {
    id: Arc<str>,
    lifetime: Lifetime,
    create: Factory<T>,
}

impl<T: Send + Sync + 'static> DependencyKey<T> {
    /// Creates a key whose value is made synchronously and cannot fail.
    pub fn new(id: impl Into<Arc<str>>, create: impl Fn() -> T + Send + Sync + 'static) -> Self {
        let create = Arc::new(create);
        Self::from_async(id, move |_| {
            let create = create.clone();
            async move { Ok(create()) }
        })
    }

    /// Creates a key whose factory may wait, may fail, and may need other dependencies.
    pub fn from_async<F, Fut>(id: impl Into<Arc<str>>, create: F) -> Self
    where
        F: Fn(ToolContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, ToolError>> + Send + 'static,
    {
        Self { id: id.into(), lifetime: Lifetime::Call, create: Arc::new(move |ctx| Box::pin(create(ctx))) }
    }

    /// Makes the value once per run. The values it is made from then also live as long as the run.
    #[must_use]
    pub fn per_run(self) -> Self {
        Self { lifetime: Lifetime::Run, ..self }
    }

    pub fn id(&self) -> &str {
        &self.id
    }
}

impl<T> Clone for DependencyKey<T> {
    fn clone(&self) -> Self {
        Self { id: self.id.clone(), lifetime: self.lifetime, create: self.create.clone() }
    }
}

impl<T> fmt::Debug for DependencyKey<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DependencyKey").field("id", &self.id).field("lifetime", &self.lifetime).finish_non_exhaustive()
    }
}

#[derive(Clone)]
enum Given {
    Value(AnyValue),
    Factory(Factory<AnyValue>),
}

/// Values and factories that the caller supplies, by id. They take precedence over a key's own factory.
#[derive(Clone, Default)]
pub struct Dependencies {
    given: Arc<HashMap<Arc<str>, Given>>,
}

impl Dependencies {
    pub fn new() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn with_value<T: Send + Sync + 'static>(self, id: impl Into<Arc<str>>, value: T) -> Self {
        self.with(id.into(), Given::Value(Arc::new(value)))
    }

    /// Like [`Self::with_value`], for a value that is already shared.
    #[must_use]
    pub fn with_shared<T: Send + Sync + 'static>(self, id: impl Into<Arc<str>>, value: Arc<T>) -> Self {
        self.with(id.into(), Given::Value(value))
    }

    /// Replaces a key's factory.
    #[must_use]
    pub fn with_factory<T, F, Fut>(self, id: impl Into<Arc<str>>, create: F) -> Self
    where
        T: Send + Sync + 'static,
        F: Fn(ToolContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, ToolError>> + Send + 'static,
    {
        let factory: Factory<AnyValue> = Arc::new(move |ctx| {
            let creation = create(ctx);
            Box::pin(async move { creation.await.map(|value| Arc::new(value) as AnyValue) })
        });
        self.with(id.into(), Given::Factory(factory))
    }

    /// Returns a value that was supplied as a value, not as a factory.
    pub fn get<T: Send + Sync + 'static>(&self, id: &str) -> Option<Arc<T>> {
        match self.given.get(id)? {
            Given::Value(value) => value.clone().downcast().ok(),
            Given::Factory(_) => None,
        }
    }

    fn with(mut self, id: Arc<str>, given: Given) -> Self {
        Arc::make_mut(&mut self.given).insert(id, given);
        self
    }
}

impl fmt::Debug for Dependencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ids: Vec<_> = self.given.keys().collect();
        ids.sort();
        f.debug_tuple("Dependencies").field(&ids).finish()
    }
}

/// The values made so far, for the call and for the run.
#[derive(Clone, Default)]
pub(crate) struct Resolutions {
    call: Arc<Made>,
    run: Arc<Made>,
    /// The dependency whose factory received this context, if any.
    maker: Option<Arc<str>>,
}

impl Resolutions {
    pub(crate) fn next_call(&self) -> Self {
        Self { call: Arc::default(), run: self.run.clone(), maker: None }
    }
}

/// The values of one lifetime, and which of their factories wait for which.
#[derive(Default)]
struct Made {
    cells: Mutex<HashMap<Arc<str>, Arc<OnceCell<AnyValue>>>>,
    waits: Mutex<Waits>,
}

/// Maps each factory to the dependencies it waits for, with the number of tasks that wait.
#[derive(Default)]
struct Waits(HashMap<Arc<str>, HashMap<Arc<str>, usize>>);

impl Waits {
    /// Returns a path from `from` to `to`, if there is one.
    fn path(&self, from: &Arc<str>, to: &Arc<str>) -> Option<Vec<Arc<str>>> {
        let mut seen: Vec<Arc<str>> = Vec::new();
        let mut open = vec![vec![from.clone()]];
        while let Some(path) = open.pop() {
            let Some(last) = path.last().cloned() else { continue };
            if last == *to {
                return Some(path);
            }
            if seen.contains(&last) {
                continue;
            }
            for next in self.0.get(&last).into_iter().flat_map(HashMap::keys) {
                let mut longer = path.clone();
                longer.push(next.clone());
                open.push(longer);
            }
            seen.push(last);
        }
        None
    }
}

/// A recorded wait, removed when dropped.
struct Wait {
    made: Arc<Made>,
    maker: Arc<str>,
    awaited: Arc<str>,
}

impl Wait {
    fn begin(made: &Arc<Made>, maker: &Arc<str>, awaited: &Arc<str>) -> Result<Self, ToolError> {
        let mut waits = made.waits.lock();
        if let Some(path) = waits.path(awaited, maker) {
            let mut names: Vec<&str> = vec![maker];
            names.extend(path.iter().map(AsRef::as_ref));
            return Err(ToolError::internal(format!("dependencies form a cycle: {}", names.join(" → ")))
                .with_hint("remove one of these dependencies to break the cycle"));
        }
        *waits.0.entry(maker.clone()).or_default().entry(awaited.clone()).or_default() += 1;
        Ok(Self { made: made.clone(), maker: maker.clone(), awaited: awaited.clone() })
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let mut waits = self.made.waits.lock();
        let Some(targets) = waits.0.get_mut(&self.maker) else { return };
        if let Some(count) = targets.get_mut(&self.awaited) {
            *count -= 1;
            if *count == 0 {
                targets.remove(&self.awaited);
            }
        }
        if targets.is_empty() {
            waits.0.remove(&self.maker);
        }
    }
}

pub(crate) async fn resolve<T: Send + Sync + 'static>(
    ctx: &ToolContext,
    key: &DependencyKey<T>,
) -> Result<Arc<T>, ToolError> {
    let given = ctx.deps.given.get(&key.id);
    if let Some(Given::Value(value)) = given {
        return typed(&key.id, value.clone());
    }
    let made = match key.lifetime {
        Lifetime::Call => &ctx.resolutions().call,
        Lifetime::Run => &ctx.resolutions().run,
    };
    let cell = made.cells.lock().entry(key.id.clone()).or_default().clone();
    if let Some(value) = cell.get() {
        return typed(&key.id, value.clone());
    }
    let wait = match &ctx.resolutions().maker {
        Some(maker) => Some(Wait::begin(made, maker, &key.id)?),
        None => None,
    };
    // The inputs of a value must live as long as the value: a run-scoped factory sees only run-scoped values.
    let resolutions =
        Resolutions { call: made.clone(), run: ctx.resolutions().run.clone(), maker: Some(key.id.clone()) };
    let inner = ctx.with_resolutions(resolutions);
    let value = cell
        .get_or_try_init(|| async {
            match given {
                Some(Given::Factory(create)) => create(inner).await,
                Some(Given::Value(value)) => Ok(value.clone()),
                None => (key.create)(inner).await.map(|value| Arc::new(value) as AnyValue),
            }
        })
        .await
        .map_err(|error| failed(&key.id, error))?
        .clone();
    drop(wait);
    typed(&key.id, value)
}

/// Names the dependency that failed, once per link of the chain.
fn failed(id: &str, error: ToolError) -> ToolError {
    ToolError { message: format!("the dependency '{id}' could not be made: {}", error.message), ..error }
}

fn typed<T: Send + Sync + 'static>(id: &str, value: AnyValue) -> Result<Arc<T>, ToolError> {
    value.downcast().map_err(|_| {
        ToolError::internal(format!("the dependency '{id}' is not of the type {}", std::any::type_name::<T>()))
            .with_hint("give a value of the key's own type, and use an id for one type only")
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Barrier;

    use super::*;
    use crate::{CallContext, ErrorKind};

    /// A key whose value is the number of values made before it.
    fn counting(id: &str, counter: &Arc<AtomicUsize>) -> DependencyKey<usize> {
        let counter = counter.clone();
        DependencyKey::from_async(id, move |_| {
            let counter = counter.clone();
            async move {
                tokio::task::yield_now().await;
                Ok(counter.fetch_add(1, Ordering::SeqCst))
            }
        })
    }

    #[tokio::test]
    async fn concurrent_resolves_make_one_value() {
        let counter = Arc::new(AtomicUsize::new(0));
        let key = counting("n", &counter);
        let ctx = ToolContext::default();
        let values = futures_util::future::join_all((0..50).map(|_| ctx.resolve(&key))).await;
        assert!(values.into_iter().all(|value| *value.unwrap() == 0));
        assert_eq!(counter.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn a_value_lives_for_its_call_or_for_its_run() {
        let (calls, runs) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (per_call, per_run) = (counting("c", &calls), counting("r", &runs).per_run());
        let first = ToolContext::default();
        let second = first.next_call();
        for ctx in [&first, &second, &first] {
            ctx.resolve(&per_call).await.unwrap();
            ctx.resolve(&per_run).await.unwrap();
        }
        assert_eq!((calls.load(Ordering::SeqCst), runs.load(Ordering::SeqCst)), (2, 1));
    }

    #[tokio::test]
    async fn what_a_runs_value_is_made_from_lives_for_the_run() {
        let counter = Arc::new(AtomicUsize::new(0));
        let part = counting("part", &counter);
        let whole = {
            let part = part.clone();
            DependencyKey::from_async("whole", move |ctx| {
                let part = part.clone();
                async move { ctx.resolve(&part).await.map(|value| *value + 100) }
            })
            .per_run()
        };
        let first = ToolContext::default();
        assert_eq!(*first.resolve(&whole).await.unwrap(), 100);
        assert_eq!(*first.next_call().resolve(&whole).await.unwrap(), 100);
        assert_eq!(*first.resolve(&part).await.unwrap(), 1, "the call makes its own");
    }

    #[tokio::test]
    async fn a_failure_is_told_and_not_kept() {
        let counter = Arc::new(AtomicUsize::new(0));
        let key: DependencyKey<usize> = {
            let counter = counter.clone();
            DependencyKey::from_async("db", move |_| {
                let attempt = counter.fetch_add(1, Ordering::SeqCst);
                async move { if attempt == 0 { Err(ToolError::unavailable("no route")) } else { Ok(attempt) } }
            })
        };
        let ctx = ToolContext::default();
        let error = ctx.resolve(&key).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unavailable);
        assert_eq!(error.message, "the dependency 'db' could not be made: no route");
        assert_eq!(*ctx.resolve(&key).await.unwrap(), 1);
    }

    /// Two keys that need each other. If there is a barrier, both factories meet at it first.
    fn circle(barrier: Option<Arc<Barrier>>) -> (DependencyKey<u8>, DependencyKey<u8>) {
        fn key(id: &'static str, other: &'static str, barrier: Option<Arc<Barrier>>) -> DependencyKey<u8> {
            DependencyKey::from_async(id, move |ctx| {
                let barrier = barrier.clone();
                async move {
                    if let Some(barrier) = &barrier {
                        barrier.wait().await;
                    }
                    ctx.resolve(&key(other, id, None)).await.map(|value| *value)
                }
            })
        }
        (key("a", "b", barrier.clone()), key("b", "a", barrier))
    }

    #[tokio::test]
    async fn a_cycle_is_an_error_that_names_it() {
        let (a, b) = circle(None);
        let ctx = ToolContext::default();
        let error = ctx.resolve(&a).await.unwrap_err();
        assert!(error.message.contains("dependencies form a cycle: b → a → b"), "{error}");
        // Nothing is cached: starting at the other key fails in the same way instead of waiting forever.
        assert!(ctx.resolve(&b).await.unwrap_err().message.contains("cycle"));
    }

    #[tokio::test]
    async fn a_cycle_through_two_tasks_is_an_error_not_a_deadlock() {
        let (a, b) = circle(Some(Arc::new(Barrier::new(2))));
        let ctx = ToolContext::default();
        let both = async { tokio::join!(ctx.resolve(&a), ctx.resolve(&b)) };
        let (a, b) = tokio::time::timeout(std::time::Duration::from_secs(20), both).await.expect("no deadlock");
        assert!(a.is_err() && b.is_err());
    }

    #[tokio::test]
    async fn what_is_given_wins_and_must_have_the_right_type() {
        let key = DependencyKey::new("n", || 1_u32);
        let deps = Dependencies::new().with_factory("n", |_| async { Ok(2_u32) });
        assert_eq!(*ToolContext::default().with_dependencies(deps).resolve(&key).await.unwrap(), 2);
        let deps = Dependencies::new().with_value("n", "two");
        assert_eq!(deps.get::<&str>("n").as_deref(), Some(&"two"));
        let error = ToolContext::default().with_dependencies(deps).resolve(&key).await.unwrap_err();
        assert!(error.message.contains("'n' is not of the type u32"), "{error}");
    }

    #[tokio::test]
    async fn resolving_ends_when_the_caller_gives_up() {
        let key: DependencyKey<u8> = DependencyKey::from_async("slow", |_| std::future::pending());
        let call = CallContext::default();
        call.cancel.cancel();
        let error = ToolContext::new(call).resolve(&key).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Cancelled);
        let call = CallContext { deadline: Some(std::time::Instant::now()), ..CallContext::default() };
        let error = ToolContext::new(call).resolve(&key).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Timeout);
    }
}
