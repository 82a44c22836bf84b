//! What a model reads before it calls anything: the description of `run`, with the available packs, and the
//! instructions. Both cost tokens in every conversation, so their size is bounded whatever the toolbox holds.

use std::sync::Arc;

use onetool_run::{Shared as Tools, pack_overview};
use onetool_sdk::Requester;

use crate::Service;

/// The text before and after the packs.
const HEAD: &str = "\
Run Python with every tool at hand as pack.function(name=value). The value of the last expression is the result; print() works too.
Find tools: ot.help(query='what you need') has signatures; ot.packs(); ot.tools(pattern='x').
Packs: ";
const TAIL: &str = "
Tools are called plainly or together: await asyncio.gather(a.f(), b.g()). Their errors are Python exceptions. Make all calls in one run and filter data in code: runs share no names, unless they begin with __session__ = 'name'. $name key=value runs a snippet. Large results are stored: ot.result(handle=...). __format__ = 'json' | 'yml' | 'raw'.";

const INSTRUCTIONS: &str = "\
One tool, run(command): Python in a sandbox, with all other tools as pack.function(...). Start with ot.help().";

/// Maximum size of the packs, so that tools/list and the instructions stay below 1,600 bytes together.
const PACKS_BYTES: usize = 520;

/// The description of `run`.
pub(super) fn run(service: &dyn Service, tools: &Tools) -> String {
    if let Some(description) = service.served().run_description.clone() {
        return description;
    }
    format!("{HEAD}{}{TAIL}", pack_overview(&tools.state, PACKS_BYTES))
}

/// Returns the description of `run`, read on a blocking thread: tool files may have to be read.
pub(super) async fn read(service: Arc<dyn Service>, requester: Arc<Requester>) -> Option<String> {
    let reading = move || run(&*service, &service.runner().toolbox().now_for(&requester));
    crate::task::blocking(reading).await.ok()
}

pub(super) fn instructions(service: &dyn Service) -> String {
    service.served().instructions.clone().unwrap_or_else(|| INSTRUCTIONS.to_owned())
}
