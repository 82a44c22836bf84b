//! Exported archives can be imported again, and malicious ones are refused.

use std::collections::HashMap;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::DeflateEncoder;

use super::zip::{Entry, write};
use super::*;

struct Vault(HashMap<&'static str, &'static str>);

impl Secrets for Vault {
    fn get(&self, _: &str, name: &str) -> Option<String> {
        self.0.get(name).map(|value| (*value).to_owned())
    }
}

fn sample() -> (Bundle, Vec<Tool>) {
    let id = BundleId::generate();
    let bundle = serde_json::from_value(json!({
        "bundleID": id, "slug": "wetter", "displayName": "Weather", "secrets": ["KEY"],
        "translations": {"de": {"displayName": "Wetter"}}, "createdAt": Utc::now(), "modifiedAt": Utc::now(),
    }))
    .unwrap();
    let tool = |slug: &str, version: &str| {
        serde_json::from_value(json!({
            "toolID": ToolId::generate(), "bundleID": id, "slug": slug, "version": version, "type": "http",
            "impl": {"urlTemplate": "https://w.example/?k=${KEY}", "headers": {"X-Literal": "v4lue-of-key"}},
            "createdAt": Utc::now(), "modifiedAt": Utc::now(),
        }))
        .unwrap()
    };
    (bundle, vec![tool("now", ".."), tool("größe", "v1"), tool("now", "v1")])
}

fn read(bytes: &[u8]) -> Result<Archive, String> {
    open_archive(bytes, &ImportSettings::default())?.read()
}

#[test]
fn the_same_content_gives_the_same_bytes_and_comes_back() {
    let vault = Vault(HashMap::from([("KEY", "v4lue-of-key")]));
    let (bundle, tools) = sample();
    let bytes = export_bundle(&bundle, &tools, &vault).unwrap();
    let (other, mut others) = sample();
    others.reverse();
    assert_eq!(export_bundle(&other, &others, &vault).unwrap(), bytes, "neither ids, times nor order matter");
    assert!(!String::from_utf8_lossy(&bytes).contains("v4lue-of-key"));
    let archive = read(&bytes).unwrap();
    assert_eq!((archive.bundle.slug.as_str(), archive.bundle.translations.0.len()), ("wetter", 1));
    let names: Vec<String> = archive.tools.iter().map(|(slug, version, _)| format!("{slug} {version}")).collect();
    assert_eq!(names, ["größe v1", "now ..", "now v1"]);
}

fn entry(name: &str, content: &str) -> Entry {
    Entry { name: name.to_owned(), content: content.as_bytes().to_vec() }
}

fn with_manifest(mut entries: Vec<Entry>) -> Vec<u8> {
    let files: BTreeMap<&str, String> = entries.iter().map(|one| (one.name.as_str(), sha256(&one.content))).collect();
    let manifest = json!({"format": FORMAT, "version": 1, "files": files}).to_string();
    entries.insert(0, entry(MANIFEST, &manifest));
    write(&entries).unwrap()
}

#[test]
fn archives_made_to_harm_are_refused() {
    let bundle = r#"{"slug": "x"}"#;
    assert!(read(&with_manifest(vec![entry(BUNDLE, bundle)])).is_ok());
    for name in ["../x.json", "/etc/x", "tools/../../x", "a\\b", "c:x", "tools//x", "./x", ""] {
        let error = read(&with_manifest(vec![entry(BUNDLE, bundle), entry(name, "{}")])).unwrap_err();
        assert!(error.contains("name"), "{name}: {error}");
    }
    let twice = vec![entry(BUNDLE, bundle), entry("tools/a.json", "{}"), entry("tools/A.json", "{}")];
    assert!(read(&with_manifest(twice)).unwrap_err().contains("twice"));
    let extra =
        write(&[entry(MANIFEST, r#"{"format": "onetool-bundle", "version": 1, "files": {}}"#), entry(BUNDLE, bundle)])
            .unwrap();
    assert!(read(&extra).unwrap_err().contains("not in the manifest"));
    let good = with_manifest(vec![entry(BUNDLE, bundle)]);
    // A symbolic link, by the mode in the directory.
    let mut link = good.clone();
    let mode = (0o120_777_u32 << 16).to_le_bytes();
    let plain = (0o100_644_u32 << 16).to_le_bytes();
    let at = link.windows(4).rposition(|window| window == plain).unwrap();
    link[at..at + 4].copy_from_slice(&mode);
    assert!(read(&link).unwrap_err().contains("not a plain file"));
    // A changed byte.
    let mut damaged = good.clone();
    let at = damaged.windows(4).position(|window| window == b"slug").unwrap();
    damaged[at] = b'S';
    assert!(read(&damaged).unwrap_err().contains("damaged"));
    for cut in [0, 1, 10, good.len() / 2, good.len() - 1] {
        assert!(read(&good[..cut]).is_err());
    }
    let few = ImportSettings { max_archive_bytes: 10, ..ImportSettings::default() };
    assert!(open_archive(&good, &few).unwrap_err().contains("at most"));
}

/// An archive with one deflated file whose directory entry claims the size `said`.
fn bomb(content: &[u8], said: u32) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(content).unwrap();
    let packed = encoder.finish().unwrap();
    let mut bytes = write(&[Entry { name: "bundle.json".to_owned(), content: packed.clone() }]).unwrap();
    let directory = bytes.windows(4).position(|window| window == 0x0201_4b50_u32.to_le_bytes()).unwrap();
    let mut crc = flate2::Crc::new();
    crc.update(content);
    for (start, offset) in [(0, 8), (directory, 10)] {
        bytes[start + offset..start + offset + 2].copy_from_slice(&8_u16.to_le_bytes());
        bytes[start + offset + 6..start + offset + 10].copy_from_slice(&crc.sum().to_le_bytes());
        bytes[start + offset + 14..start + offset + 18].copy_from_slice(&said.to_le_bytes());
    }
    bytes
}

#[test]
fn what_unpacks_to_more_than_it_says_or_may_is_refused() {
    let zeros = vec![b' '; 4 << 20];
    let fine = bomb(&zeros, zeros.len() as u32);
    assert!(read(&fine).unwrap_err().contains("manifest"), "{:?}", read(&fine));
    assert!(read(&bomb(&zeros, 100)).unwrap_err().contains("size"));
    let small = ImportSettings { max_unpacked_bytes: 1 << 20, ..ImportSettings::default() };
    assert!(open_archive(&fine, &small).unwrap_err().contains("unpacks to"));
}
