//! Tasks as defined by the extension of revision 2026-07-28: a long run is answered with a task, which the client
//! polls, answers and cancels.

use onetool_state::runs::{Owner, RunId, RunRecord, RunStatus, RunStoreError};
use rmcp::model::{
    CreateTaskResult, DetailedTask, ErrorCode, GetTaskResult, InputResponses, JsonObject, Task, TaskPayload, TaskStatus,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value as Json, json};

use super::Handler;
use super::keyed::client_of;
use super::preferences::{Delivery, ReplyPreferences};
use super::rounds::{Binding, LiveHandle};
use super::runs::{principal, result_of};
use crate::BackgroundSettings;
use crate::background::{RunView, without_reply};

/// The response that a client gets instead of a result.
pub(super) fn created(record: &RunRecord, settings: &BackgroundSettings) -> CreateTaskResult {
    CreateTaskResult::new(task(record, settings))
}

fn task(record: &RunRecord, settings: &BackgroundSettings) -> Task {
    let status = match record.status {
        RunStatus::Working | RunStatus::Queued | RunStatus::Suspended => TaskStatus::Working,
        RunStatus::Interrupted => TaskStatus::Failed,
        RunStatus::InputRequired => TaskStatus::InputRequired,
        RunStatus::Completed | RunStatus::Failed => TaskStatus::Completed,
        RunStatus::Cancelled => TaskStatus::Cancelled,
    };
    let interval = u64::try_from(settings.poll_interval.as_millis()).unwrap_or(u64::MAX);
    let task = Task::new(record.id.as_str(), status, record.created_at.to_rfc3339(), record.updated_at.to_rfc3339())
        .with_ttl_ms(record.ttl_ms)
        .with_poll_interval_ms(interval);
    match &record.message {
        Some(message) => task.with_status_message(message.clone()),
        None => task,
    }
}

/// Converts a failure to find or change a task.
pub(super) fn refused(error: &RunStoreError) -> ErrorData {
    match error {
        RunStoreError::NotFound => ErrorData::invalid_params("there is no such task, or it has expired", None),
        RunStoreError::Cursor => ErrorData::invalid_params(error.to_string(), None),
        _ => ErrorData::new(ErrorCode::INTERNAL_ERROR, error.to_string(), None),
    }
}

fn object(value: Json) -> JsonObject {
    match value {
        Json::Object(object) => object,
        _ => JsonObject::default(),
    }
}

impl Handler {
    /// Executes a run that becomes a task when it takes long.
    pub(super) async fn run_as_task(
        &self,
        binding: Binding<'_>,
        context: &RequestContext<RoleServer>,
    ) -> rmcp::model::CallToolResponse {
        let background = &self.shared.background;
        // Without shared state there are no tasks, but runs still work.
        let owner = background.owner(binding.principal).await.unwrap_or_else(|_| Owner::local());
        let run = background.run_unrecorded(owner, binding.command.to_owned(), client_of(context));
        let cancel_on_drop = Some(run.cancel.clone().drop_guard());
        self.follow(LiveHandle { run, cancel_on_drop }, binding, context).await
    }

    /// Returns the owner and the run of a task's id.
    pub(super) async fn task_of(
        &self,
        id: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<(Owner, RunId), ErrorData> {
        let id = id.parse().map_err(|error| refused(&error))?;
        let owner = self.shared.background.owner(principal(context)).await.map_err(|error| refused(&error))?;
        Ok((owner, id))
    }

    /// `tasks/get`
    pub(super) async fn task(
        &self,
        id: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let (owner, id) = self.task_of(id, context).await?;
        let background = &self.shared.background;
        let RunView { record, questions } = background.get(&owner, &id).await.map_err(|error| refused(&error))?;
        let payload = match record.status {
            RunStatus::Working | RunStatus::Queued | RunStatus::Suspended => TaskPayload::Working,
            RunStatus::InputRequired => TaskPayload::InputRequired { input_requests: questions },
            RunStatus::Cancelled => TaskPayload::Cancelled,
            RunStatus::Completed | RunStatus::Failed | RunStatus::Interrupted => {
                match background.reply(&owner, &id).await.map_err(|error| refused(&error))? {
                    Some(reply) => {
                        let delivery = Delivery::new(self, ReplyPreferences::of_task(&record), context);
                        let result = delivery.result(result_of(reply)).await;
                        let result = serde_json::to_value(result).unwrap_or_default();
                        TaskPayload::Completed { result: object(result) }
                    }
                    None => {
                        let error =
                            json!({"code": ErrorCode::INTERNAL_ERROR.0, "message": without_reply(&record).text});
                        TaskPayload::Failed { error: object(error) }
                    }
                }
            }
        };
        Ok(GetTaskResult::new(DetailedTask::new(task(&record, &background.settings()), payload)))
    }

    /// `tasks/update`
    pub(super) async fn answer_task(
        &self,
        id: &str,
        answers: InputResponses,
        context: &RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let (owner, id) = self.task_of(id, context).await?;
        let background = &self.shared.background;
        let view = background.get(&owner, &id).await.map_err(|error| refused(&error))?;
        if !background.answer(&owner, &id, answers) && !view.record.status.is_final() {
            let message = "this task runs on another server\nhint: send its answers there";
            return Err(ErrorData::new(ErrorCode::INTERNAL_ERROR, message, None));
        }
        Ok(())
    }

    /// `tasks/cancel`
    pub(super) async fn end_task(
        &self,
        id: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<RunRecord, ErrorData> {
        let (owner, id) = self.task_of(id, context).await?;
        self.shared.background.cancel(&owner, &id).await.map_err(|error| refused(&error))
    }
}
