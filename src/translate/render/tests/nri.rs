//! What NRI plugins get of a container.

use super::records::container_record;
use crate::{
    model::record::{ContainerRecord, Process},
    translate::render::nri::{ContainerView, container},
    wire::nri,
};

fn shown(record: &ContainerRecord) -> nri::Container {
    container(&ContainerView { record, resources: Default::default(), pod: None, engine: None })
}

/// A plugin may put its own program before the command line, and sends the whole command line back.
#[test]
fn plugins_get_the_command_line_of_the_image() {
    let command_line = vec!["/entry".to_owned(), "serve".to_owned()];
    let record = ContainerRecord { command_line, ..container_record(Process::Created) };
    assert_eq!(shown(&record).args, ["/entry", "serve"]);
}
