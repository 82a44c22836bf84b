use crate::toolbox::Toolbox;
use onetool_sdk::ToolSource as _;

#[tokio::test(flavor = "multi_thread")]
async fn reading_a_file_does_not_run_it() {
    let tools = Toolbox::new(&[("r", "open('ran', 'w')\ndef f(): return 1\n")]);
    assert_eq!(tools.source.packs()[0].tools.len(), 1);
    assert!(!tools.folder.path().join("ran").exists());
    assert_eq!(tools.int("r.f").await, 1);
    assert!(tools.folder.path().join("ran").exists(), "the call does");
}
