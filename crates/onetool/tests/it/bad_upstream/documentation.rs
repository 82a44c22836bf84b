//! The examples of `docs/bundles.md`, each stored and called as written.

use serde_json::{Value as Json, json};

use super::Bench;

/// `<!-- bundle NAME -->`, `<!-- tool BUNDLE SLUG -->` or `<!-- value BUNDLE SLUG -->`, and the JSON that follows.
fn examples(text: &str) -> Vec<(Vec<String>, Json)> {
    let mut found = Vec::new();
    for part in text.split("<!-- ").skip(1) {
        let (words, rest) = part.split_once(" -->").unwrap();
        let Some(code) = rest.trim_start().strip_prefix("```json\n").and_then(|code| code.split("\n```").next()) else {
            continue;
        };
        let json = serde_json::from_str(code).unwrap_or_else(|error| panic!("{words}: {error}"));
        found.push((words.split(' ').map(str::to_owned).collect(), json));
    }
    found
}

#[tokio::test]
async fn every_example_of_the_page_works() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/bundles.md");
    let text = std::fs::read_to_string(page).unwrap();
    let bench = Bench::start().await;
    let text = text.replace("https://api.example.com", &bench.upstream.base);
    let text = text.replace("https://id.example.com", &bench.upstream.base);
    let id = |name: &str| {
        let number = name.bytes().fold(0_u64, |number, byte| (number * 31 + u64::from(byte)) & 0xffff_ffff);
        format!("018faf50-b7b6-7a01-9a05-a22a{number:08x}")
    };
    let mut values = 0;
    for (words, json) in examples(&text) {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["bundle", name] => {
                let (status, reply) = bench.server.put(&format!("/tools/bundles/{}", id(name)), json).await;
                assert_eq!(status, 201, "{name}: {reply}");
            }
            ["tool", bundle, slug] => {
                let path = format!("/tools/bundles/{}/tools/{slug}/version/v1", id(bundle));
                let (status, reply) = bench.server.put(&path, json).await;
                assert_eq!(status, 201, "{bundle} {slug}: {reply}");
            }
            ["value", bundle, slug] => {
                let path = format!("/tools/bundles/{}/tools/{slug}/version/v1/invoke", id(bundle));
                let (status, reply) = bench.server.post(&path, json!({"args": {}})).await;
                assert_eq!((status, &reply["value"]), (200, &json), "{bundle} {slug}: {reply}");
                values += 1;
            }
            _ => {}
        }
    }
    assert!(values >= 6, "only {values} examples were found");
}
