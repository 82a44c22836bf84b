//! Removes expired documents that servers leave for each other.

use chrono::{DateTime, TimeDelta, Utc};
use onetool_state::StateError;
use onetool_state::interface::{Change, Collection, Cursor, Documents, Effort, Expect};
use serde::Deserialize;

/// Removes the documents of a collection whose `at` is older than `age` or missing.
pub(crate) async fn remove(
    documents: &dyn Documents,
    collection: Collection,
    age: TimeDelta,
) -> Result<(), StateError> {
    #[derive(Deserialize)]
    struct Dated {
        at: DateTime<Utc>,
    }
    for change in documents.changes(collection, Cursor::START, Effort::Usual).await?.changes {
        let Change::Put(document) = change else { continue };
        let at = serde_json::from_slice::<Dated>(&document.content).map(|dated| dated.at);
        if at.is_ok_and(|at| Utc::now() - at < age) {
            continue;
        }
        documents.delete(collection, &document.key, &Expect::Revision(document.revision).into()).await?;
    }
    Ok(())
}
