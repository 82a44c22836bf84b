//! The format of values between processes, by the examples in `cases/wire/vectors.json`: every side reads and writes
//! the same.

use std::path::Path;
use std::process::Command;

use onetool_sdk::Value;
use serde_json::Value as Json;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

#[test]
fn every_example_crosses_without_loss() {
    let text = std::fs::read_to_string(Path::new(ROOT).join("cases/wire/vectors.json")).unwrap();
    let vectors: Vec<Json> = serde_json::from_str(&text).unwrap();
    assert!(vectors.len() > 40);
    for vector in vectors {
        let wire = &vector["wire"];
        let value = Value::from_wire(wire.clone()).unwrap_or_else(|error| panic!("{vector}: {error}"));
        assert_eq!(&value.to_wire(), wire, "{}", vector["python"]);
    }
}

#[test]
fn both_python_sides_write_and_read_the_examples() {
    let output = Command::new("python3")
        .current_dir(ROOT)
        .args(["-I", "cases/wire/check.py", "crates/onetool-worker/src/wire.py"])
        .arg("crates/onetool-sandbox/src/cpython/wire.py")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}
