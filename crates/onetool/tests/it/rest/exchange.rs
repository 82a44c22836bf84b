//! Import and export of bundles: archives, and documents of other tools.

use reqwest::Method;
use serde_json::{Value as Json, json};

use super::{Fixture, slugs, tool_path};
use crate::client::{BINARY, reply};

async fn exported(f: &Fixture, bundle: &str) -> Vec<u8> {
    let response = f.server.request(Method::GET, &format!("{bundle}/export")).send().await.unwrap();
    assert_eq!(response.status().as_u16(), 200);
    assert_eq!(response.headers()["content-type"], "application/zip");
    response.bytes().await.unwrap().to_vec()
}

async fn import(f: &Fixture, query: &str, bytes: Vec<u8>) -> (u16, Json) {
    let request = f.server.request(Method::POST, &format!("/tools/bundles/import{query}"));
    reply(request.header("content-type", "application/zip").body(bytes)).await
}

#[tokio::test]
async fn an_archive_goes_out_and_comes_in_again() {
    let f = Fixture::start().await;
    let bundle = f.bundle("weather").await;
    f.tool(&bundle, "now", "v1", f.get("/now?k=${API_KEY}")).await;
    let sequence = json!({"type": "sequence", "impl": {"steps": [{"id": "a", "tool": "weather.now"}]}});
    f.tool(&bundle, "both", "v1", sequence).await;
    let bytes = exported(&f, &bundle).await;
    assert_eq!(exported(&f, "/tools/bundles/weather").await, bytes);
    let (status, refused) = import(&f, "", bytes.clone()).await;
    assert_eq!((status, &refused["error"]["code"]), (409, &json!("conflict")), "{refused}");
    let (status, skipped) = import(&f, "?onConflict=skip", bytes.clone()).await;
    assert_eq!((status, &skipped["tools"][0]["outcome"]), (200, &json!("skipped")), "{skipped}");
    let (status, same) = import(&f, "?onConflict=new-version", bytes.clone()).await;
    assert_eq!(
        (status, &same["tools"][0]["outcome"]),
        (200, &json!("skipped")),
        "the same again is nothing new: {same}"
    );

    let now = tool_path(&bundle, "now", "v1");
    assert_eq!(f.server.delete(&now).await.0, 204);
    f.tool(&bundle, "now", "v1", f.get("/changed")).await;
    let (status, newer) = import(&f, "?onConflict=new-version", bytes.clone()).await;
    assert_eq!(status, 201, "{newer}");
    let (_, page) = f.server.get("/tools/tools?bundleIDs=weather").await;
    let versions: Vec<String> =
        page["tools"].as_array().unwrap().iter().map(|tool| format!("{} {}", tool["slug"], tool["version"])).collect();
    assert!(versions.contains(&"\"now\" \"v2\"".to_owned()), "{versions:?}");

    let (status, copied) = import(&f, "?slug=copy", bytes.clone()).await;
    assert_eq!(
        (status, &copied["bundle"]["slug"], &copied["bundle"]["toolCount"]),
        (201, &json!("copy"), &json!(2)),
        "{copied}"
    );
    assert_eq!(f.invoke("/tools/bundles/copy/tools/now/version/v1", json!({})).await.0, 200);
    let (status, shown) = import(&f, "?slug=third&dryRun=true", bytes.clone()).await;
    assert_eq!((status, shown.get("bundle")), (200, None), "{shown}");
    assert_eq!(f.server.get("/tools/bundles/third").await.0, 404);
    assert_eq!(import(&f, "", b"PK nonsense".to_vec()).await.0, 400);
    assert_eq!(import(&f, "?onConflict=maybe", bytes).await.0, 400);
}

/// Writes files into an archive, with their checksums.
const REWRITE: &str = r#"
import hashlib, io, json, sys, zipfile
changes = json.loads(sys.argv[2])
with zipfile.ZipFile(sys.argv[1]) as archive:
    files = {name: json.loads(archive.read(name)) for name in archive.namelist() if name != "manifest.json"}
for name, change in changes.items():
    name = next(known for known in files if known.startswith(name))
    files[name].update(change)
files = {name: json.dumps(content).encode() for name, content in files.items()}
sums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
files["manifest.json"] = json.dumps({"format": "onetool-bundle", "version": 1, "files": sums}).encode()
with zipfile.ZipFile(sys.argv[1], "w") as archive:
    for name, content in files.items():
        archive.writestr(name, content)
"#;

#[tokio::test]
async fn an_archive_is_read_as_strictly_as_a_body() {
    let f = Fixture::start().await;
    let bundle = f.bundle("weather").await;
    f.tool(&bundle, "now", "v1", f.get("/now")).await;
    let bytes = exported(&f, &bundle).await;
    let path = f.project.path().join("changed.zip");
    let rewritten = async |changes: Json| {
        std::fs::write(&path, &bytes).unwrap();
        let mut program = f.project.program("python3", &["-c", REWRITE, "changed.zip", &changes.to_string()]);
        assert!(program.status().await.unwrap().success());
        std::fs::read(&path).unwrap()
    };
    assert_eq!(import(&f, "?slug=same", rewritten(json!({})).await).await.0, 201);
    let url = format!("{}/now", f.upstream.base);
    let with_auth = |auth: Json| json!({"type": "http", "impl": {"urlTemplate": url, "auth": auth}});
    let typo = json!({"type": "bearer", "token": "${API_KEY}", "tokken": "x"});
    let deep = json!({"type": "bearer", "token": "${API_KEY}", "test": {"url": url, "expects": [200]}});
    for (file, body, pointer) in [
        ("bundle.json", json!({"slug": "weather", "auth": typo}), "/auth"),
        ("bundle.json", json!({"slug": "weather", "auth": deep}), "/auth"),
        ("bundle.json", json!({"slug": "weather", "descripton": "x"}), "/descripton"),
        ("tools/", with_auth(typo.clone()), "/impl/auth"),
        ("tools/", json!({"type": "http", "impl": {"urlTemplate": url, "timeout": 5}}), "/impl/timeout"),
    ] {
        let place = if file == "tools/" { tool_path(&bundle, "now", "v2") } else { bundle.clone() };
        let (status, put) = f.server.put(&place, body.clone()).await;
        assert_eq!(status, 400, "{put}");
        let (status, refused) = import(&f, "?slug=other", rewritten(json!({file: body})).await).await;
        let expected = (400, &put["error"]["pointer"]);
        assert_eq!((status, &refused["error"]["pointer"]), expected, "{refused}");
        assert!(put["error"]["pointer"].as_str().unwrap().starts_with(pointer), "{put}");
        let message = refused["error"]["message"].as_str().unwrap();
        assert!(message.starts_with(file) && message.ends_with(put["error"]["message"].as_str().unwrap()), "{refused}");
    }
    assert_eq!(f.server.get("/tools/bundles/other").await.0, 404, "nothing is stored");
}

#[tokio::test]
async fn an_import_is_stored_whole_or_not_at_all() {
    let f = Fixture::start().await;
    let operation = |host: &str| json!({"servers": [{"url": host}], "responses": {}});
    let document = json!({"openapi": "3.1.0", "info": {"title": "Two hosts"}, "paths": {
        "/a": {"get": operation(&f.upstream.base)}, "/b": {"get": operation("https://elsewhere.example")}}});
    let (status, refused) = f.server.post("/tools/bundles/import", json!({"document": document})).await;
    assert_eq!(status, 400, "{refused}");
    assert!(refused["error"]["message"].as_str().unwrap().contains("elsewhere.example is not allowed"), "{refused}");
    assert_eq!(f.server.get("/tools/bundles/two-hosts").await.0, 404);
    let files = std::fs::read_dir(f.project.path().join(".onetool/bundles"))
        .map_or(0, |entries| entries.flatten().filter(|entry| entry.path().is_dir()).count());
    assert_eq!(files, 0, "nothing is left behind");
    let (status, some) =
        f.server.post("/tools/bundles/import", json!({"document": document, "patterns": ["* /a"]})).await;
    assert_eq!(
        (status, &some["tools"]),
        (201, &json!([{"slug": "get-a", "version": "v1", "outcome": "created"}])),
        "{some}"
    );
}

#[tokio::test]
async fn operations_are_functions_at_once_and_secrets_are_named() {
    let f = Fixture::start().await;
    let document = json!({"openapi": "3.0.0", "info": {"title": "Pets"}, "servers": [{"url": f.upstream.base}],
        "components": {"securitySchemes": {"k": {"type": "apiKey", "in": "header", "name": "x-key"}}}, "security": [{"k": []}],
        "paths": {"/pets/{id}": {"get": {"operationId": "getPet", "parameters": [{"name": "id", "in": "path", "schema": {"type": "integer"}}]}}}});
    let (status, made) = f.server.post("/tools/bundles/import", json!({"document": document.to_string()})).await;
    assert_eq!((status, &made["missingSecrets"]), (201, &json!(["PETS_API_KEY"])), "{made}");
    let shown = f
        .server
        .post("/tools/bundles/pets/tools/get-pet/version/v1/invoke?dryRun=true", json!({"args": {"id": 7}}))
        .await;
    assert_eq!(shown.1["request"]["url"], format!("{}/pets/7", f.upstream.base), "{}", shown.1);
    let curl = format!("curl {}/echo?city=Oslo -H 'x-key: {}'", f.upstream.base, "v3ry-s3cret");
    let (status, made) = f.server.post("/tools/bundles/import", json!({"curl": curl, "slug": "echo"})).await;
    assert_eq!((status, &made["missingSecrets"]), (201, &json!(["ECHO_X_KEY"])), "{made}");
    let stored = std::process::Command::new("grep")
        .args(["-r", "v3ry-s3cret", f.project.path().to_str().unwrap()])
        .output()
        .unwrap();
    assert!(stored.stdout.is_empty(), "{}", String::from_utf8_lossy(&stored.stdout));
    let (status, refused) =
        f.server.post("/tools/bundles/import", json!({"url": "https://elsewhere.example/openapi.json"})).await;
    assert_eq!((status, &refused["error"]["code"]), (403, &json!("denied")), "{refused}");
    for body in [
        json!({}),
        json!({"curl": "curl x", "url": "y"}),
        json!({"document": {}}),
        json!({"document": "x", "format": "raml"}),
    ] {
        assert_eq!(f.server.post("/tools/bundles/import", body.clone()).await.0, 400, "{body}");
    }
}

/// As many operations and bytes as the largest public documents.
fn large_document(base: &str) -> String {
    let mut paths = serde_json::Map::new();
    let mut schemas = serde_json::Map::new();
    for number in 0..1200 {
        let parameters: Vec<Json> = (0..6)
            .map(|at| {
                json!({"name": format!("p{at}"), "in": "query", "description": "x".repeat(200),
                "schema": {"type": "string", "enum": ["one", "two", "three"]}})
            })
            .collect();
        let operation = json!({"operationId": format!("group{}/operation-{number}", number % 40), "tags": [format!("group{}", number % 40)],
            "summary": "Does something", "description": "y".repeat(800), "parameters": parameters,
            "responses": {"200": {"content": {"application/json": {"schema": {"$ref": format!("#/components/schemas/s{}", number % 600)}}}}}});
        let body = json!({"type": "object", "properties": {"one": {"$ref": format!("#/components/schemas/s{}", number * 7 % 600)},
            "many": {"type": "array", "items": {"$ref": format!("#/components/schemas/s{}", number * 11 % 600)}}}});
        let mut change = operation.clone();
        change["operationId"] = json!(format!("group{}/change-{number}", number % 40));
        change["requestBody"] = json!({"required": true, "content": {"application/json": {"schema": body}}});
        paths.insert(
            format!("/group{}/things{number}/{{id}}", number % 40),
            json!({"get": operation, "post": change,
            "parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "string"}}]}),
        );
    }
    for number in 0..600 {
        let mut properties: serde_json::Map<String, Json> = (0..15)
            .map(|at| {
                (
                    format!("field_{at}"),
                    json!({"type": "string", "description": "z".repeat(60), "example": "w".repeat(40)}),
                )
            })
            .collect();
        // Everything refers to everything, and to itself.
        for (name, step) in [("itself", 0), ("next", 1), ("far", 97), ("other", 211)] {
            properties
                .insert(name.to_owned(), json!({"$ref": format!("#/components/schemas/s{}", (number + step) % 600)}));
        }
        schemas.insert(format!("s{number}"), json!({"type": "object", "properties": properties}));
    }
    json!({"openapi": "3.0.3", "info": {"title": "Large"}, "servers": [{"url": base}], "paths": paths,
        "components": {"schemas": schemas}})
    .to_string()
}

#[tokio::test]
async fn a_document_of_five_megabytes_is_imported_by_the_command_line() {
    let f = Fixture::start().await;
    let text = large_document(&f.upstream.base);
    assert!(text.len() > 5_000_000, "{}", text.len());
    f.project.write("large.json", &text);
    // Measured as a grandchild, whose peak memory can be queried.
    let measured = "import resource, subprocess, sys; done = subprocess.run(sys.argv[1:]); \
        print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr); sys.exit(done.returncode)";
    let mut command =
        f.project.program("python3", &["-c", measured, BINARY, "bundles", "import", "large.json", "--json"]);
    let output = command.output().await.unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let reply: Json = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{told}"));
    assert_eq!((reply["tools"].as_array().unwrap().len(), &reply["ok"]), (2400, &json!(true)));
    let (_, page) = f.server.get("/tools/search?q=operation-1199").await;
    assert_eq!(slugs(&page)[0], "group39-operation-1199");
    let kilobytes: u64 = told.lines().last().unwrap().trim().parse().unwrap();
    assert!(kilobytes < 300 << 10, "{kilobytes} kB");
}
