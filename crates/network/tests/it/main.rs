//! Integration tests of `network`: operations through the registry and the one access layer, capability, planner.

mod bad_inputs;
mod cloud;
mod defaults;
mod describes;
mod groups;
mod interfaces;
mod planner;
mod races;
mod tagging;
