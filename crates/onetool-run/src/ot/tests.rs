//! Edges of the pack, through the catalog and a real source, as the call path would do it. Its scenarios are tested through
//! the real server, in `crates/onetool/tests/it/ot_pack/`.

mod fixture;

mod discovery;
mod help;
mod reports;
mod stored;
