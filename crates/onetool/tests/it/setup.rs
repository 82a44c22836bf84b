//! Setup: servers of other clients are imported, the configuration is edited in place, and the doctor reports what is
//! missing.

use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};

use crate::client::{BINARY, Project};

/// A command's output.
struct Outcome {
    code: i32,
    out: String,
    err: String,
}

async fn outcome_in(project: &Project, folder: &Path, arguments: &[&str]) -> Outcome {
    let output = project.command(arguments).current_dir(folder).output().await.unwrap();
    Outcome {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

async fn outcome(project: &Project, arguments: &[&str]) -> Outcome {
    outcome_in(project, project.path(), arguments).await
}

fn read(project: &Project, path: &str) -> String {
    std::fs::read_to_string(project.path().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Six servers in the files of six clients, with everything that makes an import difficult.
fn with_clients(configuration: &str) -> Project {
    let project = Project::with(configuration);
    project.write(
        "home/.cursor/mcp.json",
        r#"{
  // Mine.
  "mcpServers": {
    "github": {"command": "npx", "args": ["-y", "gh-server"], "env": {"GITHUB_TOKEN": "ghp_0123456789abcdef0123"}},
    "onetool": {"command": "onetool", "args": ["serve"]},
  },
  "other": true,
}
"#,
    );
    project.write(
        "home/.config/Claude/claude_desktop_config.json",
        r#"{"mcpServers": {"github": {"command": "docker", "args": ["run", "gh"]}, "time": {"command": "uvx", "args": ["mcp-server-time"]}}}"#,
    );
    project.write(
        ".vscode/mcp.json",
        r#"{"inputs": [{"id": "db-key", "type": "promptString", "description": "Key of the database"}],
            "servers": {"db": {"type": "http", "url": "https://db.example.org/mcp", "headers": {"Authorization": "Bearer ${input:db-key}"}}}}"#,
    );
    project.write(
        "home/.codex/config.toml",
        "model = \"x\" # mine\n\n[mcp_servers.docs]\ncommand = \"docs\"\nargs = [\"${HOME}\"]\n\n[other]\ny = 1\n",
    );
    project.write(
        "home/.config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
        r#"{"mcpServers": {"notes": {"command": "notes", "disabled": true, "alwaysAllow": ["read_note"]}}}"#,
    );
    project.write(".mcp.json", r#"{"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}}"#);
    project
}

#[tokio::test]
async fn servers_of_all_clients_are_imported() {
    let before = "# Ours.\nalias: {ls: file.list}  # short\n";
    let project = with_clients(before);
    let shown = outcome(&project, &["import"]).await;
    assert_eq!(shown.code, 0, "{}{}", shown.out, shown.err);
    for expected in [
        "add as github-cursor",
        "configured already",
        "skip: this is OneTool itself",
        "GITHUB_TOKEN",
        "DB_KEY (Key of the database)",
    ] {
        assert!(shown.out.contains(expected), "{expected}: {}", shown.out);
    }
    assert!(!shown.out.contains("ghp_0123"), "{}", shown.out);
    assert!(shown.err.contains("--write"));
    assert_eq!(read(&project, ".onetool/onetool.yaml"), before);

    let written = outcome(&project, &["import", "--write"]).await;
    assert_eq!(written.code, 0, "{}{}", written.out, written.err);
    let text = read(&project, ".onetool/onetool.yaml");
    assert!(text.starts_with(before), "{text}");
    let value: Json = serde_saphyr::from_str(&text).unwrap();
    assert_eq!(
        value["servers"],
        json!({
            "github": {"command": "docker", "args": ["run", "gh"]},
            "time": {"command": "uvx", "args": ["mcp-server-time"]},
            "github-cursor": {"command": "npx", "args": ["-y", "gh-server"], "env": {"GITHUB_TOKEN": "${GITHUB_TOKEN}"}},
            "db": {"url": "https://db.example.org/mcp", "headers": {"Authorization": "Bearer ${DB_KEY}"}},
            "docs": {"command": "docs", "args": ["${HOME}"], "env_allow": ["HOME"]},
            "notes": {"command": "notes", "enabled": false},
        })
    );
    assert_eq!(value["security"]["policy"], json!({"notes.read_note": "allow"}));
    assert_eq!(read(&project, ".onetool/secrets.yaml"), "GITHUB_TOKEN: ghp_0123456789abcdef0123\n");
    assert!(read(&project, ".onetool/.gitignore").contains("secrets.yaml"));
    // A second import changes nothing.
    let again = outcome(&project, &["import", "--write"]).await;
    assert_eq!(read(&project, ".onetool/onetool.yaml"), text, "{}", again.out);
    assert!(again.err.contains("there is nothing to write"), "{}", again.err);
}

#[tokio::test]
async fn a_client_is_pointed_at_onetool_and_back() {
    let project = with_clients("");
    let cursor = read(&project, "home/.cursor/mcp.json");
    let codex = read(&project, "home/.codex/config.toml");
    let done = outcome(&project, &["import", "--client", "cursor", "--client", "codex", "--write"]).await;
    assert_eq!(done.code, 0, "{}{}", done.out, done.err);
    let changed = read(&project, "home/.cursor/mcp.json");
    assert!(
        changed.contains("// Mine.") && changed.contains("\"other\": true") && !changed.contains("gh-server"),
        "{changed}"
    );
    assert!(changed.contains(BINARY) && changed.contains("--project"), "{changed}");
    let toml: Json = toml::from_str(&read(&project, "home/.codex/config.toml")).unwrap();
    assert_eq!(toml["mcp_servers"].as_object().unwrap().len(), 1, "{toml}");
    assert_eq!(toml["other"]["y"], 1);
    let back = outcome(&project, &["export", "--client", "cursor", "--client", "codex", "--write"]).await;
    assert_eq!(back.code, 0, "{}{}", back.out, back.err);
    assert_eq!(read(&project, "home/.cursor/mcp.json"), cursor);
    assert_eq!(read(&project, "home/.codex/config.toml"), codex);
}

/// A server that only the client can start stays, and a client without servers gets OneTool too.
#[tokio::test]
async fn a_client_keeps_what_cannot_be_moved_and_one_without_servers_is_pointed_at_onetool() {
    let project = Project::empty();
    project.write(
        "home/.config/zed/settings.json",
        r#"{"theme": "x", "context_servers": {"clock": {"command": "c"}, "own": {"source": "extension", "settings": {}}}}"#,
    );
    project.write("home/.claude.json", r#"{"history": [1]}"#);
    let servers = |path: &str, key: &str| -> Vec<String> {
        let file: Json = serde_json::from_str(&read(&project, path)).unwrap();
        let mut names: Vec<String> =
            file[key].as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
        names.sort();
        names
    };
    for _ in 0..2 {
        let done = outcome(
            &project,
            &["import", "--client", "zed", "--client", "windsurf", "--client", "claude-code", "--write"],
        )
        .await;
        assert_eq!(done.code, 0, "{}{}", done.out, done.err);
        assert_eq!(servers("home/.config/zed/settings.json", "context_servers"), ["onetool", "own"]);
        assert_eq!(servers("home/.codeium/windsurf/mcp_config.json", "mcpServers"), ["onetool"]);
        assert_eq!(servers("home/.claude.json", "mcpServers"), ["onetool"]);
        assert!(read(&project, "home/.claude.json").contains("\"history\": [1]"));
        assert!(read(&project, ".onetool/onetool.yaml").contains("clock:"));
        let back = outcome(
            &project,
            &["export", "--client", "zed", "--client", "windsurf", "--client", "claude-code", "--write"],
        )
        .await;
        assert_eq!(back.code, 0, "{}{}", back.out, back.err);
        assert_eq!(servers("home/.config/zed/settings.json", "context_servers"), ["clock", "own"]);
        // Files created for OneTool are removed, and existing ones are restored.
        assert!(!project.path().join("home/.codeium/windsurf/mcp_config.json").exists());
        assert_eq!(read(&project, "home/.claude.json"), r#"{"history": [1]}"#);
    }
}

#[tokio::test]
async fn older_places_and_sign_ins_are_imported_too() {
    let project = Project::empty();
    project.write(".vscode/settings.json", r#"{"mcp": {"servers": {"old": {"command": "old"}}}}"#);
    project.write("home/.codex/config.toml", "[mcp_servers.docs]\ncommand = \"docs\"\nenv_vars = [\"DOCS_HOME\"]\n");
    project.write(
        "opencode.json",
        r#"{"mcp": {"far": {"type": "remote", "url": "https://far.example.org", "oauth": {"clientId": "me", "clientSecret": "s3cret-value", "scope": "read write"}}}}"#,
    );
    let done = outcome(&project, &["import", "--write"]).await;
    assert_eq!(done.code, 0, "{}{}", done.out, done.err);
    let value: Json = serde_saphyr::from_str(&read(&project, ".onetool/onetool.yaml")).unwrap();
    assert_eq!(
        value["servers"],
        json!({
            "old": {"command": "old"},
            "docs": {"command": "docs", "env_allow": ["DOCS_HOME"]},
            "far": {"url": "https://far.example.org", "auth": {"client_id": "me", "client_secret": "${FAR_CLIENT_SECRET}", "scopes": ["read", "write"]}},
        })
    );
    assert!(read(&project, ".onetool/secrets.yaml").contains("FAR_CLIENT_SECRET: s3cret-value"));
}

#[tokio::test]
async fn servers_are_added_switched_and_removed_in_place() {
    let before = "# Ours.\nservers:\n  # The first.\n  old: {command: old}\nalias: {}\n";
    let project = Project::with(before);
    let added =
        outcome(&project, &["servers", "add", "my-time", "--env", "API_KEY=s3cret", "--", "uvx", "mcp-server-time"])
            .await;
    assert_eq!(added.code, 0, "{}{}", added.out, added.err);
    assert!(added.out.contains("its pack is my_time"), "{}", added.out);
    let entry =
        "  my-time:\n    command: uvx\n    args: [mcp-server-time]\n    env:\n      API_KEY: \"${MY_TIME_API_KEY}\"\n";
    assert_eq!(
        read(&project, ".onetool/onetool.yaml"),
        before.replace("alias: {}\n", &format!("{entry}alias: {{}}\n"))
    );
    assert_eq!(read(&project, ".onetool/secrets.yaml"), "MY_TIME_API_KEY: s3cret\n");
    let twice = outcome(&project, &["servers", "add", "my_time", "--url", "https://example.org"]).await;
    assert!(twice.code == 1 && twice.err.contains("is configured already"), "{}", twice.err);
    assert_ne!(outcome(&project, &["servers", "add", "nothing"]).await.code, 0);

    assert_eq!(outcome(&project, &["servers", "disable", "old"]).await.code, 0);
    let listed: Json = serde_json::from_str(&outcome(&project, &["servers", "list", "--json"]).await.out).unwrap();
    assert_eq!(listed[0]["state"], "disabled", "{listed}");
    assert_eq!(outcome(&project, &["servers", "enable", "old"]).await.code, 0);
    assert_eq!(outcome(&project, &["servers", "remove", "my_time"]).await.code, 0);
    let text = read(&project, ".onetool/onetool.yaml");
    assert!(text.contains("# The first.\n") && !text.contains("my-time"), "{text}");
    let unknown = outcome(&project, &["servers", "remove", "nobody"]).await;
    assert!(unknown.code == 1 && unknown.err.contains("there are: old"), "{}", unknown.err);
}

/// Many users keep their settings elsewhere, under version control, behind a link.
#[cfg(unix)]
#[tokio::test]
async fn links_and_permissions_of_edited_files_stay() {
    use std::os::unix::fs::PermissionsExt as _;

    let project = with_clients("");
    let real = project.write("dotfiles/mcp.json", r#"{"mcpServers": {"a": {"command": "a"}}}"#);
    std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o640)).unwrap();
    let link = project.path().join("home/.cursor/mcp.json");
    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let done = outcome(&project, &["import", "--client", "cursor", "--write"]).await;
    assert_eq!(done.code, 0, "{}{}", done.out, done.err);
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert!(std::fs::read_to_string(&real).unwrap().contains("onetool"));
    assert_eq!(real.metadata().unwrap().permissions().mode() & 0o777, 0o640);
    let secrets = project.path().join(".onetool/secrets.yaml");
    assert!(!secrets.exists() || secrets.metadata().unwrap().permissions().mode() & 0o077 == 0);
}

#[tokio::test]
async fn the_project_is_found_from_below_or_by_name() {
    let project = Project::with("alias: {v: ot.version}\n");
    let below = project.path().join("src/deep");
    std::fs::create_dir_all(&below).unwrap();
    let found = outcome_in(&project, &below, &["run", "v()"]).await;
    assert_eq!(found.out.trim(), env!("CARGO_PKG_VERSION"), "{}", found.err);
    assert!(!below.join(".onetool").exists());
    let elsewhere = tempfile::tempdir().unwrap();
    let folder = project.path().to_str().unwrap();
    let named = outcome_in(&project, elsewhere.path(), &["--project", folder, "run", "v()"]).await;
    assert_eq!(named.out.trim(), env!("CARGO_PKG_VERSION"), "{}", named.err);
    let variable = project
        .command(&["run", "v()"])
        .current_dir(elsewhere.path())
        .env("ONETOOL_PROJECT", folder)
        .output()
        .await
        .unwrap();
    assert!(variable.status.success());
    let missing = outcome(&project, &["--project", "/no/such/folder", "run", "1"]).await;
    assert!(missing.code == 2 && missing.err.contains("this folder does not exist"), "{}", missing.err);
}

#[tokio::test]
async fn the_doctor_checks_everything_and_says_what_to_do() {
    let project = Project::with("servers:\n  gone: {command: no-such-program-anywhere}\n");
    let report = outcome(&project, &["doctor", "--json"]).await;
    assert_eq!(report.code, 1, "{}", report.err);
    let findings: Json = serde_json::from_str(&report.out).unwrap();
    let of =
        |check: &str| findings.as_array().unwrap().iter().find(|finding| finding["check"] == check).unwrap().clone();
    assert_eq!(of("sandbox")["status"], "ok", "{findings}");
    assert_eq!(of("configuration")["status"], "ok", "{findings}");
    assert_eq!(of("disk")["status"], "ok", "{findings}");
    let gone = of("server gone");
    assert_eq!(gone["status"], "problem");
    assert!(
        gone["detail"].as_str().unwrap().contains("no-such-program-anywhere") && gone["hint"].is_string(),
        "{gone}"
    );
    // Servers that need a secret, or are disabled, are reported.
    let project = Project::with(
        "servers:\n  off: {command: x, enabled: false}\n  keyed: {url: 'https://x.example.org', headers: {K: '${NOT_THERE}'}}\n  slow: {command: sleep, args: ['60'], timeout: 5}\n",
    );
    let report = outcome(&project, &["doctor", "--json"]).await;
    assert!(report.err.contains("slow: waiting for the answer to"), "{}", report.err);
    let findings: Json = serde_json::from_str(&report.out).unwrap();
    let hint = |check: &str| {
        let found = findings.as_array().unwrap().iter().find(|finding| finding["check"] == check).unwrap();
        found["hint"].as_str().unwrap().to_owned()
    };
    assert!(hint("server off").contains("onetool servers enable off"), "{findings}");
    assert!(hint("server keyed").contains("fix the configuration"), "{findings}");
    assert!(hint("server slow").contains("servers.slow.timeout"), "{findings}");
    assert!(report.out.contains("add it to secrets.yaml"), "{findings}");
    let fine = outcome(&Project::empty(), &["doctor"]).await;
    assert_eq!(fine.code, 0, "{}{}", fine.out, fine.err);
    assert!(fine.out.contains("ok") && fine.out.contains("version"), "{}", fine.out);
}

#[tokio::test]
async fn init_keeps_private_files_out_of_version_control_and_imports() {
    let project = with_clients("");
    std::fs::remove_file(project.path().join(".onetool/onetool.yaml")).unwrap();
    let done = outcome(&project, &["init", "--import"]).await;
    assert_eq!(done.code, 0, "{}{}", done.out, done.err);
    assert!(read(&project, ".onetool/onetool.yaml").contains("\nservers:\n"));
    let ignored = read(&project, ".onetool/.gitignore");
    assert!(ignored.contains("secrets.yaml") && ignored.contains("logs/"), "{ignored}");
    // A new project is created in the current folder.
    let below = project.path().join("inner");
    std::fs::create_dir_all(&below).unwrap();
    assert_eq!(outcome_in(&project, &below, &["init"]).await.code, 0);
    assert!(below.join(".onetool/onetool.yaml").is_file());
}

#[tokio::test]
async fn a_pack_with_a_dash_in_its_server_is_explained() {
    let project = Project::with(&format!("servers:\n  my-github: {{command: \"{BINARY}\", args: [serve]}}\n"));
    let client = project.serve().await;
    let error = client.err("my-github.list_issues(q=1)").await;
    assert!(error.contains("the pack is named my_github"), "{error}");
}

/// The files in `cases/clients`, as nine clients write them.
fn with_real_clients() -> Project {
    let project = Project::empty();
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cases/clients");
    for (from, to) in [("home", "home"), ("project", ".")] {
        copy_all(&cases.join(from), &project.path().join(to));
    }
    let claude = read(&project, "home/.claude.json");
    project.write("home/.claude.json", &claude.replace("PROJECT", &project.path().display().to_string()));
    project
}

fn copy_all(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_all(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Every file below a folder with its content, except our backups.
fn files_below(folder: &Path) -> std::collections::BTreeMap<PathBuf, Vec<u8>> {
    let mut found = std::collections::BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_below(&path));
        } else if !path.to_string_lossy().contains(".onetool") {
            let content = std::fs::read(&path).unwrap();
            found.insert(path, content);
        }
    }
    found
}

#[tokio::test]
async fn files_as_clients_write_them_are_imported() {
    let project = with_real_clients();
    let shown = outcome(&project, &["import", "--write"]).await;
    assert_eq!(shown.code, 0, "{}{}", shown.out, shown.err);
    let expected =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cases/clients/expected.yaml"))
            .unwrap();
    let value = |text: &str| serde_saphyr::from_str::<Json>(text).unwrap();
    let written = read(&project, ".onetool/onetool.yaml");
    let secrets = read(&project, ".onetool/secrets.yaml");
    let all = json!({"configuration": value(&written), "secrets": value(&secrets)});
    assert_eq!(all, value(&expected), "{written}\n{secrets}");
    for secret in value(&secrets).as_object().unwrap().values() {
        let secret = secret.as_str().unwrap();
        assert!(!shown.out.contains(secret) && !written.contains(secret), "{secret}");
    }
    // The written configuration is valid.
    let health = outcome(&project, &["servers", "list", "--json"]).await;
    assert_eq!(health.code, 0, "{}{}", health.out, health.err);
    let listed: Json = serde_json::from_str(&health.out).unwrap();
    let names = |servers: &Json| -> Vec<String> {
        servers.as_array().unwrap().iter().map(|server| server["name"].as_str().unwrap().to_owned()).collect()
    };
    let configured: Vec<String> = value(&written)["servers"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(names(&listed), configured);
}

#[tokio::test]
async fn every_client_gets_its_file_back_byte_for_byte() {
    let project = with_real_clients();
    let before = files_below(project.path());
    let clients =
        ["claude-desktop", "claude-code", "cursor", "vscode", "windsurf", "codex", "zed", "cline", "opencode"];
    let with_clients = |command: &'static str| {
        let named = clients.iter().flat_map(|client| ["--client", client]);
        std::iter::once(command).chain(named).chain(["--write"]).collect::<Vec<_>>()
    };
    let done = outcome(&project, &with_clients("import")).await;
    assert_eq!(done.code, 0, "{}{}", done.out, done.err);
    let between = files_below(project.path());
    let unchanged: Vec<_> = before.iter().filter(|(path, text)| between.get(*path) == Some(*text)).collect();
    assert_eq!(unchanged.len(), 1, "only the file of variables stays as it is: {unchanged:?}");
    // The diff contains no secret.
    let secrets: Json = serde_saphyr::from_str(&read(&project, ".onetool/secrets.yaml")).unwrap();
    for secret in secrets.as_object().unwrap().values() {
        assert!(!done.out.contains(secret.as_str().unwrap()), "{secret}\n{}", done.out);
    }
    let back = outcome(&project, &with_clients("export")).await;
    assert_eq!(back.code, 0, "{}{}", back.out, back.err);
    let after = files_below(project.path());
    for (path, text) in &before {
        let now = after.get(path).map(|text| String::from_utf8_lossy(text).into_owned());
        assert_eq!(now.as_deref(), Some(&*String::from_utf8_lossy(text)), "{}", path.display());
    }
    assert_eq!(after.len(), before.len());
}

/// Changes that a client made to its file meanwhile are kept.
#[tokio::test]
async fn what_was_added_since_the_import_stays() {
    let project = with_real_clients();
    let clients = ["--client", "cursor", "--client", "codex", "--client", "zed", "--write"];
    let run = |command: &'static str| std::iter::once(command).chain(clients).collect::<Vec<_>>();
    assert_eq!(outcome(&project, &run("import")).await.code, 0);
    let cursor =
        read(&project, "home/.cursor/mcp.json").replace("\"onetool\":", "\"new\": {\"command\": \"n\"},\n\"onetool\":");
    project.write("home/.cursor/mcp.json", &cursor);
    let codex = format!("{}\n[mcp_servers.new]\ncommand = \"n\"\n", read(&project, "home/.codex/config.toml"));
    project.write("home/.codex/config.toml", &codex.replace("gpt-5", "gpt-6"));
    let zed = read(&project, "home/.config/zed/settings.json").replace("One Dark", "One Light");
    project.write("home/.config/zed/settings.json", &zed);
    let back = outcome(&project, &run("export")).await;
    assert_eq!(back.code, 0, "{}{}", back.out, back.err);
    let cursor: Json = serde_json::from_str(&read(&project, "home/.cursor/mcp.json")).unwrap();
    let names: Vec<&String> = cursor["mcpServers"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["github", "time", "brave", "new"]);
    let codex = read(&project, "home/.codex/config.toml");
    let parsed: Json = toml::from_str(&codex).unwrap();
    let names: Vec<&String> = parsed["mcp_servers"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["context7", "figma", "new"], "{codex}");
    assert!(codex.contains("gpt-6") && codex.contains("# Keep this."), "{codex}");
    let original = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cases/clients/home/.config/zed/settings.json"),
    )
    .unwrap();
    assert_eq!(read(&project, "home/.config/zed/settings.json"), original.replace("One Dark", "One Light"));
}

/// Importing another OneTool configuration includes its includes, and the secrets that its servers name.
#[tokio::test]
async fn a_onetool_configuration_is_imported_with_its_secrets() {
    let project = Project::empty();
    project.write(
        "old/config/onetool.yaml",
        "include: [servers.yaml]\nservers:\n  a: {command: x, env: {T: '${A_TOKEN}'}}\n",
    );
    project
        .write("old/config/servers.yaml", "servers:\n  a: {command: other}\n  b: {url: 'https://b.example.org/mcp'}\n");
    project.write("old/config/secrets.yaml", "A_TOKEN: abc-123\nUNUSED: other\n");
    let done = outcome(&project, &["import", "old/config/onetool.yaml", "--write"]).await;
    assert_eq!(done.code, 0, "{}{}", done.out, done.err);
    let written: Json = serde_saphyr::from_str(&read(&project, ".onetool/onetool.yaml")).unwrap();
    let expected =
        json!({"a": {"command": "x", "env": {"T": "${A_TOKEN}"}}, "b": {"url": "https://b.example.org/mcp"}});
    assert_eq!(written["servers"], expected);
    assert_eq!(read(&project, ".onetool/secrets.yaml"), "A_TOKEN: abc-123\n");
}
