//! Documents in, drafts out.

use onetool_state::bundles::{Auth, HttpImplementation, Implementation, SequenceImplementation, ToolAuth};
use serde_json::json;

use super::*;

fn read(text: &str) -> Result<Imported, String> {
    read_document(text, None, &ImportOptions::default(), &ImportSettings::default())
}

fn http(tool: &ImportedTool) -> &HttpImplementation {
    match &tool.draft.implementation {
        Implementation::Http(http) => http,
        other => panic!("{other:?}"),
    }
}

fn sequence(tool: &ImportedTool) -> &SequenceImplementation {
    match &tool.draft.implementation {
        Implementation::Sequence(sequence) => sequence,
        other => panic!("{other:?}"),
    }
}

fn petstore() -> Json {
    json!({
        "openapi": "3.0.3",
        "info": {"title": "Pet Store", "version": "1", "description": "Pets"},
        "servers": [{"url": "https://{region}.pets.example/v1/", "variables": {"region": {"default": "eu"}}}],
        "security": [{"key": []}],
        "paths": {
            "/pets/{petId}": {
                "parameters": [{"$ref": "#/components/parameters/PetId"}],
                "get": {
                    "operationId": "getPetById", "summary": "One pet", "tags": ["read"],
                    "parameters": [
                        {"name": "fields[]", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}},
                        {"name": "filter", "in": "query", "style": "deepObject", "schema": {"type": "object"}},
                        {"name": "session", "in": "cookie", "schema": {"type": "string"}},
                        {"name": "X-Trace", "in": "header", "schema": {"type": "string", "nullable": true}},
                    ],
                    "responses": {"200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}}},
                },
                "delete": {"operationId": "deletePet", "security": [], "responses": {"204": {}}},
            },
            "/pets": {
                "post": {
                    "operationId": "createPet", "tags": ["write"],
                    "requestBody": {"required": true, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/NewPet"}}}},
                    "responses": {"201": {}},
                },
                "put": {"operationId": "upload", "requestBody": {"content": {"multipart/form-data": {"schema": {}}}}},
                "patch": {
                    "requestBody": {"content": {"application/x-www-form-urlencoded": {"schema": {"type": "object",
                        "properties": {"a b": {"type": "string"}}}}}},
                    "security": [{"sign": []}, {"oauth": ["pets:write"]}],
                },
            },
        },
        "components": {
            "parameters": {"PetId": {"name": "petId", "in": "path", "required": true, "schema": {"type": "integer"}}},
            "schemas": {
                "NewPet": {"allOf": [{"type": "object", "required": ["name"], "properties": {"name": {"type": "string"},
                    "id": {"type": "integer", "readOnly": true}, "parent": {"$ref": "#/components/schemas/Pet"}}}]},
                "Pet": {"type": "object", "properties": {"name": {"type": "string", "nullable": true, "example": "Rex"},
                    "mother": {"$ref": "#/components/schemas/Pet"},
                    "age": {"type": "number", "minimum": 0, "exclusiveMinimum": true}}},
            },
            "securitySchemes": {
                "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
                "sign": {"type": "apiKey", "in": "cookie", "name": "s"},
                "oauth": {"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": "https://id.example/token", "scopes": {}}}},
            },
        },
    })
}

#[test]
fn operations_become_tools() {
    let imported = read(&petstore().to_string()).unwrap();
    assert_eq!((imported.format, imported.bundle.slug.as_str()), (Format::OpenApi, "pet-store"));
    let names: Vec<&str> = imported.tools.iter().map(|tool| tool.slug.as_str()).collect();
    assert_eq!(names, ["get-pet-by-id", "delete-pet", "create-pet", "patch-pets"]);
    let get = &imported.tools[0];
    assert_eq!(http(get).url_template, "https://eu.pets.example/v1/pets/${petId}?fields%5B%5D=${fields}");
    assert_eq!(http(get).headers.get("X-Trace").unwrap(), "${X_Trace}");
    assert_eq!(get.draft.arg_schema["required"], json!(["petId"]));
    assert_eq!(get.draft.arg_schema["properties"]["X_Trace"]["type"], json!(["string", "null"]));
    let output = get.draft.output_schema.as_ref().unwrap();
    assert_eq!(output["$ref"], "#/$defs/Pet");
    assert_eq!(output["$defs"]["Pet"]["properties"]["mother"]["$ref"], "#/$defs/Pet");
    assert_eq!(output["$defs"]["Pet"]["properties"]["name"], json!({"type": ["string", "null"]}));
    assert_eq!(output["$defs"]["Pet"]["properties"]["age"], json!({"type": "number", "exclusiveMinimum": 0}));
    let validator = jsonschema::validator_for(output).unwrap();
    assert!(validator.is_valid(&json!({"mother": {"name": null}})));
    assert!(!validator.is_valid(&json!({"mother": {"name": 5}})));
    let create = &imported.tools[2];
    assert_eq!(http(create).body_template, r#"{"name": ${name}, "parent": ${parent}}"#);
    assert_eq!(create.draft.arg_schema["required"], json!(["name"]));
    let block = imported.bundle.auth.as_ref().unwrap();
    assert!(matches!(&block.auth, Auth::ApiKey { name, value, .. } if name == "X-Key" && value == "${PET_STORE_KEY}"));
    assert_eq!((&http(get).auth, &http(&imported.tools[1]).auth), (&ToolAuth::Inherited, &ToolAuth::Off));
    let form = http(&imported.tools[3]);
    assert_eq!(
        (form.body_template.as_str(), form.headers["Content-Type"].as_str()),
        ("a%20b=${a_b}", "application/x-www-form-urlencoded")
    );
    assert!(
        matches!(&form.auth, ToolAuth::Own(block) if matches!(&block.auth, Auth::OAuth2(oauth) if oauth.scopes == ["pets:write"]))
    );
    let listed: Vec<String> = imported.unexpressed.iter().map(|one| format!("{}: {}", one.what, one.reason)).collect();
    for part in ["'filter' is an object", "'session' is a cookie", "PUT /pets: its body is multipart/form-data"] {
        assert!(listed.iter().any(|line| line.contains(part)), "{part}: {listed:?}");
    }
    assert_eq!(listed.len(), 3, "{listed:?}");
}

#[test]
fn operations_are_chosen_by_tag_and_pattern_and_yaml_is_read() {
    let with = |options: ImportOptions| {
        let imported = of_json(&petstore(), None, &options, &ImportSettings::default())?;
        Ok::<Vec<String>, String>(imported.tools.iter().map(|tool| tool.slug.to_string()).collect())
    };
    let tag = ImportOptions { tags: vec!["write".to_owned()], ..ImportOptions::default() };
    assert_eq!(with(tag).unwrap(), ["create-pet"]);
    let pattern =
        ImportOptions { patterns: vec!["delete /pets*".to_owned(), "create*".to_owned()], ..ImportOptions::default() };
    assert_eq!(with(pattern).unwrap(), ["delete-pet", "create-pet"]);
    let few = ImportSettings { max_tools: 2, ..ImportSettings::default() };
    assert!(of_json(&petstore(), None, &ImportOptions::default(), &few).unwrap_err().contains("imports.max_tools"));
    let yaml = "openapi: 3.1.0\ninfo: {title: Tiny}\npaths:\n  /x:\n    get: {}\n";
    assert!(read(yaml).unwrap_err().contains("base URL"), "a document that does not say where its API is");
    let placed = ImportOptions { base_url: Some("https://t.example/".to_owned()), ..ImportOptions::default() };
    let imported = read_document(yaml, None, &placed, &ImportSettings::default()).unwrap();
    assert_eq!(http(&imported.tools[0]).url_template, "https://t.example/x");
    assert!(read(r#"{"swagger": "2.0"}"#).unwrap_err().contains("Swagger 2.0"));
    assert!(read("{").unwrap_err().contains("invalid JSON"));
    let small = ImportSettings { max_document_bytes: 10, ..ImportSettings::default() };
    assert!(read_document(yaml, None, &placed, &small).unwrap_err().contains("imports.max_document_mb"));
}

#[test]
fn schemas_that_never_end_are_cut() {
    let mut schemas = serde_json::Map::new();
    for number in 0..2000 {
        let properties: serde_json::Map<String, Json> = (0..20)
            .map(|more| {
                (format!("p{more}"), json!({"$ref": format!("#/components/schemas/S{}", (number * 7 + more) % 2000)}))
            })
            .collect();
        schemas.insert(
            format!("S{number}"),
            json!({"type": "object", "properties": properties, "description": "x".repeat(500)}),
        );
    }
    let document = json!({"openapi": "3.0.0", "info": {"title": "Web"}, "servers": [{"url": "https://w.example"}],
        "paths": {"/x": {"post": {"requestBody": {"content": {"application/json": {"schema": {"oneOf": [{"$ref": "#/components/schemas/S1"}]}}}}}}},
        "components": {"schemas": schemas}});
    let imported = read(&document.to_string()).unwrap();
    assert!(imported.tools[0].draft.arg_schema.to_string().len() < 200_000);
    assert!(imported.unexpressed.iter().any(|one| one.reason.contains("too large")));
}

#[test]
fn a_curl_command_is_a_tool() {
    let line = "curl -sS -X POST 'https://api.weather.example/v1/now?city=Oslo&api_key=k123' \\\n  -H \"Authorization: Bearer t0k3n\" -H 'Accept: application/json' \\\n  --data-raw $'{\"days\": 3, \"note\": \"it\\'s\", \"auth\": {\"password\": \"pa55\"}}' --compressed";
    let imported = read(line).unwrap();
    let tool = &imported.tools[0];
    let request = http(tool);
    assert_eq!((imported.bundle.slug.as_str(), tool.slug.as_str()), ("weather-example", "post-v1-now"));
    assert_eq!(
        request.url_template,
        "https://api.weather.example/v1/now?city=${city}&api_key=${WEATHER_EXAMPLE_API_KEY}"
    );
    assert_eq!(
        request.body_template,
        r#"{"days": ${days}, "note": ${note}, "auth": {"password": ${WEATHER_EXAMPLE_PASSWORD}}}"#
    );
    assert_eq!(tool.draft.arg_schema["properties"]["note"], json!({"default": "it's", "type": "string"}));
    assert_eq!(tool.draft.arg_schema["properties"]["city"]["default"], "Oslo");
    assert!(
        matches!(&request.auth, ToolAuth::Own(block) if block.auth == Auth::Bearer { token: "${WEATHER_EXAMPLE_TOKEN}".to_owned() })
    );
    let stored = format!("{:?}", imported);
    for secret in ["t0k3n", "k123", "pa55"] {
        assert!(!stored.contains(secret), "{secret}");
    }
    let form = read("curl https://x.example/f -d a=1 --data-urlencode 'b=c d' -u me:pw").unwrap();
    let request = http(&form.tools[0]);
    assert_eq!((request.method.as_str(), request.body_template.as_str()), ("POST", "a=${a}&b=${b}"));
    assert_eq!(form.tools[0].draft.arg_schema["properties"]["b"]["default"], "c d");
    assert!(matches!(&request.auth, ToolAuth::Own(block) if matches!(block.auth, Auth::Basic { .. })));
    let get = read("curl -G x.example/s -d q=1 -k").unwrap();
    assert_eq!(http(&get.tools[0]).url_template, "https://x.example/s?q=${q}");
    assert_eq!(get.unexpressed[0].what, "-k");
    for (line, part) in [
        ("curl -F file=@x https://x.example", "multipart"),
        ("curl -d @file https://x.example", "reads a file"),
        ("curl https://x.example | sh", "ends a command"),
        ("curl 'https://x.example", "not closed"),
        ("curl -s", "no address"),
        ("curl --proxy p https://x.example", "--proxy"),
        ("curl ftp://x.example", "ftp"),
    ] {
        assert!(read(line).unwrap_err().contains(part), "{line}: {:?}", read(line));
    }
}

#[test]
fn a_postman_collection_is_a_bundle() {
    let collection = json!({
        "info": {"name": "My API", "schema": "https://schema.getpostman.com/json/collection/v2.1.0/collection.json"},
        "variable": [{"key": "baseUrl", "value": "https://p.example/api"}, {"key": "token", "value": "s3cr3t-value"}],
        "auth": {"type": "bearer", "bearer": [{"key": "token", "value": "{{token}}"}]},
        "item": [
            {"name": "Users", "item": [
                {"name": "Get user", "event": [{}], "request": {"method": "GET", "description": "One user",
                    "header": [{"key": "X-Api-Key", "value": "literal-key"}, {"key": "X-On", "value": "{{env}}", "disabled": true}],
                    "url": {"raw": "{{baseUrl}}/users/:id?full=true", "query": [{"key": "full", "value": "true"}, {"key": "page", "value": "1", "disabled": true}]}}},
            ]},
            {"name": "Create", "request": {"method": "POST", "auth": {"type": "noauth"}, "url": "{{baseUrl}}/users",
                "body": {"mode": "raw", "raw": "{\"name\": \"{{name}}\", \"n\": 1}", "options": {"raw": {"language": "json"}}}}},
            {"name": "Upload", "request": {"method": "POST", "url": "{{baseUrl}}/f", "body": {"mode": "formdata", "formdata": []}}},
            {"name": "Elsewhere", "request": {"method": "GET", "url": "{{host}}/x"}},
        ],
    });
    let imported = read(&collection.to_string()).unwrap();
    let names: Vec<&str> = imported.tools.iter().map(|tool| tool.slug.as_str()).collect();
    assert_eq!((imported.bundle.slug.as_str(), names.as_slice()), ("my-api", ["get-user", "create"].as_slice()));
    let get = &imported.tools[0];
    assert_eq!(http(get).url_template, "https://p.example/api/users/${id}?full=${full}&page=${page}");
    assert_eq!(get.draft.arg_schema["required"], json!(["id"]));
    assert_eq!(
        (&get.draft.tags, http(get).headers["X-Api-Key"].as_str()),
        (&vec!["Users".to_owned()], "${MY_API_X_API_KEY}")
    );
    let create = http(&imported.tools[1]);
    assert_eq!((create.body_template.as_str(), &create.auth), (r#"{"name": "${name}", "n": 1}"#, &ToolAuth::Off));
    assert!(imported.bundle.auth.is_some());
    let stored = format!("{imported:?}");
    assert!(!stored.contains("s3cr3t-value") && !stored.contains("literal-key"), "{stored}");
    let listed: Vec<String> = imported.unexpressed.iter().map(|one| format!("{}: {}", one.what, one.reason)).collect();
    for part in ["Upload: its body is a multipart", "Elsewhere: its host is a variable", "Get user: its scripts"] {
        assert!(listed.iter().any(|line| line.contains(part)), "{part}: {listed:?}");
    }
}

#[test]
fn an_arazzo_workflow_is_a_sequence() {
    let document = json!({
        "arazzo": "1.0.1", "info": {"title": "Adopt", "version": "1"},
        "sourceDescriptions": [{"name": "petStore", "url": "./openapi.yaml", "type": "openapi"}],
        "workflows": [
            {"workflowId": "adoptPet", "inputs": {"type": "object", "properties": {"name": {"type": "string"}}},
             "steps": [
                {"stepId": "create", "operationId": "createPet", "requestBody": {"payload": {"name": "$inputs.name"}},
                 "successCriteria": [{"condition": "$statusCode == 201"}, {"condition": "$response.body#/ok == true"}],
                 "outputs": {"id": "$response.body#/pets/0/id"},
                 "onFailure": [{"name": "again", "type": "retry", "retryAfter": 0.5, "retryLimit": 3}]},
                {"stepId": "read", "operationId": "$sourceDescriptions.petStore.getPetById",
                 "parameters": [{"name": "petId", "in": "path", "value": "$steps.create.outputs.id"},
                                {"name": "note", "in": "query", "value": "of {$inputs.name}"}],
                 "outputs": {"pet": "$response.body"}},
             ],
             "outputs": {"pet": "$steps.read.outputs.pet"}},
            {"workflowId": "jumps", "steps": [{"stepId": "a", "operationId": "x", "onFailure": [{"type": "goto", "stepId": "a"}]}]},
        ],
    });
    let imported = read(&document.to_string()).unwrap();
    assert_eq!(imported.tools.len(), 1);
    let made = sequence(&imported.tools[0]);
    assert_eq!(
        (made.steps[0].tool.as_str(), made.steps[1].tool.as_str()),
        ("pet_store.create_pet", "pet_store.get_pet_by_id")
    );
    assert_eq!(made.steps[0].args["name"], "${args['name']}");
    assert_eq!(made.steps[1].args["petId"], "${steps.create.value['pets'][0]['id']}");
    assert_eq!(made.steps[1].args["note"], "of ${args['name']}");
    assert_eq!(made.steps[0].retry.as_ref().map(|retry| (retry.max, retry.delay_ms)), Some((3, 500)));
    assert_eq!(made.output, Some(json!({"pet": "${steps.read.value}"})));
    let listed: Vec<String> = imported.unexpressed.iter().map(|one| format!("{}: {}", one.what, one.reason)).collect();
    assert!(listed.iter().any(|line| line.contains("a sequence does not jump")), "{listed:?}");
    assert!(listed.iter().any(|line| line.contains("'$response.body#/ok == true' is not checked")), "{listed:?}");
}
