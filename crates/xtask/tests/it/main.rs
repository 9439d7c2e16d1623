//! Tests over the whole workspace rather than one room of it.

mod dependencies;
mod layers;
