//! Documents in, drafts out.

use onetool_state::bundles::{Auth, HttpImplementation, Implementation, SequenceImplementation, ToolAuth};
use serde_json::json;

use super::*;

fn read(text: &str) -> Result<Imported, String> {
    read_document(text, None, &ImportOptions::default(), &ImportSettings::default())
}

fn http(tool: &ImportedTool) -> &HttpImplementation {
    match tool.draft.implementation() {
        Implementation::Http(http) => http,
        other => panic!("{other:?}"),
    }
}

fn sequence(tool: &ImportedTool) -> &SequenceImplementation {
    match tool.draft.implementation() {
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
    assert_eq!(
        http(get).url_template,
        "https://eu.pets.example/v1/pets/${petId}?fields%5B%5D=${fields}&filter=${filter}"
    );
    assert_eq!(http(get).headers.get("X-Trace").unwrap(), "${X_Trace}");
    assert_eq!(get.draft.arg_schema()["required"], json!(["petId"]));
    assert_eq!(get.draft.arg_schema()["properties"]["X_Trace"]["type"], json!(["string", "null"]));
    let output = &get.draft.output_schema().unwrap();
    assert_eq!(output["$ref"], "#/$defs/Pet");
    assert_eq!(output["$defs"]["Pet"]["properties"]["mother"]["$ref"], "#/$defs/Pet");
    assert_eq!(output["$defs"]["Pet"]["properties"]["name"], json!({"type": ["string", "null"]}));
    assert_eq!(output["$defs"]["Pet"]["properties"]["age"], json!({"type": "number", "exclusiveMinimum": 0}));
    let validator = jsonschema::validator_for(output).unwrap();
    assert!(validator.is_valid(&json!({"mother": {"name": null}})));
    assert!(!validator.is_valid(&json!({"mother": {"name": 5}})));
    let create = &imported.tools[2];
    assert_eq!(http(create).body_template, r#"{"name": ${name}, "parent": ${parent}}"#);
    assert_eq!(create.draft.arg_schema()["required"], json!(["name"]));
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
    for part in ["'session' is a cookie", "PUT /pets: its body is multipart/form-data"] {
        assert!(listed.iter().any(|line| line.contains(part)), "{part}: {listed:?}");
    }
    assert_eq!(listed.len(), 2, "{listed:?}");
}

#[test]
fn yaml_may_be_as_large_as_json() {
    let values = "  - 1\n".repeat(300_000);
    let text = format!(
        "\u{feff}openapi: 3.0.3\ninfo: {{title: T}}\nservers: [{{url: 'https://a.example'}}]\n\
        paths: {{/a: {{get: {{}}}}}}\nx-values:\n{values}"
    );
    assert_eq!(read(&text).unwrap().tools.len(), 1);
    // Aliases that expand to a huge document are refused.
    let mut bomb = "openapi: 3.0.3\na0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]\n".to_owned();
    for level in 1..9 {
        let below = vec![format!("*a{}", level - 1); 9].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{below}]\n"));
    }
    let refused = read(&bomb).unwrap_err();
    assert!(refused.starts_with("invalid YAML: line "), "{refused}");
}

#[test]
fn what_is_not_an_operation_is_listed() {
    let document = json!({
        "openapi": "3.1.0", "info": {"title": "T"}, "servers": [{"url": "https://a.example"}],
        "paths": {
            "/a": {"get": 5, "post": {"responses": {"200": {"content": {"application/json": {"schema": {"$ref": "b.json#/B"}}}}}}},
            "/b": 7,
        },
    });
    let imported = read(&document.to_string()).unwrap();
    assert_eq!(imported.tools.iter().map(|tool| tool.slug.as_str()).collect::<Vec<_>>(), ["post-a"]);
    let listed: Vec<(&str, &str)> =
        imported.unexpressed.iter().map(|one| (one.what.as_str(), one.reason.as_str())).collect();
    let expected = [
        ("GET /a", "it is not an object"),
        ("/b", "it is not an object"),
        ("POST /a", "its response: 'b.json#/B' is not in the document"),
    ];
    assert_eq!(listed, expected);
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
    assert!(imported.tools[0].draft.arg_schema().to_string().len() < 200_000);
    assert!(imported.unexpressed.iter().any(|one| one.reason.contains("too large")));
}

#[test]
fn what_is_cut_takes_anything_and_what_is_near_stays() {
    let mut schemas = serde_json::Map::new();
    for number in 0..40 {
        let properties: serde_json::Map<String, Json> = (0..40)
            .map(|more| {
                (format!("p{more}"), json!({"type": "string", "description": format!("{number} {more}").repeat(20)}))
            })
            .chain([("next".to_owned(), json!({"$ref": format!("#/components/schemas/S{}", number + 1)}))])
            .collect();
        schemas.insert(format!("S{number}"), json!({"type": "object", "properties": properties}));
    }
    schemas.insert(
        "S40".to_owned(),
        json!({"oneOf": [{"$ref": "#/components/schemas/S0"}, {"$ref": "#/components/schemas/S1"}]}),
    );
    let document = json!({"openapi": "3.0.0", "info": {"title": "Deep"}, "servers": [{"url": "https://d.example"}],
        "paths": {"/x": {"post": {"requestBody": {"content": {"application/json": {"schema": {"type": "object", "properties": {
            "choice": {"oneOf": [{"$ref": "#/components/schemas/S0"}, {"$ref": "#/components/schemas/S20"}]},
            "last": {"type": "integer"}}}}}}}}},
        "components": {"schemas": schemas}});
    let imported = read(&document.to_string()).unwrap();
    let schema = imported.tools[0].draft.arg_schema();
    assert_eq!(schema["properties"]["last"]["type"], "integer", "what is near the root stays");
    let validator = jsonschema::validator_for(&schema).unwrap();
    assert!(validator.is_valid(&json!({"choice": {"p1": "x", "next": {"next": {"p3": "y"}}}, "last": 1})));
    assert!(!validator.is_valid(&json!({"choice": {"p1": 7}})));
}

#[test]
fn of_many_operations_each_has_less() {
    let schema = json!({"type": "object", "properties": (0..50).map(|n| (format!("p{n}"), json!({"type": "string", "description": "x".repeat(100)})))
        .collect::<serde_json::Map<_, _>>()});
    let paths: serde_json::Map<String, Json> = (0..4000)
        .map(|n| {
            let content = json!({"application/json": {"schema": {"type": "object", "properties": {"a": {"$ref": "#/components/schemas/S"}}}}});
            (format!("/x{n}"), json!({"post": {"requestBody": {"content": content}}}))
        })
        .collect();
    let document = json!({"openapi": "3.0.0", "info": {"title": "Many"}, "servers": [{"url": "https://m.example"}],
        "paths": paths, "components": {"schemas": {"S": schema}}});
    let imported = read(&document.to_string()).unwrap();
    assert_eq!(imported.tools.len(), 4000);
    let longest = imported.tools.iter().map(|tool| tool.draft.arg_schema().to_string().len()).max().unwrap();
    assert!(longest < 6000, "{longest}");
    let some = ImportOptions { patterns: vec!["* /x1".to_owned()], ..ImportOptions::default() };
    let imported = of_json(&document, None, &some, &ImportSettings::default()).unwrap();
    assert!(imported.unexpressed.is_empty() && imported.tools[0].draft.arg_schema().to_string().len() > 6000);
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
    assert_eq!(tool.draft.arg_schema()["properties"]["note"], json!({"default": "it's", "type": "string"}));
    assert_eq!(tool.draft.arg_schema()["properties"]["city"]["default"], "Oslo");
    assert!(
        matches!(&request.auth, ToolAuth::Own(block) if block.auth == Auth::Bearer { token: "${WEATHER_EXAMPLE_TOKEN}".to_owned() })
    );
    let stored = format!("{imported:?}");
    for secret in ["t0k3n", "k123", "pa55"] {
        assert!(!stored.contains(secret), "{secret}");
    }
    let form = read("curl https://x.example/f -d a=1 --data-urlencode 'b=c d' -u me:pw").unwrap();
    let request = http(&form.tools[0]);
    assert_eq!((request.method.as_str(), request.body_template.as_str()), ("POST", "a=${a}&b=${b}"));
    assert_eq!(form.tools[0].draft.arg_schema()["properties"]["b"]["default"], "c d");
    assert!(matches!(&request.auth, ToolAuth::Own(block) if matches!(block.auth, Auth::Basic { .. })));
    let get = read("curl -G x.example/s -d q=1 -k").unwrap();
    assert_eq!(http(&get.tools[0]).url_template, "https://x.example/s?q=${q}");
    assert_eq!(get.unexpressed[0].what, "-k");
    for (line, part) in [
        ("curl -F file=@x https://x.example", "multipart"),
        ("curl -d @file https://x.example", "reads a file"),
        ("curl https://x.example; id", "ends a command"),
        ("curl 'https://x.example", "not closed"),
        ("curl -s", "no address"),
        ("curl --proxy p https://x.example", "--proxy"),
        ("curl ftp://x.example", "ftp"),
        ("curl https://x.example -d a=1 -H 'Content-Type: multipart/form-data; boundary=x'", "multipart"),
        ("curl --digest -u a:b https://x.example", "--digest"),
        ("curl --cert c.pem https://x.example", "client certificates"),
        ("curl https://$HOST/x", "shell variable"),
        ("curl https://x.example https://y.example", "several addresses"),
        ("curl --frobnicate https://x.example", "--frobnicate"),
    ] {
        assert!(read(line).unwrap_err().contains(part), "{line}: {:?}", read(line));
    }
}

/// A command as copied from a browser.
#[test]
fn a_request_copied_from_a_browser_is_a_tool() {
    let line = "curl 'https://shop.example/api/cart?region=eu&ids=1&ids=2' \\\n  -X 'PUT' \\\n  -H 'accept: */*' \\\n  \
                -H 'accept-language: de,en;q=0.9' \\\n  -H 'content-type: application/json' \\\n  -H 'TE: trailers' \\\n  \
                -H ':authority: shop.example' \\\n  -b 'sid=s3ss10n; theme=dark' \\\n  -H 'sec-ch-ua: \"Chromium\";v=\"130\"' \\\n  \
                -H 'x-csrf-token: csrf-s3cret' \\\n  --data-raw $'{\"note\":\"it\\'s \\u0021\\uD83D\\uDE00\",\"count\":2}' \\\n  --compressed";
    let imported = read(line).unwrap();
    let request = http(&imported.tools[0]);
    assert_eq!(request.method, "PUT");
    assert_eq!(request.url_template, "https://shop.example/api/cart?region=${region}&ids=${ids}&ids=${ids_2}");
    assert_eq!(request.body_template, r#"{"note": ${note}, "count": ${count}}"#);
    let schema = imported.tools[0].draft.arg_schema();
    let properties = &schema["properties"];
    assert_eq!((&properties["note"]["default"], &properties["count"]["default"]), (&json!("it's !😀"), &json!(2)));
    assert_eq!(request.headers["Cookie"], "${SHOP_EXAMPLE_COOKIE}");
    assert_eq!(request.headers["x-csrf-token"], "${SHOP_EXAMPLE_X_CSRF_TOKEN}");
    assert_eq!(request.headers["sec-ch-ua"], "\"Chromium\";v=\"130\"");
    assert!(!request.headers.contains_key("TE") && imported.unexpressed.is_empty(), "{imported:?}");
    let stored = format!("{imported:?}");
    assert!(!stored.contains("s3ss10n") && !stored.contains("csrf-s3cret"), "{stored}");
}

/// Commands as documentation shows them.
#[test]
fn commands_of_documentation_are_tools() {
    let one = |line: &str| {
        let imported = read(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        let request = http(&imported.tools[0]).clone();
        (imported, request)
    };
    let (imported, request) = one(
        "$ curl https://api.ai.example/v1/chat -H \"Authorization: Bearer $AI_API_KEY\" -d '{\"model\": \"'$MODEL'\", \"n\": 1}' | jq .",
    );
    assert!(
        matches!(&request.auth, ToolAuth::Own(block) if block.auth == Auth::Bearer { token: "${AI_API_KEY}".to_owned() })
    );
    assert_eq!(request.body_template, r#"{"model": ${model}, "n": ${n}}"#);
    assert_eq!(imported.tools[0].draft.arg_schema()["required"], json!(["model"]));
    assert_eq!(imported.unexpressed[0].what, "| jq .");
    let (_, request) = one(
        "curl https://api.pay.example/v1/c -u \"sk_test_123:\" -d \"name=Jenny Rosen\" -d 'color=#fff' -d 'metadata[id]'=7",
    );
    assert_eq!(request.body_template, "name=${name}&color=${color}&metadata%5Bid%5D=${metadata_id}");
    let basic = Auth::Basic { username: "${PAY_EXAMPLE_USERNAME}".to_owned(), password: String::new() };
    assert!(matches!(&request.auth, ToolAuth::Own(block) if block.auth == basic), "{:?}", request.auth);
    let (imported, request) = one(
        "curl -sSfL --max-time 5 -G 'https://x.example/users/{userId}/$count' --url-query 'q=a b' --url-query '+raw=1' -d a=1",
    );
    assert_eq!(request.url_template, "https://x.example/users/${userId}/$count?q=${q}&raw=${raw}&a=${a}");
    assert_eq!(imported.tools[0].draft.arg_schema()["required"], json!(["userId"]));
    assert_eq!(imported.unexpressed[0].what, "--max-time");
    let (_, request) = one("curl --json '{\"a\":' --json '[1]}' https://x.example");
    assert_eq!((request.method.as_str(), request.body_template.as_str()), ("POST", r#"{"a": ${a}}"#));
    assert_eq!(
        (request.headers["Accept"].as_str(), request.headers["Content-Type"].as_str()),
        ("application/json", "application/json")
    );
    let (_, request) = one("curl https://t.example/bot$BOT_TOKEN/send -d text=hi");
    assert_eq!(request.url_template, "https://t.example/bot${BOT_TOKEN}/send");
    let (_, request) = one("curl https://me@x.example/ -H 'X-Empty;' -H 'Accept:'");
    assert!(matches!(&request.auth, ToolAuth::Own(block) if matches!(block.auth, Auth::Basic { .. })));
    assert!(request.headers.contains_key("X-Empty") && !request.headers.contains_key("Accept"));
    let (_, request) = one(
        "curl --aws-sigv4 aws:amz --user \"$AWS_KEY:$AWS_SECRET\" -H \"x-amz-security-token: $AWS_SESSION_TOKEN\" https://sqs.eu-west-1.amazonaws.com/",
    );
    let ToolAuth::Own(block) = &request.auth else { panic!() };
    let Auth::SigV4(sigv4) = &block.auth else { panic!() };
    assert_eq!((sigv4.region.as_str(), sigv4.service.as_str()), ("eu-west-1", "sqs"));
    assert_eq!(
        (sigv4.access_key_id.as_str(), sigv4.session_token.as_deref()),
        ("${AWS_KEY}", Some("${AWS_SESSION_TOKEN}"))
    );
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
    assert_eq!(get.draft.arg_schema()["required"], json!(["id"]));
    assert_eq!(
        (get.draft.tags(), http(get).headers["X-Api-Key"].as_str()),
        (["Users".to_owned()].as_slice(), "${MY_API_X_API_KEY}")
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

fn openapi(operation: Json) -> Json {
    json!({
        "openapi": "3.1.0", "info": {"title": "Odd"}, "servers": [{"url": "https://odd.example"}],
        "paths": {"/x/{id}": {"post": operation}},
        "components": {
            "schemas": {
                "Account": {"type": "object", "required": ["id", "password"], "properties": {
                    "id": {"type": "integer", "readOnly": true}, "password": {"type": "string", "writeOnly": true}}},
            },
            "securitySchemes": {
                "key": {"type": "apiKey", "in": "query", "name": "key"},
                "token": {"type": "apiKey", "in": "query", "name": "to ken"},
            },
        },
    })
}

fn listed(imported: &Imported) -> String {
    imported.unexpressed.iter().map(|one| format!("{}: {}\n", one.what, one.reason)).collect()
}

#[test]
fn lists_and_objects_in_a_query_are_written_as_their_style_says() {
    let list = json!({"type": "array", "items": {"type": "string"}});
    let parameter = |name: &str, place: &str, more: Json| {
        let mut made = json!({"name": name, "in": place, "schema": list});
        made.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        made
    };
    let imported = read(
        &openapi(json!({"operationId": "x", "parameters": [
            parameter("plain", "query", json!({})),
            parameter("commas", "query", json!({"explode": false, "description": "Fields"})),
            parameter("pipes", "query", json!({"style": "pipeDelimited", "required": true})),
            parameter("deep", "query", json!({"style": "deepObject"})),
            parameter("id", "path", json!({"required": true})),
            parameter("filter", "query", json!({"style": "deepObject", "schema": {"type": ["object", "null"]}})),
            parameter("Keep-Alive", "header", json!({})),
            parameter("spread", "query", json!({"schema": {"type": "object"}})),
        ]}))
        .to_string(),
    )
    .unwrap();
    let tool = &imported.tools[0];
    assert_eq!(
        http(tool).url_template,
        "https://odd.example/x/${id}?plain=${plain}&commas=${commas}&pipes=${pipes}&deep%5B%5D=${deep}&filter=${filter}"
    );
    let schema = tool.draft.arg_schema();
    let properties = &schema["properties"];
    assert_eq!(properties["commas"], json!({"type": "string", "description": "Fields (values separated by ',')"}));
    assert_eq!(properties["plain"]["type"], "array");
    let listed = listed(&imported);
    assert!(
        listed.contains("'Keep-Alive' is a header that is not a tool's") && listed.contains("'spread' is an object")
    );
}

#[test]
fn oddities_of_documents_are_understood_or_listed() {
    let mut document = openapi(json!({
        "operationId": "x", "deprecated": true, "summary": "Old", "security": [{"key": [], "token": []}],
        "requestBody": {"required": true, "content": {"application/json": {"schema": {"type": "object", "properties": {
            "account": {"$ref": "#/components/schemas/Account"},
            "other": {"$ref": "other.yaml#/Thing"},
            "maybe": {"$ref": "#/components/schemas/Account", "nullable": true, "description": "Or not"}}}}}},
        "responses": {"200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Account"}}}}},
        "callbacks": {"done": {}},
    }));
    document["paths"]["/users/$count"] = json!({"get": {"operationId": "count"}});
    document["paths"]["/elsewhere"] = json!({"$ref": "paths.yaml#/x"});
    document["servers"][0]["url"] = json!("//odd.example/v1");
    let imported = read(&document.to_string()).unwrap();
    let by_name = |slug: &str| imported.tools.iter().find(|tool| tool.slug.as_str() == slug).unwrap();
    let tool = by_name("x");
    assert_eq!(http(by_name("count")).url_template, "https://odd.example/v1/users/$count");
    assert_eq!(tool.draft.description(), "Deprecated. Old");
    // Read-only properties are not required in a request, nor write-only ones in a response.
    assert_eq!(tool.draft.arg_schema()["$defs"]["Account"]["required"], json!(["password"]));
    assert_eq!(tool.draft.output_schema().unwrap()["$defs"]["Account"]["required"], json!(["id"]));
    assert_eq!(
        tool.draft.arg_schema()["properties"]["maybe"],
        json!({"anyOf": [{"$ref": "#/$defs/Account"}, {"type": "null"}], "description": "Or not"})
    );
    // Two keys are needed at once: one in auth, one in the query.
    assert!(http(tool).url_template.ends_with("?to%20ken=${ODD_TOKEN}"), "{}", http(tool).url_template);
    let listed = listed(&imported);
    for part in
        ["/elsewhere: it refers to", "'other.yaml#/Thing' is not in the document", "callbacks are requests to you"]
    {
        assert!(listed.contains(part), "{part}: {listed}");
    }
}

#[test]
fn schemas_that_are_not_valid_take_anything() {
    let mut document = openapi(json!({"operationId": "x", "parameters": [
        {"name": "bad", "in": "query", "description": "Bad", "schema": {"type": "string", "pattern": "["}},
        {"name": "worse", "in": "query", "schema": {"type": "int"}},
        {"name": "good", "in": "query", "schema": {"type": "integer"}},
    ], "requestBody": {"content": {"application/json": {"schema": {"type": "object", "properties": {
        "account": {"$ref": "#/components/schemas/Account"}}}}}}}));
    document["components"]["schemas"]["Account"]["minProperties"] = json!("one");
    let mut draft = read(&document.to_string()).unwrap().tools.remove(0).draft.open();
    assert!(jsonschema::validator_for(&draft.arg_schema).is_err());
    let changed = repair::schemas(&mut draft);
    assert_eq!(changed.len(), 3, "{changed:?}");
    let validator = jsonschema::validator_for(&draft.arg_schema).unwrap();
    assert!(validator.is_valid(&json!({"id": "1", "bad": 1, "worse": "x", "good": 3, "account": 7})));
    assert!(!validator.is_valid(&json!({"id": "1", "good": "x"})));
    assert_eq!(draft.arg_schema["properties"]["bad"], json!({"description": "Bad"}));
}

#[test]
fn collections_have_folders_with_auth_and_secrets_in_bodies() {
    let request = |name: &str, more: Json| {
        let mut request = json!({"method": "POST", "url": "https://p.example/x"});
        request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"name": name, "request": request})
    };
    let raw = |text: &str| json!({"body": {"mode": "raw", "raw": text, "options": {"raw": {"language": "json"}}}});
    let collection = json!({"collection": {"info": {"name": "C"}, "item": [
        {"name": "F", "auth": {"type": "bearer", "bearer": [{"key": "token", "value": "l1teral"}]}, "item": [
            request("inherits", json!({})),
            request("own", json!({"auth": {"type": "noauth"}})),
        ]},
        request("body", raw(r#"{"n": {{count}}, "name": "Hi {{name}}", "password": "hunter2", "deep": [{"api_key": "{{key}}"}]}"#)),
        request("headers", json!({"header": [{"key": "Authorization", "value": "Bearer abc123"}, {"key": "Host", "value": "x"}]})),
        request("aws", json!({"auth": {"type": "awsv4", "awsv4": [{"key": "service", "value": "s3"}, {"key": "region", "value": "eu-west-1"},
            {"key": "accessKey", "value": "AKIA1"}, {"key": "secretKey", "value": "{{aws_secret}}"}]}})),
    ]}});
    let imported = read(&collection.to_string()).unwrap();
    let by_name = |slug: &str| http(imported.tools.iter().find(|tool| tool.slug.as_str() == slug).unwrap());
    assert_eq!(by_name("inherits").auth, Auth::Bearer { token: "${C_TOKEN}".to_owned() }.into());
    assert_eq!(by_name("own").auth, ToolAuth::Off);
    assert_eq!(
        by_name("body").body_template,
        r#"{"n": ${count}, "name": "Hi ${name}", "password": ${C_PASSWORD}, "deep": [{"api_key": "${C_KEY}"}]}"#
    );
    assert_eq!(by_name("headers").headers["Authorization"], "Bearer ${C_AUTHORIZATION}");
    assert!(matches!(&by_name("aws").auth, ToolAuth::Own(block) if matches!(&block.auth, Auth::SigV4(_))));
    let stored = format!("{imported:?}");
    for secret in ["l1teral", "hunter2", "abc123", "AKIA1"] {
        assert!(!stored.contains(secret), "{secret}");
    }
    assert!(listed(&imported).contains("'Host' is not a tool's to set"));
}

#[test]
fn workflows_share_parameters_and_refer_to_inputs() {
    let document = json!({
        "arazzo": "1.0.1", "info": {"title": "W", "version": "1"},
        "sourceDescriptions": [{"name": "api", "url": "./openapi.yaml", "type": "openapi"}],
        "components": {"inputs": {"who": {"type": "object", "required": ["name"], "properties": {"name": {"$ref": "#/components/inputs/text"}}},
                                  "text": {"type": "string"}}},
        "workflows": [{"workflowId": "w", "inputs": {"$ref": "#/components/inputs/who"},
            "parameters": [{"name": "lang", "in": "query", "value": "de"}, {"name": "page", "in": "query", "value": 1}],
            "steps": [{"stepId": "a", "operationId": "getIt", "parameters": [{"name": "page", "in": "query", "value": 2}],
                "onFailure": [{"name": "again", "type": "retry", "retryLimit": 2,
                    "criteria": [{"condition": "$statusCode == 503 || $statusCode == 429"}, {"condition": "$response.header.X == 1"}]}]}]}],
    });
    let imported = read(&document.to_string()).unwrap();
    let made = sequence(&imported.tools[0]);
    assert_eq!(Json::Object(made.steps[0].args.clone()), json!({"lang": "de", "page": 2}));
    assert_eq!(made.steps[0].retry.as_ref().unwrap().on, ["503", "429"]);
    let schema = imported.tools[0].draft.arg_schema();
    assert_eq!((&schema["required"], &schema["$defs"]["text"]), (&json!(["name"]), &json!({"type": "string"})));
    assert!(listed(&imported).contains("'$response.header.X == 1' of its retry is not checked"));
}
