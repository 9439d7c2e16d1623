//! Integration tests of aws-wire: the codecs against AWS's own client library (`botocore`), and against requests that
//! no such library would send.

mod botocore;
mod canonical;
mod errors;
mod literal;
mod refused;
mod routes;
