//! Documents that last as long as the process: collections without a folder.

use std::collections::BTreeMap;

use crate::interface::{Change, Changes, Condition, Cursor, Document, Expect, Guard, Key, Revision, StateError};

#[derive(Debug, Default)]
pub(super) struct MemoryCollection {
    /// The content, `None` after removal, and the number of the last change.
    entries: BTreeMap<Key, (Option<Vec<u8>>, u64)>,
    sequence: u64,
}

impl MemoryCollection {
    pub(super) fn get(&self, key: &Key) -> Option<Document> {
        let content = self.entries.get(key)?.0.clone()?;
        Some(Document { key: key.clone(), revision: Revision::of(&content), content })
    }

    pub(super) fn put(&mut self, key: &Key, content: &[u8], condition: &Condition) -> Result<Revision, StateError> {
        self.check(key, condition)?;
        self.sequence += 1;
        self.entries.insert(key.clone(), (Some(content.to_owned()), self.sequence));
        Ok(Revision::of(content))
    }

    pub(super) fn create_all(&mut self, documents: &[(Key, Vec<u8>)], guard: Option<&Guard>) -> Result<(), StateError> {
        for (key, _) in documents {
            self.check(key, &Condition { expect: Expect::Absent, guard: guard.cloned() })?;
        }
        for (key, content) in documents {
            self.put(key, content, &Expect::Absent.into())?;
        }
        Ok(())
    }

    pub(super) fn delete(&mut self, key: &Key, condition: &Condition) -> Result<(), StateError> {
        self.check(key, condition)?;
        if let Some(entry) = self.entries.get_mut(key) {
            self.sequence += 1;
            *entry = (None, self.sequence);
        }
        Ok(())
    }

    fn check(&self, key: &Key, condition: &Condition) -> Result<(), StateError> {
        if let Some(guard) = &condition.guard {
            let below = self.entries.iter().filter(|(key, _)| key.as_str().starts_with(&guard.prefix));
            if below.map(|(_, (_, sequence))| *sequence).max().unwrap_or(0) > guard.seen.0 {
                return Err(StateError::Stale(format!("what {key} belongs to")));
            }
        }
        let found = self.get(key).map(|document| document.revision);
        let holds = match &condition.expect {
            Expect::Anything => true,
            Expect::Absent => found.is_none(),
            Expect::Revision(revision) => found.as_ref() == Some(revision),
        };
        if holds { Ok(()) } else { Err(StateError::Conflict(key.to_string())) }
    }

    pub(super) fn changes(&self, since: Cursor) -> Changes {
        let is_whole = since == Cursor::START;
        let changed = self.entries.iter().filter(|(_, (_, sequence))| *sequence > since.0);
        let changes = changed.filter_map(|(key, (content, _))| match content {
            Some(_) => self.get(key).map(Change::Put),
            None => (!is_whole).then(|| Change::Gone(key.clone())),
        });
        Changes { is_whole, changes: changes.collect(), cursor: Cursor(self.sequence) }
    }
}
