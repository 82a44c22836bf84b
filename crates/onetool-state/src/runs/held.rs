//! Runs that this process holds: taken from the queue, renewed, released, suspended, interrupted, resumed.
//!
//! The holder of a run has a [`Claim`]. Its fence is in every write, so that a process that lost a run without noticing
//! can no longer change it.

use std::time::Duration;

use super::record::{CallReport, Owner, RunId, RunRecord, RunStatus};
use super::store::{LEASE, RunStore, RunStoreError, key};
use crate::interface::{Backlog, Claim, Key, Rest, StateError};
use crate::wait;

/// A run that this process has taken.
#[derive(Debug, Clone)]
pub struct Taken {
    pub record: RunRecord,
    pub claim: Claim,
}

impl RunStore {
    /// Takes a run that waits for a process with these tags, or whose process has ended.
    pub fn take_next(&self, tags: &[String]) -> Result<Option<Taken>, RunStoreError> {
        while let Some(claim) = wait(self.jobs.claim(self.holder(), tags))? {
            if let Some(taken) = self.taken(claim)? {
                return Ok(Some(taken));
            }
        }
        Ok(None)
    }

    /// Takes this run, wherever it waits. `None` while another process holds it, and after it has ended.
    pub fn take(&self, owner: &Owner, id: &RunId) -> Result<Option<Taken>, RunStoreError> {
        match wait(self.jobs.claim_one(&key(owner, id)?, self.holder()))? {
            Some(claim) => self.taken(claim),
            None => Ok(None),
        }
    }

    fn taken(&self, claim: Claim) -> Result<Option<Taken>, RunStoreError> {
        let taken = self.update_held(&claim, |record| {
            record.status = RunStatus::Working;
            record.message = None;
        });
        match taken {
            Ok(record) if record.status == RunStatus::Interrupted => {
                // Its journal is needed if it is resumed.
                self.give_back(&claim, Rest::Parked)?;
                Ok(None)
            }
            Ok(record) if record.status.is_final() => {
                wait(self.jobs.remove(&claim.job))?;
                Ok(None)
            }
            Ok(record) => Ok(Some(Taken { record, claim })),
            Err(RunStoreError::NotFound) => {
                wait(self.jobs.remove(&claim.job))?;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Holds runs for another [`LEASE`]. Returns those that others hold now, or that were cancelled.
    pub fn renew(&self, claims: &[Claim]) -> Result<Vec<Key>, RunStoreError> {
        Ok(wait(self.jobs.renew(claims, LEASE))?)
    }

    /// Releases a run before its end.
    pub fn give_back(&self, claim: &Claim, rest: Rest) -> Result<(), RunStoreError> {
        match wait(self.jobs.release(claim, rest)) {
            Ok(()) => Ok(()),
            Err(StateError::LeaseLost(_)) => Err(RunStoreError::Lost),
            Err(error) => Err(error.into()),
        }
    }

    /// Releases a run so that another process continues it immediately.
    pub fn hand_over(&self, claim: &Claim) -> Result<(), RunStoreError> {
        self.update_held(claim, |record| {
            record.status = RunStatus::Queued;
            record.message = Some("its server was stopped; another one continues it".to_owned());
        })?;
        self.give_back(claim, Rest::Waiting)
    }

    /// Suspends a run until a person decides; no process holds it meanwhile.
    pub fn suspend(&self, claim: &Claim, approval: &str, message: &str) -> Result<RunRecord, RunStoreError> {
        let record = self.update_held(claim, |record| {
            record.status = RunStatus::Suspended;
            record.approval = Some(approval.to_owned());
            record.message = Some(message.to_owned());
        })?;
        self.give_back(claim, Rest::Parked)?;
        Ok(record)
    }

    /// Lets a suspended run continue. Returns whether its job exists.
    pub fn wake(&self, owner: &Owner, id: &RunId) -> Result<bool, RunStoreError> {
        let key = key(owner, id)?;
        let is_there = wait(self.jobs.wake(&key))?;
        if is_there {
            self.change(&key, |record| {
                let waits = record.status == RunStatus::Suspended;
                if waits {
                    record.status = RunStatus::Queued;
                    record.message = None;
                }
                Ok(waits)
            })?;
        }
        Ok(is_there)
    }

    /// Ends a run because it is unknown whether a call took place. Its calls stay on record.
    pub fn interrupt(&self, claim: &Claim, message: &str, calls: CallReport) -> Result<RunRecord, RunStoreError> {
        let record = self.update_held(claim, |record| {
            record.status = RunStatus::Interrupted;
            record.message = Some(format!("interrupted: {message}"));
            record.calls = Some(calls.clone());
        })?;
        self.give_back(claim, Rest::Parked)?;
        Ok(record)
    }

    /// Takes an interrupted run, to resume it.
    pub fn reopen(&self, owner: &Owner, id: &RunId) -> Result<Taken, RunStoreError> {
        let key = key(owner, id)?;
        let (record, _) = self.read(&key)?.ok_or(RunStoreError::NotFound)?;
        if record.status != RunStatus::Interrupted {
            return Err(RunStoreError::NotInterrupted(record.status.name()));
        }
        let claim = wait(self.jobs.claim_one(&key, self.holder()))?.ok_or(RunStoreError::Lost)?;
        let record = self.change(&key, |record| {
            if record.status != RunStatus::Interrupted {
                return Err(RunStoreError::NotInterrupted(record.status.name()));
            }
            record.status = RunStatus::Working;
            record.message = None;
            record.calls = None;
            record.fence = claim.fence;
            record.node.clone_from(&claim.node);
            Ok(true)
        })?;
        Ok(Taken { record, claim })
    }

    /// Ends an interrupted run for good.
    pub fn abandon(&self, owner: &Owner, id: &RunId) -> Result<RunRecord, RunStoreError> {
        let key = key(owner, id)?;
        let record = self.change(&key, |record| {
            if record.status != RunStatus::Interrupted {
                return Err(RunStoreError::NotInterrupted(record.status.name()));
            }
            record.status = RunStatus::Cancelled;
            record.message = Some("abandoned after it was interrupted".to_owned());
            Ok(true)
        })?;
        wait(self.jobs.remove(&key))?;
        Ok(record)
    }

    /// Ends a run, whoever holds it.
    pub fn cancel(&self, owner: &Owner, id: &RunId) -> Result<RunRecord, RunStoreError> {
        let record = self.update(owner, id, |record| {
            record.status = RunStatus::Cancelled;
            record.message = Some("cancelled".to_owned());
            true
        })?;
        if record.status == RunStatus::Cancelled {
            // Its holder finds out with the next write, which fails.
            wait(self.jobs.remove(&key(owner, id)?))?;
        }
        Ok(record)
    }

    /// Writes to the journal of a run that this process holds.
    pub fn append(&self, claim: &Claim, first: u64, lines: &[String]) -> Result<(), RunStoreError> {
        match wait(self.jobs.append(claim, first, lines)) {
            Ok(()) => Ok(()),
            Err(StateError::LeaseLost(_)) => Err(RunStoreError::Lost),
            Err(error) => Err(error.into()),
        }
    }

    pub fn journal(&self, claim: &Claim) -> Result<Vec<String>, RunStoreError> {
        Ok(wait(self.jobs.journal(&claim.job))?)
    }

    /// The runs that wait for a process with capacity.
    pub fn backlog(&self) -> Result<Backlog, RunStoreError> {
        Ok(wait(self.jobs.backlog())?)
    }

    /// Poll interval for waiting runs.
    pub fn look_every(&self) -> Duration {
        self.jobs.look_every()
    }
}
