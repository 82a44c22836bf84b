//! A host for tests: one pack whose functions do what a test needs to see.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;

use async_trait::async_trait;
use onetool_sandbox::{CallTarget, Host, Lookup};
use onetool_sdk::{Arguments, Part, ToolError, Value};
use tokio::sync::{Barrier, Mutex, Notify, mpsc};

pub(crate) struct Toolbox {
    pub(crate) started: Notify,
    pair: Barrier,
    tell: mpsc::UnboundedSender<Value>,
    told: Mutex<mpsc::UnboundedReceiver<Value>>,
}

impl Toolbox {
    pub(crate) fn shared() -> Arc<Self> {
        let (tell, told) = mpsc::unbounded_channel();
        Arc::new(Self { started: Notify::new(), pair: Barrier::new(2), tell, told: Mutex::new(told) })
    }

    /// Returns the value that the program passed to `pack.tell(value)`.
    #[allow(dead_code, reason = "not every test binary asks")]
    pub(crate) async fn told(&self) -> Value {
        self.told.lock().await.recv().await.unwrap()
    }
}

#[async_trait]
impl Host for Toolbox {
    fn lookup(&self, name: &str) -> Result<Lookup, ToolError> {
        match name {
            "pack" => Ok(Lookup::Pack("pack".to_owned())),
            "helper" => Ok(Lookup::Function("helper".to_owned())),
            "answer" => Ok(Lookup::Value(Value::Int(42))),
            "forbidden" => Err(ToolError::raised("NameError", "no pack 'forbidden', there is: pack")),
            _ => Ok(Lookup::Undefined),
        }
    }

    fn attribute(&self, _: &str, name: &str) -> Result<Lookup, ToolError> {
        match name {
            "home" => Ok(Lookup::Value(Value::Path("/home/project".to_owned()))),
            "nothing" => Err(ToolError::not_found("pack 'pack' has no function 'nothing'")),
            _ => Ok(Lookup::Function(name.to_owned())),
        }
    }

    async fn call(&self, target: CallTarget, arguments: Arguments) -> Result<Value, ToolError> {
        let (shown, function) = match &target {
            CallTarget::Function(name) => (name.clone(), name.clone()),
            CallTarget::Method { pack, function } => (format!("{pack}.{function}"), function.clone()),
        };
        let first = arguments.positional.first().cloned().unwrap_or(Value::None);
        match function.as_str() {
            "echo" => Ok(first),
            "picture" => Ok(Value::Part(Part::Image { media_type: "image/png".to_owned(), data: vec![1, 2, 3] })),
            "record" => {
                let fields = vec![("name".to_owned(), Value::from("n"))];
                Ok(Value::Record { type_name: "Point".to_owned(), fields })
            }
            "fail" => {
                let message = arguments.positional.get(1).map(Value::str).unwrap_or_default();
                Err(ToolError::raised(first.str(), message))
            }
            "meet" => {
                self.pair.wait().await;
                Ok(first)
            }
            "long" => Ok(Value::Str("x".repeat(5000))),
            "tell" => {
                self.tell.send(first).unwrap();
                Ok(Value::None)
            }
            "never" => std::future::pending().await,
            "started" => {
                self.started.notify_one();
                Ok(Value::None)
            }
            _ => {
                let mut shown_arguments: Vec<String> = arguments.positional.iter().map(Value::repr).collect();
                shown_arguments.extend(arguments.named.iter().map(|(name, value)| format!("{name}={}", value.repr())));
                Ok(Value::Str(format!("{shown}({})", shown_arguments.join(", "))))
            }
        }
    }
}
