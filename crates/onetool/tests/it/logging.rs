//! `logging/setLevel`: a client receives the level that it requested, without secrets.

#![expect(deprecated, reason = "clients of today still ask for logging")]

use rmcp::model::{CallToolRequestParams, LoggingLevel, LoggingMessageNotificationParam, SetLevelRequestParams};
use rmcp::service::{NotificationContext, RunningService, ServiceExt as _};
use rmcp::transport::TokioChildProcess;
use rmcp::{ClientHandler, RoleClient};
use tokio::sync::mpsc;

use crate::client::{PATIENCE, Project, call, eventually};

/// A client that records the server's log messages.
struct Listener(mpsc::UnboundedSender<LoggingMessageNotificationParam>);

impl ClientHandler for Listener {
    async fn on_logging_message(&self, params: LoggingMessageNotificationParam, _: NotificationContext<RoleClient>) {
        let _ = self.0.send(params);
    }
}

struct Session {
    service: RunningService<RoleClient, Listener>,
    messages: mpsc::UnboundedReceiver<LoggingMessageNotificationParam>,
}

impl Session {
    async fn begin(project: &Project) -> Self {
        let (sender, messages) = mpsc::unbounded_channel();
        let transport = TokioChildProcess::new(project.command(&["serve"])).unwrap();
        let service = Listener(sender).serve(transport).await.unwrap();
        Self { service, messages }
    }

    async fn set_level(&self, level: LoggingLevel) {
        self.service.set_level(SetLevelRequestParams::new(level)).await.unwrap();
    }

    async fn run(&self, command: &str) {
        let request: CallToolRequestParams = call(command);
        self.service.call_tool(request).await.unwrap();
    }

    async fn next(&mut self) -> LoggingMessageNotificationParam {
        tokio::time::timeout(PATIENCE, self.messages.recv()).await.expect("no message came").unwrap()
    }
}

#[tokio::test]
async fn a_client_hears_from_the_level_that_it_asked_for() {
    let project = Project::with("security: {warned: [ot.version, ot.packs, ot.aliases]}\n");
    let mut session = Session::begin(&project).await;
    session.run("ot.version()").await;
    session.set_level(LoggingLevel::Error).await;
    session.run("ot.version()").await;
    session.set_level(LoggingLevel::Warning).await;
    session.run("ot.packs()").await;
    let heard = session.next().await;
    assert_eq!(heard.level, LoggingLevel::Warning);
    assert_eq!(heard.logger.as_deref(), Some("onetool"));
    assert_eq!(heard.data["call"], "ot.packs", "what came before it was not asked for: {}", heard.data);
    session.run("ot.aliases()").await;
    let heard = session.next().await;
    assert_eq!(heard.data["call"], "ot.aliases", "runs and calls are finer than a warning: {}", heard.data);
    session.set_level(LoggingLevel::Info).await;
    session.run("1 + 1").await;
    let heard = session.next().await;
    assert_eq!((heard.level, &heard.data["span"]), (LoggingLevel::Info, &"run".into()));
}

#[tokio::test]
async fn secrets_are_not_told_not_even_new_ones() {
    let project = Project::with("security: {warned: ['ot.*']}\n");
    project.write(".onetool/secrets.yaml", "WORD: version\n");
    let mut session = Session::begin(&project).await;
    session.set_level(LoggingLevel::Warning).await;
    session.run("ot.version()").await;
    assert_eq!(session.next().await.data["call"], "ot.[REDACTED]");
    project.write(".onetool/secrets.yaml", "WORD: aliases\n");
    session.run("ot.reload()").await;
    assert_eq!(session.next().await.data["call"], "ot.reload");
    session.run("ot.aliases()").await;
    assert_eq!(session.next().await.data["call"], "ot.[REDACTED]");
    let path = project.path().join(".onetool/logs/onetool.log");
    let file = || std::fs::read_to_string(&path).unwrap_or_default();
    eventually("both are in the file", || file().matches("ot.[REDACTED]").count() >= 2).await;
    assert!(!file().contains("ot.version") && !file().contains("ot.aliases"), "{}", file());
}
