//! Flat files meet the contract of every backend.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use onetool_state::flat::{DocumentFolder, FlatFiles, FlatPlaces};
use onetool_state::interface::Collection;
use onetool_state::{State, contract};

const FOLDER: &str = "ONETOOL_CONTRACT_FOLDER";

fn open(folder: &Path) -> State {
    let places = FlatPlaces::new(folder)
        .with_bundles(&folder.join("bundles"))
        .with_documents(Collection::PINS, DocumentFolder::single(&folder.join("pins.json")));
    Arc::new(FlatFiles::new(places))
}

#[tokio::test]
async fn one_process() {
    let folder = tempfile::tempdir().unwrap();
    contract::check(&|| open(folder.path())).await;
}

/// Run as a child process by the test below.
#[tokio::test]
async fn child() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    assert!(contract::play(&|| open(Path::new(&folder))).await);
}

#[tokio::test]
async fn several_processes() {
    let folder = tempfile::tempdir().unwrap();
    let command = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "child", "--nocapture", "--test-threads=1"]).env(FOLDER, folder.path());
        command
    };
    contract::check_processes(&|| open(folder.path()), &command).await;
}
