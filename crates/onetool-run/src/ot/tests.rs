//! Every scenario of the pack, through the catalog and a real source, as the call path would do it.

mod fixture;

mod discovery;
mod help;
mod reports;
mod stored;
