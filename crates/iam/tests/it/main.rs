//! The identity room against a real store: bootstrap, authentication, capabilities.

mod authenticate;
mod bootstrap;
mod client_token;
mod cloud;
