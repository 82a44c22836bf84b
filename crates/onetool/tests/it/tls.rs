//! HTTPS with a certificate and a key in files, which may be replaced while the server runs.

use std::process::Command;

use reqwest::Method;

use crate::client::{PATIENCE, Project};

/// Writes a self-signed certificate with its key.
fn certificate(project: &Project, name: &str) {
    let folder = project.path().join(".onetool/tls");
    std::fs::create_dir_all(&folder).unwrap();
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"])
        .args([
            "-subj",
            &format!("/CN={name}"),
            "-addext",
            "subjectAltName=IP:127.0.0.1",
            "-addext",
            "basicConstraints=critical,CA:FALSE",
        ])
        .arg("-keyout")
        .arg(folder.join("new.key"))
        .arg("-out")
        .arg(folder.join("new.pem"))
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    // The key first: for a moment the two do not match, which the server must tolerate.
    std::fs::rename(folder.join("new.key"), folder.join("server.key")).unwrap();
    std::fs::rename(folder.join("new.pem"), folder.join("server.pem")).unwrap();
}

/// A client that trusts the current certificate.
fn client(project: &Project) -> reqwest::Client {
    let pem = std::fs::read(project.path().join(".onetool/tls/server.pem")).unwrap();
    onetool_outbound::client_builder().tls_certs_only([reqwest::Certificate::from_pem(&pem).unwrap()]).build().unwrap()
}

const CONFIGURATION: &str = "server: {tls: {certificate: tls/server.pem, key: tls/server.key}}\n";

#[tokio::test]
async fn https_is_served_and_a_new_certificate_drops_nobody() {
    let project = Project::with(CONFIGURATION);
    certificate(&project, "first");
    let server = project.serve_http().await;
    assert!(server.base.starts_with("https://127.0.0.1:"), "{}", server.base);
    let first = client(&project);
    let ready = format!("{}/readyz", server.base);
    // The body is read to its end, so that the connection is kept.
    let ask = async |client: reqwest::Client| {
        let answer = client.request(Method::GET, &ready).timeout(PATIENCE).send().await?;
        let status = answer.status().as_u16();
        answer.bytes().await.map(|_| status)
    };
    assert_eq!(ask(first.clone()).await.unwrap(), 200);
    // Plain HTTP fails, and the server continues.
    assert!(server.anonymous(Method::GET, "/readyz").send().await.is_err());
    let plain = ready.replace("https:", "http:");
    assert!(onetool_outbound::client_builder().build().unwrap().get(&plain).send().await.is_err());

    certificate(&project, "second");
    let second = client(&project);
    let until = tokio::time::Instant::now() + PATIENCE;
    while ask(second.clone()).await.is_err() {
        assert!(tokio::time::Instant::now() < until, "the new certificate is never used");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    // The first client's connection continues, although a new one would fail.
    assert_eq!(ask(first).await.unwrap(), 200);
    assert!(ask(client_of_the_first(&project)).await.is_err());

    // A broken file changes nothing.
    project.write(".onetool/tls/server.pem", "nonsense");
    let log = || std::fs::read_to_string(project.path().join(".onetool/logs/onetool.log")).unwrap_or_default();
    crate::client::eventually("the broken file is told of", || log().contains("the certificate in use stays")).await;
    assert_eq!(ask(second).await.unwrap(), 200);
    server.stop().await;
}

/// A client that trusts a certificate other than the server's.
fn client_of_the_first(_: &Project) -> reqwest::Client {
    let other = Project::with("");
    certificate(&other, "first");
    client(&other)
}

#[tokio::test]
async fn a_bad_certificate_is_told_with_file_and_reason() {
    let project = Project::with(CONFIGURATION);
    let start = || async {
        let output = project.command(&["serve", "--http", "127.0.0.1:0"]).output().await.unwrap();
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let said = start().await;
    assert!(said.contains("cannot read server.tls.certificate") && said.contains("server.pem"), "{said}");
    assert!(said.contains("No such file") && said.contains("hint:"), "{said}");
    certificate(&project, "one");
    let key = std::fs::read(project.path().join(".onetool/tls/server.key")).unwrap();
    certificate(&project, "two");
    std::fs::write(project.path().join(".onetool/tls/server.key"), key).unwrap();
    let said = start().await;
    assert!(said.contains("does not belong to the certificate"), "{said}");
    project.write(".onetool/tls/server.key", "-----BEGIN NONSENSE-----\n");
    let said = start().await;
    assert!(said.contains("cannot read server.tls.key"), "{said}");
    project.write(".onetool/onetool.yaml", "server: {tls: {certificate: tls/server.pem}}\n");
    let said = start().await;
    assert!(said.contains("needs both 'certificate' and 'key'"), "{said}");
}

#[tokio::test]
async fn no_tool_reads_the_key() {
    let project = Project::with("server: {tls: {certificate: ../keys/server.pem, key: ../keys/server.key}}\n");
    certificate(&project, "one");
    std::fs::rename(project.path().join(".onetool/tls"), project.path().join("keys")).unwrap();
    std::os::unix::fs::symlink(project.path().join("keys/server.key"), project.path().join("innocent.txt")).unwrap();
    let client = project.serve().await;
    for path in ["keys/server.key", "innocent.txt", "keys/../keys/server.key"] {
        let said = client.err(&format!("file.read('{path}')")).await;
        assert!(said.contains("PermissionError") && !said.contains("PRIVATE KEY"), "{path}: {said}");
        let said = client.err(&format!("open('{path}').read()")).await;
        assert!(!said.contains("BEGIN PRIVATE KEY"), "{path}: {said}");
    }
    let found = client.run("file.grep('PRIVATE', path='keys')").await;
    assert!(!found.text.contains("BEGIN"), "{}", found.text);
}
