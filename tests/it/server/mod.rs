//! Tests the whole dockbridge server through its socket, with the fake dockerd: bad input, failures of the
//! engine and of plugins, callers that give up, and an engine that stops and starts.

#![allow(
    clippy::needless_update,
    clippy::type_complexity,
    clippy::redundant_field_names,
    reason = "requests are written as the fields that matter, whatever else the interface has"
)]

mod admin;
mod authorities;
mod bad_plugins;
mod events;
mod exec;
mod faults;
mod frames;
mod hostile;
mod hung;
mod idle_clients;
mod image_names;
mod largest;
mod lists;
mod log_paths;
mod logs;
mod networks;
mod old_clients;
mod outages;
mod plugin_order;
mod plugins;
mod pods;
mod random;
mod reload;
mod repeated_calls;
mod restored_pods;
mod second_server;
mod stats;
mod streams;
mod support_report;
mod traces;
mod variables;
